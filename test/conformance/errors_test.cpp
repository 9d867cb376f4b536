// Errors on a connection and their reports: receiver not ready, receives that are too short, peers
// that do not answer or die, full completion queues.
#include <doctest/doctest.h>

#include "lib/base/clock.hpp"
#include "test/conformance/differences.hpp"
#include "test/conformance/roles.hpp"

namespace penstock::conformance {
namespace {

/// Settings with which a peer that does not answer is noticed soon.
constexpr link_shape impatient{.rnr_retry = 7, .retry = 2, .timeout = 12};

bool broken(side& s) {
  return until([&] { return s.n.state(s.qp.get()) == IBV_QPS_ERR; });
}

}  // namespace

TEST_CASE("a receiver without a receive is waited for as long as rnr_retry 7 says: for ever") {
  duo d({.rnr_retry = 7, .min_rnr_timer = 1});
  d.a.mem.fill(0, 100, 3);
  REQUIRE(d.a.send(0, 100) == 0);
  CHECK(silent(d.b.recv_cq.get(), 200));
  CHECK(d.a.n.state(d.a.qp.get()) == IBV_QPS_RTS);
  REQUIRE(d.b.receive(0, 100) == 0);
  CHECK(d.b.received().status == IBV_WC_SUCCESS);
  CHECK(d.b.mem.holds(0, 100, 3));
  CHECK(d.a.sent().status == IBV_WC_SUCCESS);
}

TEST_CASE("a receiver without a receive fails the sender when the retries are used up") {
  for (const std::uint8_t retries : {std::uint8_t{0}, std::uint8_t{2}}) {
    CAPTURE(static_cast<int>(retries));
    duo d({.rnr_retry = retries, .min_rnr_timer = 1});
    REQUIRE(d.a.send(0, 8, 1) == 0);
    REQUIRE(d.a.send(0, 8, 2) == 0);
    const auto wc = collect(d.a.send_cq.get(), 2);
    REQUIRE(wc.size() == 2);
    CHECK(wc[0].status == IBV_WC_RNR_RETRY_EXC_ERR);
    CHECK(wc[0].wr_id == 1);
    CHECK(wc[1].status == IBV_WC_WR_FLUSH_ERR);
    CHECK(wc[1].wr_id == 2);
    CHECK(broken(d.a));
    CHECK(d.b.n.state(d.b.qp.get()) == IBV_QPS_RTS);
  }
}

TEST_CASE("a WRITE with immediate needs a receive too") {
  duo d({.rnr_retry = 0, .min_rnr_timer = 1});
  REQUIRE(request(IBV_WR_RDMA_WRITE_WITH_IMM, {d.a.mem.sge(0, 8)})
              .at(d.b.mem.address(), d.b.mem.mr->rkey)
              .post(d.a.qp.get()) == 0);
  CHECK(d.a.sent().status == IBV_WC_RNR_RETRY_EXC_ERR);
}

TEST_CASE("the receiver's timer says how long the sender waits between retries") {
  // Timer 26 is 163.84 ms, so two retries take at least that long; timer 1 is 10 us.
  duo d({.rnr_retry = 2, .min_rnr_timer = 26});
  const std::uint64_t start = now_ns();
  REQUIRE(d.a.send(0, 8) == 0);
  CHECK(d.a.sent().status == IBV_WC_RNR_RETRY_EXC_ERR);
  CHECK(now_ns() - start >= 163'000'000);
}

TEST_CASE("what lies behind a message that waits for a receive waits too") {
  duo d;
  REQUIRE(d.a.send(0, 8, 1) == 0);
  d.a.mem.fill(0, 64, 9);
  REQUIRE(request(IBV_WR_RDMA_WRITE, {d.a.mem.sge(0, 64)}, 2)
              .at(d.b.mem.address(4096), d.b.mem.mr->rkey)
              .post(d.a.qp.get()) == 0);
  CHECK(silent(d.a.send_cq.get(), 50));
  CHECK(d.b.mem.word(4096) == 0);
  REQUIRE(d.b.receive(0, 8) == 0);
  const auto wc = collect(d.a.send_cq.get(), 2);
  REQUIRE(wc.size() == 2);
  CHECK(wc[0].wr_id == 1);
  CHECK(wc[1].wr_id == 2);
  CHECK(d.b.mem.holds(4096, 64, 9));
}

TEST_CASE("a receive that is too short fails both ends and writes nothing beyond it") {
  for (const std::size_t bytes : {std::size_t{65}, std::size_t{30000}}) {
    CAPTURE(bytes);
    duo d;
    d.a.mem.fill(0, bytes, 1);
    REQUIRE(d.b.receive(0, 64, 4) == 0);
    REQUIRE(d.a.send(0, bytes, 5) == 0);
    const ibv_wc got = d.b.received();
    CHECK(got.status == here().short_receive);
    CHECK(got.wr_id == 4);
    CHECK(d.b.mem.word(64) == 0);
    CHECK(d.a.sent().status == here().short_receive_sender);
    CHECK(broken(d.a));
    CHECK(broken(d.b));
  }
}

TEST_CASE("the first error of a stream is told and everything after it is flushed, in order") {
  duo d({.access = 0});
  for (std::uint64_t i = 0; i < 3; ++i) REQUIRE(d.b.receive(0, 64, i) == 0);
  REQUIRE(d.a.send(0, 8, 1, 0) == 0);
  REQUIRE(request(IBV_WR_RDMA_WRITE, {d.a.mem.sge(0, 8)}, 2)
              .at(d.b.mem.address(), d.b.mem.mr->rkey)
              .post(d.a.qp.get()) == 0);
  REQUIRE(d.a.send(0, 8, 3, 0) == 0);
  REQUIRE(d.a.send(0, 8, 4) == 0);
  const auto sends = collect(d.a.send_cq.get(), 3);
  REQUIRE(sends.size() == 3);
  CHECK(sends[0].wr_id == 2);
  CHECK(sends[0].status == IBV_WC_REM_INV_REQ_ERR);
  CHECK(sends[1].wr_id == 3);
  CHECK(sends[1].status == IBV_WC_WR_FLUSH_ERR);
  CHECK(sends[2].wr_id == 4);
  CHECK(sends[2].status == IBV_WC_WR_FLUSH_ERR);
  const auto got = collect(d.b.recv_cq.get(), 3);
  REQUIRE(got.size() == 3);
  CHECK(got[0].status == IBV_WC_SUCCESS);
  CHECK(got[1].status == IBV_WC_WR_FLUSH_ERR);
  CHECK(got[2].status == IBV_WC_WR_FLUSH_ERR);
}

TEST_CASE("a queue pair number that nobody has is noticed by the retries") {
  side a;
  party nobody = a.reach();
  nobody.qpn ^= 0x7ff00;
  a.n.connect(a.qp.get(), nobody, impatient);
  REQUIRE(a.send(0, 8) == 0);
  CHECK(a.sent().status == IBV_WC_RETRY_EXC_ERR);
  CHECK(broken(a));
}

TEST_CASE("a peer that has left its queue pair is noticed by the retries") {
  duo d(impatient);
  REQUIRE(d.b.receive(0, 64) == 0);
  REQUIRE(d.a.send(0, 8) == 0);
  REQUIRE(d.a.sent().status == IBV_WC_SUCCESS);
  REQUIRE(d.b.qp.destroy() == 0);
  REQUIRE(d.a.send(0, 8) == 0);
  CHECK(d.a.sent().status == IBV_WC_RETRY_EXC_ERR);
  CHECK(broken(d.a));
}

TEST_CASE("a one-sided operation towards a queue pair in error is not carried out") {
  duo d(impatient);
  REQUIRE(d.b.n.to_state(d.b.qp.get(), IBV_QPS_ERR) == 0);
  d.a.mem.word(0) = 1;
  REQUIRE(request(IBV_WR_RDMA_WRITE, {d.a.mem.sge(0, 8)})
              .at(d.b.mem.address(), d.b.mem.mr->rkey)
              .post(d.a.qp.get()) == 0);
  CHECK(d.a.sent().status == IBV_WC_RETRY_EXC_ERR);
  CHECK(d.b.mem.word(0) == 0);
}

TEST_CASE("the death of the peer ends what is under way in error, within seconds") {
  for (const bool waiting : {true, false}) {
    CAPTURE(waiting);
    with_victim(
        [&](link& l, const std::function<void()>& kill) {
          side s = joined(l, impatient);
          // Either something waits for a receive of the victim, or it is posted after its death.
          if (waiting) REQUIRE(s.send(0, 8, 1) == 0);
          kill();
          if (!waiting) REQUIRE(s.send(0, 8, 1) == 0);
          REQUIRE(s.send(0, 8, 2) == 0);
          const auto wc = collect(s.send_cq.get(), 2);
          REQUIRE(wc.size() == 2);
          CHECK(wc[0].status == IBV_WC_RETRY_EXC_ERR);
          CHECK(wc[0].wr_id == 1);
          CHECK(wc[1].status == IBV_WC_WR_FLUSH_ERR);
          CHECK(broken(s));
        },
        [](link& l) {
          side s = joined(l, impatient);
          char never;
          l.get(&never, 1);
        });
  }
}

TEST_CASE("the death of the peer ends a READ, an atomic and a WRITE in error") {
  for (const auto op : {IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE, IBV_WR_ATOMIC_FETCH_AND_ADD}) {
    CAPTURE(static_cast<int>(op));
    with_victim(
        [&](link& l, const std::function<void()>& kill) {
          side s = joined(l, impatient);
          target t;
          l.get(&t, sizeof t);
          const auto go = [&] {
            request r(op, {s.mem.sge(0, 8)});
            if (op == IBV_WR_ATOMIC_FETCH_AND_ADD)
              r.atomic(t.address, t.rkey, 1);
            else
              r.at(t.address, t.rkey);
            expect(r.post(s.qp.get()) == 0, "post_send");
            return s.sent().status;
          };
          CHECK(go() == IBV_WC_SUCCESS);
          kill();
          // The process needs a moment to die: operations may still succeed in it.
          ibv_wc_status status = IBV_WC_SUCCESS;
          CHECK(until([&] { return (status = go()) != IBV_WC_SUCCESS; }));
          CHECK(status == IBV_WC_RETRY_EXC_ERR);
        },
        [](link& l) {
          side s = joined(l, impatient);
          const target t{s.mem.address(), s.mem.mr->rkey};
          l.put(&t, sizeof t);
          char never;
          l.get(&never, 1);
        });
  }
}

TEST_CASE("an idle connection is told of the peer's death where the device can know") {
  with_victim(
      [&](link& l, const std::function<void()>& kill) {
        side s = joined(l, impatient);
        REQUIRE(s.receive(0, 64, 3) == 0);
        kill();
        ibv_async_event event{};
        if (here().death_is_noticed) {
          CHECK(s.n.async_event(10000, &event) == IBV_EVENT_QP_FATAL);
          CHECK(event.element.qp == s.qp.get());
          CHECK(broken(s));
          CHECK(s.received().status == IBV_WC_WR_FLUSH_ERR);
        } else {
          CHECK(s.n.async_event(1000, &event) == -1);
          CHECK(s.n.state(s.qp.get()) == IBV_QPS_RTS);
        }
      },
      [](link& l) {
        side s = joined(l, impatient);
        char never;
        l.get(&never, 1);
      });
}

TEST_CASE("a completion queue that overflows with sends is reported by an event") {
  node n;
  auto cq = n.cq(16);
  const auto room = static_cast<std::size_t>(cq->cqe);
  REQUIRE(room < 1024);
  side a(n, {.send_cq = cq.get(), .sends = 2048}), b({.receives = 2048});
  n.connect(a.qp.get(), b.reach());
  b.n.connect(b.qp.get(), a.reach());
  for (std::size_t i = 0; i < room + 8; ++i) REQUIRE(b.receive(0, 64, i) == 0);
  for (std::size_t i = 0; i < room + 8; ++i) REQUIRE(a.send(0, 8, i) == 0);
  ibv_async_event event{};
  CHECK(n.async_event(5000, &event) == IBV_EVENT_CQ_ERR);
  CHECK(event.element.cq == cq.get());
}

TEST_CASE("a completion queue that overflows with receives is reported, or holds the rest back") {
  node n;
  auto cq = n.cq(16);
  const auto room = static_cast<std::size_t>(cq->cqe);
  REQUIRE(room < 1024);
  side a(n, {.recv_cq = cq.get(), .receives = 2048}), b({.sends = 2048});
  n.connect(a.qp.get(), b.reach());
  b.n.connect(b.qp.get(), a.reach());
  for (std::size_t i = 0; i < room + 8; ++i) REQUIRE(a.receive(0, 64, i) == 0);
  for (std::size_t i = 0; i < room + 8; ++i) REQUIRE(b.send(0, 8, i, 0) == 0);
  ibv_async_event event{};
  if (here().receives_overrun) {
    CHECK(n.async_event(5000, &event) == IBV_EVENT_CQ_ERR);
    CHECK(event.element.cq == cq.get());
  } else {
    CHECK(n.async_event(100, &event) == -1);
    const auto all = collect(cq.get(), room + 8);
    REQUIRE(all.size() == room + 8);
    for (std::size_t i = 0; i < all.size(); ++i) CHECK(all[i].wr_id == i);
  }
}

}  // namespace penstock::conformance
