// shm0 between two processes: traffic, death, and memory that cannot be touched from outside.
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>
#include <utility>

#include "nic/shm/peer.hpp"
#include "nic/shm/qp.hpp"
#include "test/nic/child.hpp"

namespace shm = penstock::nic::shm;
using rig::card_of;
using rig::child;
using rig::side;

namespace {

rig::card join(side& s, child& c) {
  const rig::card theirs = rig::exchange(c.socket, card_of(s));
  rig::connect(s, theirs);
  rig::meet(c.socket);
  return theirs;
}

ibv_event_type next_event(side& s) {
  ibv_async_event e{};
  e.event_type = IBV_EVENT_DEVICE_FATAL;
  if (!rig::wait_for([&] { return shm::event_count(s.context).load() != 0; })) return e.event_type;
  REQUIRE(s.v.get_async_event(s.context, &e) == 0);
  s.v.ack_async_event(&e);
  return e.event_type;
}

std::size_t descriptors() {
  std::size_t n = 0;
  for ([[maybe_unused]] const auto& e : std::filesystem::directory_iterator("/proc/self/fd")) ++n;
  return n;
}

}  // namespace

TEST_CASE("messages go there and back between processes, in order and whole") {
  child c("echo");
  side s;
  for (std::uint64_t i = 0; i < 32; ++i) REQUIRE(s.receive(i, 200'000 + i * 4096, 4096) == 0);
  join(s, c);
  for (std::uint32_t n = 0; n < 10'000; ++n) {
    const std::size_t bytes = n % 16 == 0 ? 4096 : 8 + n % 90;
    std::memcpy(s.memory.data(), &n, sizeof n);
    std::memcpy(s.memory.data() + bytes - 4, &n, sizeof n);
    REQUIRE(s.send(1, 0, bytes) == 0);
    REQUIRE(s.sent().status == IBV_WC_SUCCESS);
    const ibv_wc r = s.received();
    REQUIRE(r.status == IBV_WC_SUCCESS);
    REQUIRE(r.byte_len == bytes);
    const std::byte* got = s.memory.data() + 200'000 + r.wr_id * 4096;
    REQUIRE(std::memcmp(got, &n, sizeof n) == 0);
    REQUIRE(std::memcmp(got + bytes - 4, &n, sizeof n) == 0);
    REQUIRE(s.receive(r.wr_id, 200'000 + r.wr_id * 4096, 4096) == 0);
  }
  ::shutdown(c.socket, SHUT_WR);
  CHECK(c.wait() == 0);
}

TEST_CASE(
    "a killed peer breaks the queue pair within a second, and what is outstanding is flushed") {
  std::uint64_t soonest_ns = ~std::uint64_t{0};  // on a busy machine the others may be late
  for (int round = 0; round < 10; ++round) {
    child c("victim");
    side s;
    REQUIRE(s.receive(9, 0, 64) == 0);
    join(s, c);
    for (std::uint64_t i = 0; i < 6; ++i) REQUIRE(s.send(i, 0, 8) == 0);  // two find no receive
    for (std::uint64_t i = 0; i < 4; ++i) CHECK(s.sent().status == IBV_WC_SUCCESS);
    CHECK(side::empty(s.send_cq));
    ::kill(c.pid, SIGKILL);
    const std::uint64_t killed = penstock::now_ns();
    CHECK(next_event(s) == IBV_EVENT_QP_FATAL);
    soonest_ns = std::min(soonest_ns, penstock::now_ns() - killed);
    CHECK(s.sent().status == IBV_WC_RETRY_EXC_ERR);
    CHECK(s.sent().status == IBV_WC_WR_FLUSH_ERR);
    CHECK(s.received().status == IBV_WC_WR_FLUSH_ERR);
    CHECK(s.state() == IBV_QPS_ERR);
    REQUIRE(s.send(7, 0, 8) == 0);
    CHECK(s.sent().status == IBV_WC_WR_FLUSH_ERR);
  }
  CHECK(soonest_ns < 1'000'000'000);
}

TEST_CASE("a peer's death is noticed although its child keeps its sockets") {
  child c("parent_of_heir");
  side s;
  join(s, c);
  char heir = 0;
  REQUIRE(::read(c.socket, &heir, 1) == 1);  // it is there, and stays until c is destroyed
  ::kill(c.pid, SIGKILL);
  CHECK(next_event(s) == IBV_EVENT_QP_FATAL);
}

TEST_CASE("a sender killed in mid-flood leaves only whole messages behind") {
  for (int round = 0; round < 10; ++round) {
    child c("flooder");
    side s;
    for (std::uint64_t i = 0; i < 64; ++i) REQUIRE(s.receive(i, i * 64, 64) == 0);
    join(s, c);
    int got = 0;
    bool flushed = false;
    ibv_wc wc{};
    while (!flushed) {
      REQUIRE(rig::wait_for([&] { return ibv_poll_cq(s.recv_cq, 1, &wc) != 0; }));
      if (wc.status == IBV_WC_SUCCESS) {
        CHECK(wc.byte_len == 40);
        // In error too: messages may have taken every receive, and this one is then the flushed
        // one.
        REQUIRE(s.receive(wc.wr_id, wc.wr_id * 64, 64) == 0);
        if (++got == 2000) ::kill(c.pid, SIGKILL);
      } else {
        CHECK(wc.status == IBV_WC_WR_FLUSH_ERR);
        flushed = true;
      }
    }
    CHECK(got >= 2000);
    CHECK(next_event(s) == IBV_EVENT_QP_FATAL);
  }
}

TEST_CASE("a stopped peer is waited for, and goes on when it continues") {
  child c("echo");
  side s;
  for (std::uint64_t i = 0; i < 32; ++i) REQUIRE(s.receive(i, 200'000 + i * 64, 64) == 0);
  join(s, c);
  ::kill(c.pid, SIGSTOP);
  REQUIRE(s.send(1, 0, 8) == 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(1200));
  CHECK(s.state() == IBV_QPS_RTS);
  CHECK(side::empty(s.recv_cq));
  ::kill(c.pid, SIGCONT);
  CHECK(s.received().status == IBV_WC_SUCCESS);
}

TEST_CASE("connecting to a stopped peer ends soon where peers may be silent, and then waits on") {
  child c("echo");
  side s;
  shm::peers_may_be_silent(s.context);
  for (std::uint64_t i = 0; i < 32; ++i) REQUIRE(s.receive(i, 200'000 + i * 64, 64) == 0);
  const rig::card theirs = rig::exchange(c.socket, card_of(s));
  ::kill(c.pid, SIGSTOP);
  int status = 0;
  REQUIRE(::waitpid(c.pid, &status, WUNTRACED) == c.pid);
  const std::size_t before = descriptors();
  for (int i = 0; i < 4; ++i) {
    const std::uint64_t begin = penstock::now_ns();
    REQUIRE(s.to_rtr(s.qp, theirs.gid, theirs.qpn) == ETIMEDOUT);
    CHECK(penstock::now_ns() - begin < 5'000'000'000);  // a tenth of a second, where cores are free
    CHECK(s.state() == IBV_QPS_INIT);
  }
  CHECK(descriptors() == before + 1);  // it is asked once
  ::kill(c.pid, SIGCONT);
  CHECK(rig::wait_for([&] { return s.to_rtr(s.qp, theirs.gid, theirs.qpn) == 0; }));
  REQUIRE(s.to_rts(s.qp) == 0);
  rig::meet(c.socket);
  REQUIRE(s.send(1, 0, 8) == 0);
  CHECK(s.received().status == IBV_WC_SUCCESS);
}

// A word that the device may write at this time, as hardware would: ThreadSanitizer is not to look.
__attribute__((no_sanitize("thread"))) static std::uint64_t written_by_device(const std::byte* at) {
  return *reinterpret_cast<const volatile std::uint64_t*>(at);
}

TEST_CASE("no post waits for a peer that has to help, and what it asked for is done in the end") {
  // Where memory can be neither mapped nor reached through the kernel, and for atomics where it
  // cannot be mapped, the peer's device does the work; here its process stands still at first.
  child c("memory");
  side s;
  const rig::card theirs = rig::exchange(c.socket, rig::card_of(s));
  rig::connect(s, theirs);
  rig::meet(c.socket);
  constexpr std::uint32_t bytes = 100'000;  // more than one question carries
  for (std::size_t i = 0; i < bytes; ++i) s.memory[i] = static_cast<std::byte>(i % 251 + 17);
  const auto reach = [&](ibv_wr_opcode op, std::size_t offset, std::uint32_t n, std::uint64_t at) {
    return s.post(1, op, offset, n, IBV_SEND_SIGNALED, [&](ibv_send_wr& wr) {
      if (op == IBV_WR_ATOMIC_FETCH_AND_ADD)
        wr.wr.atomic = {theirs.address + at, 5, 0, theirs.rkey};
      else
        wr.wr.rdma = {theirs.address + at, theirs.rkey};
    });
  };
  REQUIRE(reach(IBV_WR_RDMA_WRITE, 0, 8, 0) == 0);  // it is connected, and goes the kernel's way …
  REQUIRE(s.sent().status == IBV_WC_SUCCESS);
  // … which is closed from now on.
  ::close(std::exchange(shm::of(s.qp).remote->memory_fd, -1));
  ::kill(c.pid, SIGSTOP);
  int status = 0;
  REQUIRE(::waitpid(c.pid, &status, WUNTRACED) == c.pid);
  const std::uint64_t begin = penstock::now_ns();
  REQUIRE(reach(IBV_WR_ATOMIC_FETCH_AND_ADD, 300'000, 8, bytes + 8 - bytes % 8) == 0);
  REQUIRE(reach(IBV_WR_RDMA_WRITE, 0, bytes, 0) == 0);
  REQUIRE(reach(IBV_WR_RDMA_READ, 400'000, bytes, 0) == 0);
  REQUIRE(reach(IBV_WR_ATOMIC_FETCH_AND_ADD, 300'008, 8, bytes + 8 - bytes % 8) == 0);
  for (int i = 0; i < 1000; ++i) CHECK(side::empty(s.send_cq));
  CHECK(penstock::now_ns() - begin < shm::of(s.context).answer_ns);
  CHECK(s.state() == IBV_QPS_RTS);
  ::kill(c.pid, SIGCONT);
  // The device goes on although nobody polls.
  CHECK(rig::wait_for([&] { return written_by_device(&s.memory[300'008]) == 5; }));
  for (int i = 0; i < 4; ++i) CHECK(s.sent().status == IBV_WC_SUCCESS);
  CHECK(std::memcmp(&s.memory[0], &s.memory[400'000], bytes) == 0);
  std::uint64_t before = 1;
  std::memcpy(&before, &s.memory[300'000], sizeof before);
  CHECK(before == 0);
  ::shutdown(c.socket, SHUT_WR);
  CHECK(c.wait() == 0);
}

TEST_CASE("a receiver that does not run gets all that is sent into its receives, once it runs") {
  child c("taker");
  rig::options o;
  o.send_wr = 256;
  o.cqe = 512;
  o.memory = rig::card::many * rig::card::most;
  side s(o);
  join(s, c);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  ::kill(c.pid, SIGSTOP);
  int status = 0;
  REQUIRE(::waitpid(c.pid, &status, WUNTRACED) == c.pid);
  std::uint64_t done = 0;
  const auto sent = [&](std::uint64_t until) {
    for (; done < until; ++done) {
      const ibv_wc wc = s.sent();
      REQUIRE(wc.status == IBV_WC_SUCCESS);
      REQUIRE(wc.wr_id == done);
    }
  };
  for (std::uint64_t i = 0; i < rig::card::many; ++i) {
    std::byte* at = s.memory.data() + i * rig::card::most;
    const std::size_t bytes = rig::card::size_of(i);
    std::memcpy(at, &i, sizeof i);
    std::memcpy(at + bytes - sizeof i, &i, sizeof i);
    REQUIRE(s.send(i, i * rig::card::most, bytes) == 0);
    if (i >= 100 && i < 150) sent(i + 1);  // one by one; the others many at a time
  }
  sent(rig::card::many);
  CHECK(s.state() == IBV_QPS_RTS);
  ::kill(c.pid, SIGCONT);
  for (std::uint64_t i = 0; i < 100; ++i) {
    REQUIRE(s.receive(i, 0, 64) == 0);
    REQUIRE(s.received().status == IBV_WC_SUCCESS);
    REQUIRE(s.send(i, 0, rig::card::size_of(i)) == 0);
    REQUIRE(s.sent().status == IBV_WC_SUCCESS);
  }
  ::shutdown(c.socket, SHUT_WR);
  CHECK(c.wait() == 0);
}

TEST_CASE("another process's memory is written, read and counted in") {
  for (const char* role : {"memory", "closed_memory"}) {
    CAPTURE(role);
    child c(role);
    side s;
    const rig::card there = join(s, c);
    std::memset(s.memory.data(), 17, 100'000);
    const auto at = [&](std::size_t offset) {
      return [&there, offset](ibv_send_wr& wr) {
        wr.wr.rdma = {there.address + offset, there.rkey};
      };
    };
    REQUIRE(s.post(1, IBV_WR_RDMA_WRITE, 0, 100'000, IBV_SEND_SIGNALED, at(0)) == 0);
    CHECK(s.sent().status == IBV_WC_SUCCESS);
    REQUIRE(s.post(1, IBV_WR_RDMA_READ, 200'000, 100'000, IBV_SEND_SIGNALED, at(0)) == 0);
    CHECK(s.sent().status == IBV_WC_SUCCESS);
    CHECK(std::memcmp(s.memory.data(), s.memory.data() + 200'000, 100'000) == 0);
    for (std::uint64_t i = 0; i < 3; ++i) {
      REQUIRE(s.post(1, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 8, IBV_SEND_SIGNALED, [&](ibv_send_wr& w) {
        w.wr.atomic = {there.address + 400'000, 2, 0, there.rkey};
      }) == 0);
      CHECK(s.sent().status == IBV_WC_SUCCESS);
      std::uint64_t old;
      std::memcpy(&old, s.memory.data(), 8);
      CHECK(old == 2 * i);
    }
    ::shutdown(c.socket, SHUT_WR);
    CHECK(c.wait() == 0);
  }
}

TEST_CASE("neither descriptors nor files are left behind") {
  const auto entries = [] {
    std::size_t n = 0;
    for ([[maybe_unused]] const auto& e : std::filesystem::directory_iterator("/dev/shm")) ++n;
    return n;
  };
  const std::size_t files = entries();
  // A test beside this one may have something there for a while; what is left behind stays.
  const auto no_more = [&] { return rig::wait_for([&] { return entries() <= files; }, 30); };
  const std::size_t before = descriptors();
  for (int i = 0; i < 5; ++i) {
    child c("victim");
    side s;
    join(s, c);
    CHECK(no_more());
    ::kill(c.pid, SIGKILL);
    CHECK(next_event(s) == IBV_EVENT_QP_FATAL);
  }
  CHECK(descriptors() == before);
  CHECK(no_more());
}
