// Connections of tcp0 that break: nothing is lost and nothing is done twice. What verbs says of a
// device is tested by conformance.tcp0.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <sys/resource.h>

#include <algorithm>
#include <thread>

#include "nic/tcp/network.hpp"
#include "test/nic/child.hpp"
#include "test/nic/rig.hpp"

namespace tcp = penstock::nic::tcp;
namespace shm = penstock::nic::shm;

namespace {

rig::options over_tcp() {
  rig::options o;
  o.tcp = true;
  o.timeout = 20;
  o.retry_cnt = 7;
  return o;
}

unsigned cut(const rig::side& s) {
  return static_cast<tcp::network&>(*penstock::nic::shm::of(s.context).carrier).cut();
}

}  // namespace

TEST_CASE("the keyed hash is SipHash-2-4") {
  // The vector of the authors' paper: key 00 01 … 0f, message 00 01 … 0e.
  unsigned char bytes[15];
  for (unsigned char i = 0; i < 15; ++i) bytes[i] = i;
  CHECK(tcp::hash({0x0706050403020100, 0x0f0e0d0c0b0a0908}, bytes, 15) == 0xa129ca6149be45e5);
}

TEST_CASE("messages arrive once and in order while connections break") {
  rig::pair p(over_tcp());
  constexpr std::uint32_t all = 3000, ahead = 32;
  std::uint64_t expected = 0, sent = 0, finished = 0;
  unsigned cuts = 0, broken = 0;
  for (std::uint64_t i = 0; i < ahead; ++i) REQUIRE(p.b.receive(i, 4096 + 64 * i, 64) == 0);
  const bool done = rig::wait_for([&] {
    for (; sent < all && sent - finished < ahead; ++sent) {
      const std::size_t place = 64 * (sent % ahead);
      std::memcpy(p.a.memory.data() + place, &sent, sizeof sent);
      REQUIRE(p.a.send(sent, place, 64) == 0);
    }
    ibv_wc wc;
    while (ibv_poll_cq(p.a.send_cq, 1, &wc) != 0) {
      REQUIRE(wc.status == IBV_WC_SUCCESS);
      REQUIRE(wc.wr_id == finished++);
      if (finished % 100 == 50) broken += cut(finished % 200 == 50 ? p.a : p.b), ++cuts;
    }
    while (ibv_poll_cq(p.b.recv_cq, 1, &wc) != 0) {
      REQUIRE(wc.status == IBV_WC_SUCCESS);
      std::uint64_t got;
      std::memcpy(&got, p.b.memory.data() + 4096 + 64 * wc.wr_id, sizeof got);
      REQUIRE(got == expected++);
      REQUIRE(p.b.receive(wc.wr_id, 4096 + 64 * wc.wr_id, 64) == 0);
    }
    return finished == all && expected == all;
  });
  CAPTURE(finished);
  CAPTURE(expected);
  CHECK(done);
  CHECK(cuts == all / 100);
  CHECK(broken >= cuts / 2);  // a connection was there, most times
}

TEST_CASE("a long message whose connection breaks in its middle arrives whole") {
  rig::options o = over_tcp();
  o.memory = 64 << 20;
  rig::pair p(o);
  for (std::size_t i = 0; i < o.memory; i += 8) {
    const std::uint64_t v = i * 0x9e3779b97f4a7c15;
    std::memcpy(p.a.memory.data() + i, &v, 8);
  }
  const bool message = false, write = true;
  for (const bool kind : {message, write}) {
    std::fill(p.b.memory.begin(), p.b.memory.end(), std::byte{0});
    if (kind == message) REQUIRE(p.b.receive(1, 0, o.memory) == 0);
    REQUIRE(p.a.post(1, kind == message ? IBV_WR_SEND : IBV_WR_RDMA_WRITE, 0, o.memory,
                     IBV_SEND_SIGNALED, [&](ibv_send_wr& wr) {
                       wr.wr.rdma.remote_addr = reinterpret_cast<std::uint64_t>(p.b.memory.data());
                       wr.wr.rdma.rkey = p.b.mr->rkey;
                     }) == 0);
    std::jthread breaker([&] {
      for (int i = 0; i < 5; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(3));
        cut(p.a);
      }
    });
    CHECK(p.a.sent().status == IBV_WC_SUCCESS);
    if (kind == message) CHECK(p.b.received().byte_len == o.memory);
    CHECK(std::memcmp(p.a.memory.data(), p.b.memory.data(), o.memory) == 0);
  }
}

