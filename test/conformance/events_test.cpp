// Completion channels: exactly one event for each time a queue is armed, and a sleeping thread is
// woken.
#include <doctest/doctest.h>

#include <fcntl.h>
#include <poll.h>

#include <cerrno>
#include <thread>

#include "test/conformance/differences.hpp"
#include "test/conformance/roles.hpp"

namespace penstock::conformance {
namespace {

/// A receiver whose receive queue is on a channel that does not block, and its sender.
struct watched {
  watched() {
    fcntl(channel->fd, F_SETFL, O_NONBLOCK);
    n.connect(b.qp.get(), a.reach());
    a.n.connect(a.qp.get(), b.reach());
    for (int i = 0; i < 16; ++i) expect(b.receive(0, 64) == 0, "post_recv");
  }
  /// Events there are within ms, each acknowledged.
  int events(int ms) {
    int count = 0;
    pollfd p{channel->fd, POLLIN, 0};
    while (poll(&p, 1, ms) == 1) {
      ibv_cq* which = nullptr;
      void* context = nullptr;
      if (n.v.get_cq_event(channel.get(), &which, &context) != 0) break;
      expect(which == cq.get(), "an event of this queue");
      n.v.ack_cq_events(which, 1);
      ++count;
    }
    return count;
  }
  void send(unsigned flags = 0) {
    expect(a.send(0, 8, 0, IBV_SEND_SIGNALED | flags) == 0, "post_send");
    expect(a.sent().status == IBV_WC_SUCCESS, "a SEND to succeed");
  }
  node n;
  held<ibv_comp_channel> channel = n.channel();
  held<ibv_cq> cq = n.cq(64, channel.get());
  side b{n, {.recv_cq = cq.get()}};
  side a;
};

}  // namespace

TEST_CASE("a queue that is not armed raises no event") {
  watched w;
  w.send();
  CHECK(one(w.cq.get()).status == IBV_WC_SUCCESS);
  CHECK(w.events(50) == 0);
}

TEST_CASE("an armed queue raises exactly one event, however many completions come") {
  watched w;
  for (int round = 0; round < 3; ++round) {
    REQUIRE(ibv_req_notify_cq(w.cq.get(), 0) == 0);
    CHECK(w.events(20) == 0);
    for (int i = 0; i < 4; ++i) w.send();
    CHECK(w.events(100) == 1);
    CHECK(collect(w.cq.get(), 4).size() == 4);
    w.send();
    CHECK(w.events(50) == 0);
    CHECK(one(w.cq.get()).status == IBV_WC_SUCCESS);
    for (int i = 0; i < 5; ++i) REQUIRE(w.b.receive(0, 64) == 0);
  }
}

TEST_CASE("arming twice is arming once") {
  watched w;
  REQUIRE(ibv_req_notify_cq(w.cq.get(), 0) == 0);
  REQUIRE(ibv_req_notify_cq(w.cq.get(), 0) == 0);
  w.send();
  w.send();
  CHECK(w.events(100) == 1);
}

TEST_CASE("a queue armed for solicited completions sleeps through others") {
  watched w;
  REQUIRE(ibv_req_notify_cq(w.cq.get(), 1) == 0);
  w.send();
  CHECK(w.events(50) == 0);
  w.send(IBV_SEND_SOLICITED);
  CHECK(w.events(1000) == 1);
}

TEST_CASE("an error counts as solicited") {
  watched w;
  REQUIRE(ibv_req_notify_cq(w.cq.get(), 1) == 0);
  REQUIRE(w.n.to_state(w.b.qp.get(), IBV_QPS_ERR) == 0);
  CHECK(w.events(1000) == 1);
}

TEST_CASE("send completions raise events as receives do") {
  node n;
  auto channel = n.channel();
  auto cq = n.cq(64, channel.get());
  side a(n, {.send_cq = cq.get()}), b;
  n.connect(a.qp.get(), b.reach());
  b.n.connect(b.qp.get(), a.reach());
  for (const bool one_sided : {false, true}) {
    CAPTURE(one_sided);
    REQUIRE(ibv_req_notify_cq(cq.get(), 0) == 0);
    REQUIRE(b.receive(0, 64) == 0);
    const int posted = one_sided ? request(IBV_WR_RDMA_READ, {a.mem.sge(0, 8)})
                                       .at(b.mem.address(), b.mem.mr->rkey)
                                       .post(a.qp.get())
                                 : a.send(0, 8);
    REQUIRE(posted == 0);
    pollfd p{channel->fd, POLLIN, 0};
    REQUIRE(poll(&p, 1, 5000) == 1);
    ibv_cq* which = nullptr;
    void* context = nullptr;
    REQUIRE(n.v.get_cq_event(channel.get(), &which, &context) == 0);
    CHECK(which == cq.get());
    n.v.ack_cq_events(which, 1);
    CHECK(one(cq.get()).status == IBV_WC_SUCCESS);
  }
}

TEST_CASE("an event names its queue and the context it was made with") {
  node n;
  auto channel = n.channel();
  int tags[2] = {};
  held<ibv_cq> cq[2];
  for (int i = 0; i < 2; ++i) {
    cq[i] = {n.v.create_cq(n.dev.context, 16, &tags[i], channel.get(), 0), n.v.destroy_cq};
    REQUIRE(cq[i]);
    REQUIRE(ibv_req_notify_cq(cq[i].get(), 0) == 0);
  }
  side b(n, {.recv_cq = cq[1].get()}), a;
  n.connect(b.qp.get(), a.reach());
  a.n.connect(a.qp.get(), b.reach());
  REQUIRE(b.receive(0, 64) == 0);
  REQUIRE(a.send(0, 8) == 0);
  pollfd p{channel->fd, POLLIN, 0};
  REQUIRE(poll(&p, 1, 5000) == 1);
  ibv_cq* which = nullptr;
  void* context = nullptr;
  REQUIRE(n.v.get_cq_event(channel.get(), &which, &context) == 0);
  CHECK(which == cq[1].get());
  CHECK(context == &tags[1]);
  n.v.ack_cq_events(which, 1);
}

TEST_CASE("without an event a channel that does not block says so") {
  watched w;
  ibv_cq* which = nullptr;
  void* context = nullptr;
  CHECK(w.n.v.get_cq_event(w.channel.get(), &which, &context) == -1);
  CHECK(errno == EAGAIN);
}

TEST_CASE("a channel with queues cannot be destroyed") {
  node n;
  auto channel = n.channel();
  auto cq = n.cq(16, channel.get());
  CHECK(n.v.destroy_comp_channel(channel.get()) == EBUSY);
  CHECK(cq.destroy() == 0);
  CHECK(channel.destroy() == 0);
}

TEST_CASE("a sleeper is woken by each message of another process, and misses none") {
  constexpr int rounds = 30;
  as_processes(
      [](link& l) {
        node n;
        auto channel = n.channel();
        auto cq = n.cq(64, channel.get());
        side s(n, {.recv_cq = cq.get()});
        n.connect(s.qp.get(), l.swap(s.reach()));
        for (int i = 0; i < 8; ++i) expect(s.receive(0, 64) == 0, "post_recv");
        l.meet();
        for (int got = 0; got < rounds;) {
          expect(ibv_req_notify_cq(cq.get(), 0) == 0, "req_notify_cq");
          // A completion that came before the arming raises no event: look once more.
          auto there = collect(cq.get(), 8, 0);
          if (there.empty()) {
            pollfd p{channel->fd, POLLIN, 0};
            expect(poll(&p, 1, 5000) == 1, "to be woken");
            ibv_cq* which = nullptr;
            void* context = nullptr;
            expect(n.v.get_cq_event(channel.get(), &which, &context) == 0, "get_cq_event");
            n.v.ack_cq_events(which, 1);
            there = collect(cq.get(), 1);
          }
          for (std::size_t i = 0; i < there.size(); ++i, ++got) {
            expect(there[i].status == IBV_WC_SUCCESS, "a message");
            expect(s.receive(0, 64) == 0, "post_recv");
            l.meet();
          }
        }
      },
      [](link& l) {
        side s = joined(l);
        for (int i = 0; i < rounds; ++i) {
          // Some at once, some when the other side has had the time to fall asleep.
          if (i % 3 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
          expect(s.send(0, 8) == 0, "post_send");
          expect(s.sent().status == IBV_WC_SUCCESS, "a SEND to succeed");
          l.meet();
        }
      });
}

TEST_CASE("the target of a breach of access is told by an event where the device does so") {
  duo d;
  REQUIRE(request(IBV_WR_RDMA_WRITE, {d.a.mem.sge(0, 8)})
              .at(d.b.mem.address(), d.b.mem.mr->rkey ^ 0x5500)
              .post(d.a.qp.get()) == 0);
  CHECK(d.a.sent().status == IBV_WC_REM_ACCESS_ERR);
  ibv_async_event event{};
  CHECK(d.b.n.async_event(here().breach_event < 0 ? 100 : 5000, &event) == here().breach_event);
  if (here().breach_event >= 0) CHECK(event.element.qp == d.b.qp.get());
}

}  // namespace penstock::conformance
