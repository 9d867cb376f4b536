// UC and UD with a receiver that is slow to post receives, or that does not. The messages wait as
// on a lossless network, for a bounded time after the receiver's last receive
// (nic/shm/patience.hpp). And a receiver whose thread polls and has to share its core.
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "nic/shm/context.hpp"
#include "nic/shm/counters.hpp"
#include "test/nic/pretence.hpp"

using namespace rig;
using penstock::nic::shm::lost_for_receive;

namespace {

/// What others do when this thread gives its core away next.
thread_local std::function<void()> meanwhile;

}  // namespace

/// In place of the C library's, for the device, too.
extern "C" int sched_yield() noexcept {
  if (const auto others = std::exchange(meanwhile, nullptr)) others();
  return static_cast<int>(::syscall(SYS_sched_yield));
}

namespace {

constexpr std::uint32_t qkey = 0x1234;  // of rig::side
bool polls = true;                      // context::polls_datagrams of the contexts to be opened

/// A sender and a receiver, by UC or UD, where the receiver has receives of its own or shared ones.
struct exchange {
  exchange(ibv_qp_type type, bool shared) : p(made(type, false), made(type, shared)) {
    if (type == IBV_QPT_UD) path_to_b = make_path();
  }
  ~exchange() {
    if (path_to_b != nullptr) CHECK(p.a.v.destroy_ah(path_to_b) == 0);
  }
  exchange(const exchange&) = delete;
  exchange& operator=(const exchange&) = delete;

  static options made(ibv_qp_type type, bool shared) {
    options o;
    o.type = type;
    if (shared) o.srq_wr = 64;
    // As in contexts of the provider. Threads that poll read the datagrams, unless they sleep.
    o.opened = [](ibv_context* c) {
      penstock::nic::shm::of(c).datagram_patience_ns = 5'000'000'000;
      penstock::nic::shm::of(c).polls_datagrams.store(polls, std::memory_order_relaxed);
    };
    return o;
  }
  ibv_ah* make_path() const {
    ibv_ah_attr attr = side::path(p.b.gid);
    ibv_ah* ah = p.a.v.create_ah(p.a.pd, &attr);
    REQUIRE(ah != nullptr);
    return ah;
  }
  /// Sends one word to b, or to another QP of b's context.
  void send(std::uint64_t word, const ibv_qp* to = nullptr) {
    std::memcpy(p.a.memory.data(), &word, sizeof word);
    REQUIRE(p.a.post(word, IBV_WR_SEND, 0, sizeof word, IBV_SEND_SIGNALED | IBV_SEND_INLINE,
                     [&](ibv_send_wr& wr) {
                       if (path_to_b == nullptr) return;
                       wr.wr.ud = {path_to_b, (to != nullptr ? to : p.b.qp)->qp_num, qkey};
                     }) == 0);
  }
  void receive(std::uint64_t id) { REQUIRE(p.b.receive(id, 256 * id, 256) == 0); }
  /// The next word that arrives, or ~0.
  std::uint64_t arrives() const {
    const ibv_wc wc = p.b.received();
    if (wc.status != IBV_WC_SUCCESS) return ~std::uint64_t{0};
    std::uint64_t word;
    const std::size_t header = path_to_b != nullptr ? sizeof(ibv_grh) : 0;
    std::memcpy(&word, p.b.memory.data() + 256 * wc.wr_id + header, sizeof word);
    return word;
  }
  std::uint64_t lost() const {
    return lost_for_receive(p.a.context) + lost_for_receive(p.b.context);
  }

  pair p;
  ibv_ah* path_to_b = nullptr;
};

/// Runs a case for both transports and both kinds of receive queue; by UD also where only the
/// device's thread reads datagrams.
template <class Case>
void for_all(Case body) {
  for (const char* kind : {"UC", "UD", "UD, not polled"})
    for (const bool shared : {false, true}) {
      CAPTURE(kind);
      CAPTURE(shared);
      polls = kind[2] == 0;
      exchange e(kind[1] == 'C' ? IBV_QPT_UC : IBV_QPT_UD, shared);
      polls = true;
      body(e);
    }
}

}  // namespace