TEST_CASE("an atomic is done once however often its connection breaks") {
  rig::pair p(over_tcp());
  std::uint64_t& word = *reinterpret_cast<std::uint64_t*>(p.b.memory.data());
  word = 0;
  constexpr std::uint64_t all = 400, at_once = 8;
  std::uint64_t sent = 0, finished = 0;
  const bool done = rig::wait_for([&] {
    for (; sent < all && sent - finished < at_once; ++sent)
      REQUIRE(p.a.post(sent, IBV_WR_ATOMIC_FETCH_AND_ADD, 8 * (sent % at_once), 8,
                       IBV_SEND_SIGNALED, [&](ibv_send_wr& wr) {
                         wr.wr.atomic.remote_addr = reinterpret_cast<std::uint64_t>(&word);
                         wr.wr.atomic.rkey = p.b.mr->rkey;
                         wr.wr.atomic.compare_add = 1;
                       }) == 0);
    ibv_wc wc;
    while (ibv_poll_cq(p.a.send_cq, 1, &wc) != 0) {
      REQUIRE(wc.status == IBV_WC_SUCCESS);
      std::uint64_t old;
      std::memcpy(&old, p.a.memory.data() + 8 * (wc.wr_id % at_once), sizeof old);
      REQUIRE(old == finished++);  // each found what the one before had left
      if (finished % 20 == 0) cut(p.b);
    }
    ibv_poll_cq(p.b.recv_cq, 1, &wc);
    return finished == all;
  });
  CHECK(done);
  CHECK(word == all);
}

TEST_CASE("many READs come whole while connections break") {
  rig::options o = over_tcp();
  o.memory = 8 << 20;
  rig::pair p(o);
  for (std::size_t i = 0; i < o.memory; ++i)
    p.b.memory[i] = static_cast<std::byte>(i * 31 + i / 977);
  constexpr std::size_t piece = 256 * 1024;
  std::size_t sent = 0, finished = 0;
  const std::size_t all = o.memory / piece;
  const bool done = rig::wait_for([&] {
    for (; sent < all && sent - finished < 8; ++sent)
      REQUIRE(p.a.post(sent, IBV_WR_RDMA_READ, sent * piece, piece, IBV_SEND_SIGNALED,
                       [&](ibv_send_wr& wr) {
                         wr.wr.rdma.remote_addr =
                             reinterpret_cast<std::uint64_t>(p.b.memory.data() + sent * piece);
                         wr.wr.rdma.rkey = p.b.mr->rkey;
                       }) == 0);
    ibv_wc wc;
    while (ibv_poll_cq(p.a.send_cq, 1, &wc) != 0) {
      REQUIRE(wc.status == IBV_WC_SUCCESS);
      if (++finished % 7 == 0) cut(p.a);
    }
    return finished == all;
  });
  CHECK(done);
  CHECK(std::memcmp(p.a.memory.data(), p.b.memory.data(), o.memory) == 0);
}

TEST_CASE("two queue pairs of one context reach each other") {
  rig::side s(over_tcp());
  ibv_qp* other = s.new_qp();
  REQUIRE(other != nullptr);
  REQUIRE(s.to_init(other) == 0);
  REQUIRE(s.to_rtr(other, s.gid, s.qp->qp_num) == 0);
  REQUIRE(s.to_rts(other) == 0);
  REQUIRE(s.to_rtr(s.qp, s.gid, other->qp_num) == 0);
  REQUIRE(s.to_rts(s.qp) == 0);
  ibv_sge to = s.piece(4096, 64);
  ibv_recv_wr wr{}, *bad = nullptr;
  wr.sg_list = &to;
  wr.num_sge = 1;
  REQUIRE(ibv_post_recv(other, &wr, &bad) == 0);
  std::memcpy(s.memory.data(), "to myself", 10);
  REQUIRE(s.send(1, 0, 10) == 0);
  CHECK(s.received().qp_num == other->qp_num);
  CHECK(s.sent().status == IBV_WC_SUCCESS);
  CHECK(std::memcmp(s.memory.data() + 4096, "to myself", 10) == 0);
  CHECK(s.v.destroy_qp(other) == 0);
}

