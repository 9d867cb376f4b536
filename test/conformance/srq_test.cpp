// Shared receive queues: which message gets which receive, what happens without one, the limit
// event.
#include <doctest/doctest.h>

#include <cerrno>
#include <memory>

#include "test/conformance/differences.hpp"
#include "test/conformance/rig.hpp"

namespace penstock::conformance {
namespace {

/// Several senders, each with a context of its own, into one context with one SRQ and one CQ.
struct fan {
  explicit fan(std::size_t senders, const link_shape& link = {}) {
    for (std::size_t i = 0; i < senders; ++i) {
      from.push_back(std::make_unique<side>());
      to.push_back(n.qp({.send_cq = cq.get(), .recv_cq = cq.get(), .srq = srq.get()}));
      n.connect(to[i].get(), from[i]->reach(), link);
      from[i]->n.connect(from[i]->qp.get(), n.reach(to[i].get()), link);
    }
  }
  int receive(std::size_t slot, std::uint64_t id) {
    return post_receive(srq.get(), {mem.sge(slot * 64, 64)}, id);
  }
  node n;
  held<ibv_cq> cq = n.cq();
  held<ibv_srq> srq = n.srq(64, 1);
  region mem = n.memory(64 << 10);
  std::vector<held<ibv_qp>> to;
  std::vector<std::unique_ptr<side>> from;
};

int arm(fan& f, std::uint32_t limit) {
  ibv_srq_attr a{};
  a.srq_limit = limit;
  return f.n.v.modify_srq(f.srq.get(), &a, IBV_SRQ_LIMIT);
}

}  // namespace

TEST_CASE("receives of an SRQ go to the messages of all its queue pairs, first come first served") {
  fan f(3);
  for (std::uint64_t i = 0; i < 12; ++i) REQUIRE(f.receive(i, i) == 0);
  for (std::uint64_t i = 0; i < 12; ++i) {
    side& s = *f.from[i % 3];
    s.mem.word(0) = 900 + i;
    REQUIRE(s.send(0, 8) == 0);
    const ibv_wc wc = one(f.cq.get());
    CHECK(wc.status == IBV_WC_SUCCESS);
    CHECK(wc.wr_id == i);
    CHECK(wc.qp_num == f.to[i % 3]->qp_num);
    CHECK(f.mem.word(i * 64) == 900 + i);
    CHECK(s.sent().status == IBV_WC_SUCCESS);
  }
}

TEST_CASE("a queue pair of an SRQ has no receive queue of its own") {
  fan f(1);
  CHECK(post_receive(f.to[0].get(), {f.mem.sge(0, 64)}) != 0);
}

TEST_CASE("what is asked of the receive queue is ignored where there is an SRQ") {
  fan f(1);
  const auto& limits = f.n.dev.limits;
  const qp_shape shape{.send_cq = f.cq.get(), .recv_cq = f.cq.get(), .srq = f.srq.get()};
  qp_shape many = shape, wide = shape;
  many.receives = static_cast<std::uint32_t>(limits.max_qp_wr) + 1;
  wide.receive_sges = static_cast<std::uint32_t>(limits.max_sge) + 1;
  CHECK(f.n.qp(many));
  CHECK(f.n.qp(wide));
}

TEST_CASE("a full SRQ refuses the next receive, and takes one again when one was consumed") {
  fan f(1);
  int taken = 0, e = 0;
  while (e == 0 && taken < 10000) {
    e = f.receive(0, 0);
    if (e == 0) ++taken;
  }
  CHECK(e == ENOMEM);
  CHECK(taken >= 64);
  REQUIRE(f.from[0]->send(0, 8) == 0);
  CHECK(one(f.cq.get()).status == IBV_WC_SUCCESS);
  CHECK(f.receive(0, 0) == 0);
}

TEST_CASE("a message waits for a receive of the SRQ and then takes it") {
  fan f(2);
  f.from[1]->mem.fill(0, 40, 7);
  REQUIRE(f.from[1]->send(0, 40) == 0);
  CHECK(silent(f.cq.get(), 30));
  REQUIRE(f.receive(2, 5) == 0);
  const ibv_wc wc = one(f.cq.get());
  CHECK(wc.wr_id == 5);
  CHECK(f.mem.holds(128, 40, 7));
  CHECK(f.from[1]->sent().status == IBV_WC_SUCCESS);
}

TEST_CASE("the receives of an SRQ stay for the others when one queue pair breaks") {
  fan f(2);
  for (std::uint64_t i = 0; i < 3; ++i) REQUIRE(f.receive(i, i) == 0);
  REQUIRE(f.n.to_state(f.to[0].get(), IBV_QPS_ERR) == 0);
  CHECK(silent(f.cq.get(), 30));
  for (int i = 0; i < 3; ++i) {
    REQUIRE(f.from[1]->send(0, 8) == 0);
    CHECK(one(f.cq.get()).status == IBV_WC_SUCCESS);
  }
  f.to[0].destroy();
  REQUIRE(f.receive(0, 9) == 0);
  REQUIRE(f.from[1]->send(0, 8) == 0);
  CHECK(one(f.cq.get()).wr_id == 9);
}

TEST_CASE("the limit event comes once when fewer receives are left, and not again unless armed") {
  fan f(1);
  for (std::uint64_t i = 0; i < 8; ++i) REQUIRE(f.receive(i, i) == 0);
  REQUIRE(arm(f, 4) == 0);
  ibv_srq_attr a{};
  REQUIRE(f.n.v.query_srq(f.srq.get(), &a) == 0);
  CHECK(a.srq_limit == 4);
  const auto consume = [&](int n) {
    for (int i = 0; i < n; ++i) {
      expect(f.from[0]->send(0, 8) == 0, "post_send");
      expect(one(f.cq.get()).status == IBV_WC_SUCCESS, "a message");
    }
  };
  consume(4);  // four are left: not below the limit
  CHECK(f.n.async_event(30) == -1);
  consume(1);
  ibv_async_event event{};
  CHECK(f.n.async_event(5000, &event) == IBV_EVENT_SRQ_LIMIT_REACHED);
  CHECK(event.element.srq == f.srq.get());
  consume(1);
  CHECK(f.n.async_event(30) == -1);
  REQUIRE(f.n.v.query_srq(f.srq.get(), &a) == 0);
  CHECK(a.srq_limit == 0);
  for (std::uint64_t i = 0; i < 8; ++i) REQUIRE(f.receive(i, i) == 0);
  REQUIRE(arm(f, 9) == 0);
  consume(2);
  CHECK(f.n.async_event(5000) == IBV_EVENT_SRQ_LIMIT_REACHED);
  CHECK(f.n.async_event(30) == -1);
}

TEST_CASE("the last receive of a broken queue pair on an SRQ is announced") {
  fan f(1);
  REQUIRE(f.receive(0, 0) == 0);
  REQUIRE(f.n.to_state(f.to[0].get(), IBV_QPS_ERR) == 0);
  const int event = f.n.async_event(here().last_wqe_event ? 5000 : 100);
  CHECK(event == (here().last_wqe_event ? static_cast<int>(IBV_EVENT_QP_LAST_WQE_REACHED) : -1));
}

}  // namespace penstock::conformance
