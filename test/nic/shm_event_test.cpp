// Completion channels, asynchronous events and overruns of shm0.
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <thread>

#include "test/nic/rig.hpp"

using rig::pair;
namespace shm = penstock::nic::shm;

namespace {

constexpr int in_time_ms = 20'000;  ///< only an event that never comes takes so long

/// Number of events that wait on a channel within `ms`; takes and acknowledges them.
int events(rig::side& s, int ms) {
  int n = 0;
  for (;;) {
    pollfd p{s.channel->fd, POLLIN, 0};
    if (::poll(&p, 1, ms) <= 0) return n;
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    REQUIRE(s.v.get_cq_event(s.channel, &cq, &context) == 0);
    CHECK(cq == s.recv_cq);
    CHECK(context == &s);
    s.v.ack_cq_events(cq, 1);
    ++n;
    ms = 30;
  }
}

rig::options with_channel() {
  rig::options o;
  o.channel = true;
  return o;
}

}  // namespace

TEST_CASE("an armed queue gives exactly one event, however many messages come") {
  pair p(with_channel());
  for (std::uint64_t i = 0; i < 16; ++i) REQUIRE(p.b.receive(i, 0, 8) == 0);
  for (int round = 0; round < 3; ++round) {
    REQUIRE(ibv_req_notify_cq(p.b.recv_cq, 0) == 0);
    CHECK(events(p.b, 20) == 0);
    for (int i = 0; i < 4; ++i) REQUIRE(p.a.send(1, 0, 8) == 0);
    CHECK(events(p.b, in_time_ms) == 1);
    for (int i = 0; i < 4; ++i) CHECK(p.b.received().status == IBV_WC_SUCCESS);
  }
}

TEST_CASE("a poll that leaves completions in an armed queue gives its event") {
  pair p(with_channel());
  for (std::uint64_t i = 0; i < 4; ++i) REQUIRE(p.b.receive(i, 0, 8) == 0);
  for (int i = 0; i < 4; ++i) REQUIRE(p.a.send(1, 0, 8) == 0);
  do  // until all four are stored, and the queue is armed
    REQUIRE(ibv_req_notify_cq(p.b.recv_cq, 0) == 0);
  while (events(p.b, 50) != 0);
  CHECK(p.b.received().status == IBV_WC_SUCCESS);
  CHECK(events(p.b, in_time_ms) == 1);
  for (int i = 0; i < 3; ++i) CHECK(p.b.received().status == IBV_WC_SUCCESS);
  CHECK(events(p.b, 50) == 0);
}

TEST_CASE("a queue that is not armed gives no event") {
  pair p(with_channel());
  REQUIRE(p.b.receive(1, 0, 8) == 0);
  REQUIRE(p.a.send(1, 0, 8) == 0);
  CHECK(p.b.received().status == IBV_WC_SUCCESS);
  CHECK(events(p.b, 50) == 0);
}

TEST_CASE("a message polled after arming has still given its event") {
  pair p(with_channel());
  REQUIRE(p.b.receive(1, 0, 8) == 0);
  REQUIRE(ibv_req_notify_cq(p.b.recv_cq, 0) == 0);
  REQUIRE(p.a.send(1, 0, 8) == 0);
  CHECK(p.b.received().status == IBV_WC_SUCCESS);
  CHECK(events(p.b, in_time_ms) == 1);
}

TEST_CASE("a queue armed for solicited messages sleeps through the others") {
  pair p(with_channel());
  REQUIRE(p.b.receive(1, 0, 8) == 0);
  REQUIRE(p.b.receive(2, 0, 8) == 0);
  REQUIRE(ibv_req_notify_cq(p.b.recv_cq, 1) == 0);
  REQUIRE(p.a.send(1, 0, 8) == 0);
  CHECK(events(p.b, 50) == 0);
  REQUIRE(p.a.send(2, 0, 8, IBV_SEND_SOLICITED | IBV_SEND_SIGNALED) == 0);
  CHECK(events(p.b, in_time_ms) == 1);
  CHECK(p.b.received().wr_id == 1);
  CHECK(p.b.received().wr_id == 2);
}