TEST_CASE("messages wait for a receiver that posts its receives late, and arrive in order") {
  const pretending as("receive_wait_ms=60000", "");
  for_all([](exchange& e) {
    e.receive(0);
    for (std::uint64_t i = 0; i < 40; ++i) e.send(i);
    for (std::uint64_t i = 0; i < 40; ++i) {
      CHECK(e.arrives() == i);
      CHECK(side::empty(e.p.b.recv_cq));
      e.receive(i % 7);
    }
    for (std::uint64_t i = 0; i < 40; ++i) CHECK(e.p.a.sent().wr_id == i);
    CHECK(e.lost() == 0);
  });
}

TEST_CASE("a message arrives though neither side polls between its sending and its receive") {
  const pretending as("receive_wait_ms=60000", "");
  for_all([](exchange& e) {
    e.receive(0);
    e.send(1);
    e.send(2);
    CHECK(e.arrives() == 1);
    e.receive(1);
    CHECK(e.p.a.sent().wr_id == 1);
    CHECK(e.p.a.sent().wr_id == 2);
    CHECK(e.arrives() == 2);
  });
}

TEST_CASE("a receiver that ceases to post is waited for once, and again when it has posted") {
  const pretending as("receive_wait_ms=200", "");
  for_all([](exchange& e) {
    e.receive(0);
    for (std::uint64_t i = 0; i < 60; ++i) e.send(i);  // with a wait each they would take 12 s
    for (std::uint64_t i = 0; i < 60; ++i) CHECK(e.p.a.sent().wr_id == i);
    CHECK(wait_for([&] { return e.lost() == 59; }));
    CHECK(e.arrives() == 0);
    CHECK(side::empty(e.p.b.recv_cq));
    e.receive(1);
    e.send(100);
    CHECK(e.arrives() == 100);
    e.receive(2);
    e.send(101);
    CHECK(e.arrives() == 101);
    CHECK(e.lost() == 59);
  });
}

TEST_CASE("nobody waits for a receiver that has never posted") {
  const pretending as("receive_wait_ms=60000", "");
  for_all([](exchange& e) {
    e.send(1);
    CHECK(e.p.a.sent().wr_id == 1);
    CHECK(wait_for([&] { return e.lost() == 1; }));
  });
}

TEST_CASE("a device without patience loses a message without a receive at once") {
  const pretending as("receive_wait_ms=0", "");
  for_all([](exchange& e) {
    e.receive(0);
    for (std::uint64_t i = 0; i < 3; ++i) e.send(i);
    for (std::uint64_t i = 0; i < 3; ++i) CHECK(e.p.a.sent().wr_id == i);
    CHECK(wait_for([&] { return e.lost() == 2; }));
    e.receive(1);
    e.send(7);
    CHECK(e.arrives() == 0);
    CHECK(e.arrives() == 7);
  });
}

TEST_CASE("messages that wait hold up no other queue pair of their sender") {
  const pretending as("receive_wait_ms=60000", "");
  for_all([](exchange& e) {
    side& a = e.p.a;
    side& b = e.p.b;
    // Another pair of QPs between the same contexts; b's has receives of its own, one of them.
    ibv_srq* shared = std::exchange(b.srq, nullptr);
    std::swap(b.recv_cq, b.send_cq);
    ibv_qp *from = a.new_qp(), *to = b.new_qp();
    REQUIRE(a.to_init(from) == 0);
    REQUIRE(b.to_init(to) == 0);
    REQUIRE(a.to_rtr(from, b.gid, to->qp_num) == 0);
    REQUIRE(b.to_rtr(to, a.gid, from->qp_num) == 0);
    REQUIRE(a.to_rts(from) == 0);
    std::swap(b.recv_cq, b.send_cq);
    std::swap(b.qp, to);
    for (std::uint64_t i = 10; i < 40; ++i) e.receive(i);
    std::swap(b.qp, to);
    b.srq = shared;

    e.receive(0);
    for (std::uint64_t i = 0; i < 20; ++i) e.send(i);
    CHECK(e.arrives() == 0);
    std::swap(a.qp, from);
    for (std::uint64_t i = 100; i < 120; ++i) {
      e.send(i, to);
      const ibv_wc wc = side::next(b.send_cq);  // where that QP of b receives
      CHECK(wc.status == IBV_WC_SUCCESS);
      CHECK(wc.qp_num == to->qp_num);
    }
    std::swap(a.qp, from);
    CHECK(e.lost() == 0);
    // Queue pairs for which messages wait are destroyed, with what waits.
    CHECK(a.v.destroy_qp(from) == 0);
    CHECK(b.v.destroy_qp(to) == 0);
  });
}