TEST_CASE("a lack of sockets here is no death of a peer") {
  ::setenv("PENSTOCK_TCP_TIMEOUT", "1", 1);
  rig::side a(over_tcp()), b(over_tcp());
  ::unsetenv("PENSTOCK_TCP_TIMEOUT");
  rig::connect(a, rig::card_of(b));
  rig::connect(b, rig::card_of(a));
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const auto allow = [&](rlim_t files) {
    const rlimit now{files, before.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &now) == 0);
  };
  const auto is_over = [&] { return shm::event_count(a.context).load() != 0; };
  std::uint64_t id = 0;
  const auto passes = [&] {
    REQUIRE(b.receive(++id, 0, 64) == 0);
    REQUIRE(a.send(id, 0, 64) == 0);
    CHECK(a.sent().status == IBV_WC_SUCCESS);
    CHECK(b.received().status == IBV_WC_SUCCESS);
  };
  passes();
  allow(0);
  CHECK(cut(a) + cut(b) != 0);
  CHECK_FALSE(rig::wait_for(is_over, 0.4));
  allow(before.rlim_cur);
  passes();
  // When it lasts, the device says so; the peer is not said to be gone.
  allow(0);
  CHECK(cut(a) + cut(b) != 0);
  const bool told = rig::wait_for(is_over, 10);
  allow(before.rlim_cur);
  REQUIRE(told);
  ibv_async_event e{};
  REQUIRE(a.v.get_async_event(a.context, &e) == 0);
  a.v.ack_async_event(&e);
  CHECK(e.event_type == IBV_EVENT_DEVICE_FATAL);
}

TEST_CASE("a child of a peer keeps no connection: a killed peer is dead though the child lives") {
  (void)tcp::secret::of("");  // both processes' own
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  const pid_t peer = ::fork();
  if (peer == 0) {
    ::alarm(60);
    rig::side s(over_tcp());
    rig::connect(s, rig::exchange(ends[1], rig::card_of(s)));
    if (!s.receive(1, 0, 64)) (void)s.received();
    if (const pid_t heir = ::fork(); heir != 0) {
      (void)!::write(ends[1], &heir, sizeof heir);
      for (;;) ::pause();
    }
    ::alarm(60);
    int sockets = 0;
    for (int fd = 3; fd < 1024; ++fd) {
      int domain = 0;
      socklen_t n = sizeof domain;
      if (::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &n) == 0 && domain == AF_INET) ++sockets;
    }
    (void)!::write(ends[1], &sockets, sizeof sockets);
    for (;;) ::pause();
  }
  rig::side s(over_tcp());
  rig::connect(s, rig::exchange(ends[0], rig::card_of(s)));
  REQUIRE(s.send(1, 0, 64) == 0);
  CHECK(s.sent().status == IBV_WC_SUCCESS);
  pid_t heir = 0;
  int said[2] = {-1, -1};  // the heir's number and its count of sockets, in either order
  REQUIRE(::recv(ends[0], said, sizeof said, MSG_WAITALL) == sizeof said);
  CHECK(std::min(said[0], said[1]) == 0);
  heir = std::max(said[0], said[1]);
  ::kill(peer, SIGKILL);
  ::waitpid(peer, nullptr, 0);
  ibv_async_event e{};
  CHECK(rig::wait_for([&] { return shm::event_count(s.context).load() != 0; }, 5));
  if (shm::event_count(s.context).load() != 0) {
    REQUIRE(s.v.get_async_event(s.context, &e) == 0);
    s.v.ack_async_event(&e);
    CHECK(e.event_type == IBV_EVENT_QP_FATAL);
  }
  CHECK(::kill(heir, 0) == 0);  // it lives
  ::kill(heir, SIGKILL);
  for (const int fd : ends) ::close(fd);
}