TEST_CASE("no wake-up is lost in many rounds of sleeping and waking") {
  pair p(with_channel());
  std::thread echo([&] {
    for (int i = 0; i < 2000; ++i) {
      REQUIRE(p.b.receive(1, 0, 8) == 0);
      ibv_wc wc{};
      for (;;) {
        REQUIRE(ibv_req_notify_cq(p.b.recv_cq, 0) == 0);
        if (ibv_poll_cq(p.b.recv_cq, 1, &wc) != 0) break;
        pollfd f{p.b.channel->fd, POLLIN, 0};
        REQUIRE_MESSAGE(::poll(&f, 1, in_time_ms) == 1, "round ", i);
        ibv_cq* cq;
        void* context;
        REQUIRE(p.b.v.get_cq_event(p.b.channel, &cq, &context) == 0);
        p.b.v.ack_cq_events(cq, 1);
        if (ibv_poll_cq(p.b.recv_cq, 1, &wc) != 0) break;
      }
      REQUIRE(wc.status == IBV_WC_SUCCESS);
    }
  });
  for (int i = 0; i < 2000; ++i) {
    REQUIRE(p.a.send(1, 0, 8) == 0);
    CHECK(p.a.sent().status == IBV_WC_SUCCESS);
    if (i % 7 == 0) std::this_thread::sleep_for(std::chrono::microseconds(i % 50));
  }
  echo.join();
}

TEST_CASE("a large message crosses while both programs sleep") {
  rig::options o = with_channel();
  o.memory = 8 << 20;
  pair p(o);
  REQUIRE(p.b.receive(1, 0, o.memory) == 0);
  REQUIRE(ibv_req_notify_cq(p.b.recv_cq, 0) == 0);
  REQUIRE(p.a.send(1, 0, o.memory) == 0);
  pollfd f{p.b.channel->fd, POLLIN, 0};
  CHECK(::poll(&f, 1, in_time_ms) == 1);  // nobody polls a queue meanwhile
  CHECK(p.b.received().byte_len == o.memory);
  CHECK(events(p.b, 100) == 1);
}

TEST_CASE("a sender asleep on its channel is woken by a send that had to wait") {
  rig::options o;
  o.channel = true;
  rig::side b, a(o);
  // One queue for both directions, so that the channel speaks for sends.
  ibv_qp_init_attr q{};
  q.send_cq = q.recv_cq = a.recv_cq;
  q.cap = {8, 8, 1, 1, 0};
  q.qp_type = IBV_QPT_RC;
  ibv_qp* qp = a.v.create_qp(a.pd, &q);
  REQUIRE(a.to_init(qp) == 0);
  REQUIRE(a.to_rtr(qp, b.gid, b.qp->qp_num) == 0);
  REQUIRE(a.to_rts(qp) == 0);
  REQUIRE(b.to_rtr(b.qp, a.gid, qp->qp_num) == 0);
  REQUIRE(b.to_rts(b.qp) == 0);
  REQUIRE(ibv_req_notify_cq(a.recv_cq, 0) == 0);
  ibv_sge s = a.piece(0, 8);
  ibv_send_wr wr{}, *bad = nullptr;
  wr.opcode = IBV_WR_SEND;
  wr.sg_list = &s;
  wr.num_sge = 1;
  wr.send_flags = IBV_SEND_SIGNALED;
  REQUIRE(ibv_post_send(qp, &wr, &bad) == 0);  // no receive yet
  CHECK(events(a, 20) == 0);
  REQUIRE(b.receive(1, 0, 8) == 0);
  CHECK(events(a, in_time_ms) == 1);
  CHECK(a.received().opcode == IBV_WC_SEND);
  CHECK(a.v.destroy_qp(qp) == 0);
}

