// Faulty peers: rubbish on the sockets, in the rings and in the tables harms only its sender.
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <random>
#include <thread>

#include "nic/shm/layout.hpp"
#include "nic/shm/message.hpp"
#include "nic/shm/wire.hpp"
#include "test/nic/rig.hpp"

using namespace penstock::nic::shm;
using rig::pair;
using rig::side;

namespace {

int connect_to(const ibv_gid& gid) {
  const int s = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  const socket_name at = name_of(nonce::of(gid), "");
  const sockaddr_un address = address_of(at);
  REQUIRE(::connect(s, reinterpret_cast<const sockaddr*>(&address), at.length) == 0);
  return s;
}

/// The arena of a context, as any process of its user may get it.
std::byte* arena_of(const ibv_gid& gid) {
  const int s = connect_to(gid);
  request q;
  q.kind = request_kind::hello;
  REQUIRE(send_packet(s, &q, sizeof q, nullptr, 0, -1) == 0);
  REQUIRE(wait_readable(s, 5000) == 0);
  reply a;
  int fd = -1;
  REQUIRE(receive_packet(s, &a, sizeof a, nullptr, 0, &fd) == 0);
  REQUIRE(fd >= 0);
  void* p = ::mmap(nullptr, arena_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  REQUIRE(p != MAP_FAILED);
  ::close(fd);
  ::close(s);
  return static_cast<std::byte*>(p);
}

/// A message still goes from one side to the other.
bool works(pair& p) {
  if (p.b.receive(1, 0, 64) != 0 || p.a.send(1, 0, 8) != 0) return false;
  return p.a.sent().status == IBV_WC_SUCCESS && p.b.received().status == IBV_WC_SUCCESS;
}

}  // namespace

TEST_CASE("rubbish on a context's sockets is dropped") {
  pair p;
  std::mt19937 random(5);
  const int loose = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  std::vector<std::byte> bytes(8192);
  for (int i = 0; i < 300; ++i) {
    for (auto& b : bytes) b = static_cast<std::byte>(random());
    const int s = connect_to(p.b.gid);
    request q;
    if (i % 3 != 0) {  // a polite beginning, then nonsense in every field
      q.kind = request_kind::hello;
      q.from = nonce::of(p.a.gid);
      REQUIRE(send_packet(s, &q, sizeof q, nullptr, 0, -1) == 0);
      std::memcpy(&q, bytes.data(), sizeof q);
      q.version = arena_version;
      q.kind = static_cast<request_kind>(random() % 12);
      if (i % 2 != 0) {
        q.qpn = p.b.qp->qp_num;
        q.src_qpn = p.a.qp->qp_num;
        if (q.kind == request_kind::access_error) q.qpn = 1;  // that one it may say of its own QP
      }
      send_packet(s, &q, sizeof q, bytes.data(), random() % 5000, -1);
    } else {
      ::send(s, bytes.data(), 1 + random() % bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    ::close(s);
    for (const char* suffix : {"-bell", "-ud"}) {
      const iovec part{bytes.data(), random() % 5000};
      send_to(loose, name_of(nonce::of(p.b.gid), suffix), &part, 1);
    }
  }
  ::close(loose);
  CHECK(works(p));
}

TEST_CASE("an atomic that is asked for again, since its answer did not come, is done once") {
  pair p;
  std::atomic_ref word(*reinterpret_cast<std::uint64_t*>(p.b.memory.data()));
  const int s = connect_to(p.b.gid);
  request q;
  q.kind = request_kind::hello;
  q.from = nonce::of(p.a.gid);
  const auto ask = [&] {
    reply a;
    int fd = -1;
    REQUIRE(send_packet(s, &q, sizeof q, nullptr, 0, -1) == 0);
    REQUIRE(wait_readable(s, 5000) == 0);
    REQUIRE(receive_packet(s, &a, sizeof a, nullptr, 0, &fd) == 0);
    if (fd >= 0) ::close(fd);
    REQUIRE(a.error == 0);
    return a.value;
  };
  ask();
  q.kind = request_kind::fetch_add;
  q.qpn = p.b.qp->qp_num;
  q.src_qpn = p.a.qp->qp_num;
  q.rkey = p.b.mr->rkey;
  q.address = reinterpret_cast<std::uint64_t>(p.b.memory.data());
  q.length = 8;
  q.operand = 5;
  for (const std::uint64_t number : {1, 1, 1, 2, 2}) {
    q.atomic = number;
    CHECK(ask() == 5 * (number - 1));
    CHECK(word.load() == 5 * number);
  }
  q.kind = request_kind::compare_swap;
  q.operand = 10;
  q.swap = 77;
  q.atomic = 3;
  for (int i = 0; i < 2; ++i) CHECK(ask() == 10);
  CHECK(word.load() == 77);
  ::close(s);
}

TEST_CASE("rubbish in a ring breaks its queue pair and nothing else") {
  std::mt19937_64 random(6);
  for (int round = 0; round < 100; ++round) {
    pair p;
    for (std::uint64_t i = 0; i < 32; ++i) REQUIRE(p.b.receive(i, i * 64, 64) == 0);
    REQUIRE(works(p));
    ring_tx* tx = direct_tx(p.a.qp);
    REQUIRE(tx != nullptr);
    ring_slot* slots = tx->memory().slots;
    for (std::uint32_t i = 0; i < tx->memory().geometry.slots; ++i) {
      auto control = static_cast<std::uint32_t>(random());
      if (random() % 2 != 0) control &= 0x3fff7f;  // likelier lengths and operations
      slots[i].header = random() % 4 != 0 ? random() % 100 : random();
      slots[i].state.store(std::uint64_t{control} << 32 | (i + 1), std::memory_order_release);
    }
    // Guards around the receives: nothing is written beyond them.
    std::fill(p.b.memory.begin() + 32 * 64, p.b.memory.end(), std::byte{0x55});
    ibv_wc wc[16];
    int polls = 0;
    while (p.b.state() == IBV_QPS_RTS && ++polls < 200) ibv_poll_cq(p.b.recv_cq, 16, wc);
    for (std::size_t i = 32 * 64; i < p.b.memory.size(); ++i)
      if (p.b.memory[i] != std::byte{0x55}) FAIL("written behind the receives at " << i);
  }
}

TEST_CASE("positions and claims that a peer scribbles over wedge nobody else") {
  rig::options o;
  o.srq_wr = 16;
  std::mt19937_64 random(7);
  for (int round = 0; round < 20; ++round) {
    pair p({}, o);
    for (std::uint64_t i = 0; i < 16; ++i) REQUIRE(p.b.receive(i, i * 64, 64) == 0);
    REQUIRE(p.a.send(1, 0, 8) == 0);
    CHECK(p.b.received().status == IBV_WC_SUCCESS);
    ring_shared* shared = direct_tx(p.a.qp)->memory().shared;
    shared->head.store(random());
    shared->data_head.store(random());
    for (int i = 0; i < 40; ++i) p.a.send(1, 0, 48, 0);
    ibv_wc wc[16];
    for (int i = 0; i < 100; ++i) ibv_poll_cq(p.b.recv_cq, 16, wc);
  }
}

TEST_CASE("a context whose whole tables were scribbled over harms neither itself nor its peers") {
  std::mt19937_64 random(8);
  for (int round = 0; round < 20; ++round) {
    pair p;
    side other;
    for (std::uint64_t i = 0; i < 16; ++i) REQUIRE(p.b.receive(i, i * 64, 64) == 0);
    REQUIRE(p.a.send(1, 0, 8) == 0);
    CHECK(p.b.received().status == IBV_WC_SUCCESS);
    std::byte* arena = arena_of(p.b.gid);
    for (const table_place& place : table_places)
      for (std::uint64_t i = 0; i < 8ull * place.entry_bytes; i += 8) {
        const std::uint64_t word = random() % 3 == 0 ? random() : random() % 4;
        std::memcpy(arena + place.offset + i, &word, sizeof word);
      }
    auto* header = reinterpret_cast<arena_header*>(arena);
    for (auto& used : header->used) used.store(static_cast<std::uint32_t>(random()));
    // The peer, and one that connects only now, go on asking for everything.
    const int connected = other.to_rtr(other.qp, p.b.gid, p.b.qp->qp_num);
    if (connected == 0) REQUIRE(other.to_rts(other.qp) == 0);
    for (side* s : {&p.a, &other}) {
      for (std::uint64_t i = 0; i < 8; ++i) s->send(i, 0, i * 40);
      s->post(9, IBV_WR_RDMA_WRITE, 0, 64, 0, [&](ibv_send_wr& wr) {
        wr.wr.rdma = {reinterpret_cast<std::uint64_t>(p.b.memory.data()), p.b.mr->rkey};
      });
      ibv_wc wc[8];
      for (int i = 0; i < 50; ++i) ibv_poll_cq(s->send_cq, 8, wc);
    }
    ibv_wc wc[8];
    for (int i = 0; i < 50; ++i) ibv_poll_cq(p.b.recv_cq, 8, wc);
    ::munmap(arena, arena_bytes);
  }
}