TEST_CASE("a queue pair that is reset while messages wait begins anew") {
  const pretending as("receive_wait_ms=60000", "");
  for_all([](exchange& e) {
    e.receive(0);
    for (std::uint64_t i = 0; i < 5; ++i) e.send(i);
    CHECK(e.arrives() == 0);
    REQUIRE(e.p.b.set_state(IBV_QPS_RESET) == 0);
    for (int i = 0; i < 5; ++i) CHECK(e.p.a.sent().status == IBV_WC_SUCCESS);
    REQUIRE(e.p.b.to_init(e.p.b.qp) == 0);
    e.p.b.connect(e.p.a);
    if (e.path_to_b == nullptr) {
      REQUIRE(e.p.a.set_state(IBV_QPS_RESET) == 0);
      REQUIRE(e.p.a.to_init(e.p.a.qp) == 0);
      e.p.a.connect(e.p.b);
    }
    e.receive(1);
    e.send(50);
    CHECK(e.arrives() == 50);
    CHECK(side::empty(e.p.b.recv_cq));
  });
}

TEST_CASE("a receiver that sleeps is woken by a message that has waited for its receive") {
  const pretending as("receive_wait_ms=60000", "");
  for_all([](exchange& e) {
    side& b = e.p.b;
    ibv_comp_channel* channel = b.v.create_comp_channel(b.context);
    ibv_cq* cq = b.v.create_cq(b.context, 64, nullptr, channel, 0);
    std::swap(b.recv_cq, cq);
    ibv_qp* other = b.new_qp();
    std::swap(b.qp, other);
    REQUIRE(b.to_init(b.qp) == 0);
    b.connect(e.p.a);
    if (e.path_to_b == nullptr) {
      REQUIRE(e.p.a.set_state(IBV_QPS_RESET) == 0);
      REQUIRE(e.p.a.to_init(e.p.a.qp) == 0);
      e.p.a.connect(b);
    }
    e.receive(0);
    e.send(1);
    e.send(2);
    CHECK(e.arrives() == 1);
    REQUIRE(ibv_req_notify_cq(b.recv_cq, 0) == 0);
    e.receive(1);
    ibv_cq* woken = nullptr;
    void* about = nullptr;
    REQUIRE(b.v.get_cq_event(channel, &woken, &about) == 0);
    CHECK(woken == b.recv_cq);
    b.v.ack_cq_events(woken, 1);
    CHECK(e.arrives() == 2);
    CHECK(b.v.destroy_qp(b.qp) == 0);
    b.qp = other;
    std::swap(b.recv_cq, cq);
    CHECK(b.v.destroy_cq(cq) == 0);
    CHECK(b.v.destroy_comp_channel(channel) == 0);
  });
}