TEST_CASE("a program hears that its message was taken before it hears the answer to it") {
  rig::side b, a(with_channel());
  ibv_cq* sends = a.v.create_cq(a.context, 16, nullptr, a.channel, 0);
  std::swap(a.send_cq, sends);
  ibv_qp* qp = a.new_qp();
  std::swap(a.qp, qp);
  REQUIRE(a.to_init(a.qp) == 0);
  a.connect(b);
  b.connect(a);
  const auto next_event = [&]() -> ibv_cq* {
    pollfd f{a.channel->fd, POLLIN, 0};
    if (::poll(&f, 1, in_time_ms) != 1) return nullptr;
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    REQUIRE(a.v.get_cq_event(a.channel, &cq, &context) == 0);
    a.v.ack_cq_events(cq, 1);
    return cq;
  };
  // A sender that knows of small receives waits until the receiver has taken what is larger.
  REQUIRE(b.receive(1, 0, 8) == 0);
  REQUIRE(a.send(3, 0, 8) == 0);
  REQUIRE(a.sent().status == IBV_WC_SUCCESS);
  REQUIRE(b.received().status == IBV_WC_SUCCESS);
  int answers_first = 0;
  for (int i = 0; i < 1000; ++i) {
    REQUIRE(b.receive(1, 0, 4096) == 0);
    // Elsewhere than what is sent: that the answer comes later, ThreadSanitizer cannot see.
    REQUIRE(a.receive(2, 8192, 8) == 0);
    for (ibv_cq* cq : {a.send_cq, a.recv_cq}) REQUIRE(ibv_req_notify_cq(cq, 0) == 0);
    REQUIRE(a.send(3, 0, 4096) == 0);
    REQUIRE(b.received().status == IBV_WC_SUCCESS);
    REQUIRE(b.send(4, 8192, 8) == 0);
    ibv_cq* const first = next_event();
    answers_first += first == a.recv_cq;
    REQUIRE(first != nullptr);
    REQUIRE(next_event() == (first == a.recv_cq ? a.send_cq : a.recv_cq));
    REQUIRE(a.sent().status == IBV_WC_SUCCESS);
    REQUIRE(a.received().status == IBV_WC_SUCCESS);
    REQUIRE(b.sent().status == IBV_WC_SUCCESS);
  }
  CHECK(answers_first == 0);
  CHECK(a.v.destroy_qp(a.qp) == 0);
  std::swap(a.qp, qp);
  std::swap(a.send_cq, sends);
  CHECK(a.v.destroy_cq(sends) == 0);
}

TEST_CASE("a non-blocking channel without an event says so") {
  pair p(with_channel());
  ::fcntl(p.b.channel->fd, F_SETFL, ::fcntl(p.b.channel->fd, F_GETFL) | O_NONBLOCK);
  ibv_cq* cq;
  void* context;
  CHECK(p.b.v.get_cq_event(p.b.channel, &cq, &context) == -1);
  CHECK(errno == EAGAIN);
}

TEST_CASE("a completion queue that overruns raises its event once and breaks the queue pair") {
  rig::options o;
  o.cqe = 4;
  pair p(o);
  for (std::uint64_t i = 0; i < 8; ++i) REQUIRE(p.b.receive(i, 0, 8) == 0);
  for (std::uint64_t i = 0; i < 8; ++i) REQUIRE(p.a.send(i, 0, 8) == 0);
  REQUIRE(rig::wait_for([&] { return shm::event_count(p.a.context).load() != 0; }));
  ibv_async_event e;
  REQUIRE(p.a.v.get_async_event(p.a.context, &e) == 0);
  CHECK(e.event_type == IBV_EVENT_CQ_ERR);
  CHECK(e.element.cq == p.a.send_cq);
  p.a.v.ack_async_event(&e);
  CHECK(shm::event_count(p.a.context).load() == 1);
  for (std::uint64_t i = 0; i < 4; ++i) CHECK(p.a.sent().wr_id == i);
  CHECK(p.a.state() == IBV_QPS_ERR);
}

TEST_CASE("the limit of a shared receive queue raises its event once for each arming") {
  rig::options o;
  o.srq_wr = 16;
  pair p({}, o);
  for (std::uint64_t i = 0; i < 8; ++i) REQUIRE(p.b.receive(i, 0, 8) == 0);
  ibv_srq_attr limit{};
  limit.srq_limit = 6;
  REQUIRE(p.b.v.modify_srq(p.b.srq, &limit, IBV_SRQ_LIMIT) == 0);
  for (int i = 0; i < 5; ++i) {
    REQUIRE(p.a.send(1, 0, 8) == 0);
    CHECK(p.b.received().status == IBV_WC_SUCCESS);
    CHECK(shm::event_count(p.b.context).load() == (i < 2 ? 0 : 1));
  }
  ibv_async_event e;
  REQUIRE(p.b.v.get_async_event(p.b.context, &e) == 0);
  CHECK(e.event_type == IBV_EVENT_SRQ_LIMIT_REACHED);
  CHECK(e.element.srq == p.b.srq);
  p.b.v.ack_async_event(&e);
  ibv_srq_attr now{};
  REQUIRE(p.b.v.query_srq(p.b.srq, &now) == 0);
  CHECK(now.srq_limit == 0);
}