TEST_CASE("more datagrams than may wait at the receiver wait at their sender") {
  const pretending as("receive_wait_ms=60000", "");
  exchange e(IBV_QPT_UD, false);
  // On a busy machine the receiver may have no core for longer than a sender's usual patience.
  penstock::nic::shm::of(e.p.a.context).datagram_patience_ns = 60'000'000'000;
  constexpr std::uint64_t many = 2000;
  std::uint64_t sent = 0, done = 0;
  const auto go_on = [&] {
    if (sent != many && sent - done < 64) e.send(sent++);
    ibv_wc wc;
    done += static_cast<std::uint64_t>(ibv_poll_cq(e.p.a.send_cq, 1, &wc));
  };
  // The sender goes on until the receiver's device takes no more.
  e.receive(0);
  REQUIRE(wait_for([&] { return go_on(), done > 1000; }, 60));
  for (int i = 0; i < 5000; ++i) go_on();
  CHECK(done < many);
  std::uint64_t got = 0;
  REQUIRE(wait_for(
      [&] {
        go_on();
        ibv_wc wc;
        if (ibv_poll_cq(e.p.b.recv_cq, 1, &wc) == 0) return false;
        std::uint64_t word;
        std::memcpy(&word, e.p.b.memory.data() + sizeof(ibv_grh), sizeof word);
        REQUIRE(word == got);
        if (++got != many) e.receive(0);
        return got == many;
      },
      60));
  CHECK(e.lost() == 0);
}

TEST_CASE("a datagram waits while the receiver's full socket takes those of other queue pairs") {
  constexpr std::uint64_t patience_ns = 2'000'000'000;
  const pretending as("receive_wait_ms=60000", "");
  exchange e(IBV_QPT_UD, false);
  side &a = e.p.a, &b = e.p.b;
  penstock::nic::shm::of(a.context).datagram_patience_ns = 60'000'000'000;  // while it is filled
  std::uint64_t sent = 0, done = 0, got = 0;
  const auto fill = [&] {
    if (sent - done < 8) e.send(sent++);
    ibv_wc wc;
    done += static_cast<std::uint64_t>(ibv_poll_cq(a.send_cq, 1, &wc));
  };
  const auto take_one = [&] {
    ibv_wc wc;
    if (ibv_poll_cq(b.recv_cq, 1, &wc) == 0) return false;
    ++got;
    e.receive(0);
    return true;
  };
  e.receive(0);
  REQUIRE(wait_for([&] { return fill(), done > 1000; }, 60));
  for (int i = 0; i < 5000; ++i) fill();
  // The socket is full. Each receive makes one place, for which all of these compete.
  penstock::nic::shm::of(a.context).datagram_patience_ns = patience_ns;
  std::vector<ibv_qp*> others(30);
  for (ibv_qp*& qp : others) {
    qp = a.new_qp();
    REQUIRE(a.to_init(qp) == 0);
    REQUIRE(a.to_rtr(qp, b.gid, b.qp->qp_num) == 0);
    REQUIRE(a.to_rts(qp) == 0);
    std::swap(a.qp, qp);
    e.send(sent++);
    std::swap(a.qp, qp);
  }
  for (std::size_t i = 0; i < others.size(); ++i) {
    REQUIRE(wait_for(take_one));
    std::this_thread::sleep_for(std::chrono::nanoseconds(2 * patience_ns / others.size()));
  }
  CHECK(wait_for([&] { return take_one(), got == sent; }));
  for (ibv_qp* qp : others) CHECK(a.v.destroy_qp(qp) == 0);
}

TEST_CASE("a poll that has given its core away finds what came meanwhile") {
  options o;
  o.device = &penstock::nic::shm::device_identity(0);
  pair p(o);
  REQUIRE(p.b.receive(7, 0, 8) == 0);
  bool sent = false;
  meanwhile = [&] { sent = p.a.send(1, 0, 8) == 0; };
  ibv_wc wc{};
  int got = 0;
  for (int i = 0; i < 100'000 && got == 0 && !sent; ++i) got = ibv_poll_cq(p.b.recv_cq, 1, &wc);
  REQUIRE(sent);
  CHECK(got == 1);
  CHECK(wc.wr_id == 7);
  CHECK(wc.status == IBV_WC_SUCCESS);
}