TEST_CASE("a broken queue pair says when it takes no more of its shared receive queue") {
  rig::options o;
  o.srq_wr = 16;
  pair p({}, o);
  for (std::uint64_t i = 0; i < 4; ++i) REQUIRE(p.b.receive(i, 0, 8) == 0);
  REQUIRE(p.b.set_state(IBV_QPS_ERR) == 0);
  ibv_async_event e;
  REQUIRE(rig::wait_for([&] { return shm::event_count(p.b.context).load() != 0; }));
  REQUIRE(p.b.v.get_async_event(p.b.context, &e) == 0);
  CHECK(e.event_type == IBV_EVENT_QP_LAST_WQE_REACHED);
  p.b.v.ack_async_event(&e);
  CHECK(rig::side::empty(p.b.recv_cq));  // shared receives are not flushed
}

TEST_CASE("receives claimed for messages that were never taken go back to the shared queue") {
  rig::options o;
  o.srq_wr = 4;
  rig::side a, c, b(o);
  ibv_qp* second = b.new_qp();
  REQUIRE(b.to_init(second) == 0);
  a.connect(b);
  b.connect(a);
  REQUIRE(c.to_rtr(c.qp, b.gid, second->qp_num) == 0);
  REQUIRE(c.to_rts(c.qp) == 0);
  REQUIRE(b.to_rtr(second, c.gid, c.qp->qp_num) == 0);
  for (std::uint64_t i = 0; i < 4; ++i) REQUIRE(b.receive(i, 0, 8) == 0);
  for (int i = 0; i < 4; ++i) REQUIRE(a.send(1, 0, 8) == 0);
  REQUIRE(b.set_state(IBV_QPS_RESET) == 0);
  for (int i = 0; i < 4; ++i) REQUIRE(c.send(2, 0, 8) == 0);
  for (int i = 0; i < 4; ++i) CHECK(c.sent().status == IBV_WC_SUCCESS);
  for (int i = 0; i < 4; ++i) CHECK(b.received().qp_num == second->qp_num);
  CHECK(b.v.destroy_qp(second) == 0);
}

TEST_CASE("events that are withdrawn while somebody waits for them leave no sign behind") {
  shm::event_queue<int> q;
  REQUIRE(q.open() == 0);
  std::atomic<int> taken{0};
  std::thread taker([&] {
    for (int e = 0; e != -1;) {
      REQUIRE(q.pop(e) == 0);
      taken.fetch_add(1);
    }
  });
  const auto readable = [&] {
    pollfd p{q.fd(), POLLIN, 0};
    return ::poll(&p, 1, 0) == 1;
  };
  for (int i = 0; i < 20'000; ++i) {
    q.push(1);
    q.withdraw([](int e) { return e == 1; });
    q.push(2);
  }
  q.push(-1);
  taker.join();
  CHECK(taken.load() > 20'000);
  CHECK_FALSE(readable());
  q.push(3);
  REQUIRE(readable());
  REQUIRE(::fcntl(q.fd(), F_SETFL, O_NONBLOCK) == 0);
  int e = 0;
  CHECK(q.pop(e) == 0);
  CHECK(e == 3);
  CHECK(q.pop(e) == -1);
  CHECK(errno == EAGAIN);
}

TEST_CASE("who waits for an event goes on waiting after a handler that restarts calls") {
  struct sigaction counts {
  }, before;
  static std::atomic<int> came{0};
  counts.sa_handler = [](int) { came.fetch_add(1); };
  counts.sa_flags = SA_RESTART;
  REQUIRE(::sigaction(SIGUSR1, &counts, &before) == 0);
  shm::event_queue<int> q;
  REQUIRE(q.open() == 0);
  int got = -2, e = 0;
  std::thread taker([&] { got = q.pop(e); });
  for (int i = 1; i <= 20; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    if (::pthread_kill(taker.native_handle(), SIGUSR1) != 0) break;  // its wait has ended
    if (!rig::wait_for([&] { return came.load() >= i; }, 5)) break;
  }
  q.push(5);
  taker.join();
  CHECK(got == 0);
  CHECK(e == 5);
  REQUIRE(::sigaction(SIGUSR1, &before, nullptr) == 0);
}
