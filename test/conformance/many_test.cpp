// Many queue pairs at once: on one completion queue, connected to themselves, made and destroyed
// over and over.
#include <doctest/doctest.h>

#include <memory>

#include "test/conformance/rig.hpp"

namespace penstock::conformance {

TEST_CASE("among many queue pairs on one completion queue none is starved by a flood on another") {
  constexpr std::size_t pairs = 32;
  node here_, there;
  auto cq = here_.cq(4096);
  auto sends = there.cq(4096);
  auto srq = here_.srq(1024, 1);
  const region in = here_.memory(4096), out = there.memory(4096);
  std::vector<held<ibv_qp>> to, from;
  for (std::size_t i = 0; i < pairs; ++i) {
    to.push_back(here_.qp({.send_cq = cq.get(), .recv_cq = cq.get(), .srq = srq.get()}));
    from.push_back(there.qp({.send_cq = sends.get(), .recv_cq = sends.get(), .sends = 64}));
    here_.connect(to[i].get(), there.reach(from[i].get()));
    there.connect(from[i].get(), here_.reach(to[i].get()));
  }
  for (int i = 0; i < 1024; ++i) REQUIRE(post_receive(srq.get(), {in.sge(0, 64)}) == 0);
  // The first pair's queue is kept full all the time while each of the others sends one message.
  std::size_t flood = 0, in_flight = 0, others = 0, flood_seen = 0;
  const auto fill = [&] {
    while (in_flight < 48) {
      expect(request(IBV_WR_SEND, {out.sge(0, 8)}).post(from[0].get()) == 0, "post_send");
      ++flood, ++in_flight;
    }
  };
  fill();
  for (std::size_t i = 1; i < pairs; ++i)
    REQUIRE(request(IBV_WR_SEND, {out.sge(0, 8)}).post(from[i].get()) == 0);
  const bool all = until([&] {
    for (const ibv_wc& wc : collect(sends.get(), 16, 0))
      if (wc.qp_num == from[0]->qp_num) --in_flight;
    fill();
    for (const ibv_wc& wc : collect(cq.get(), 16, 0)) {
      expect(wc.status == IBV_WC_SUCCESS, "a message");
      expect(post_receive(srq.get(), {in.sge(0, 64)}) == 0, "post_srq_recv");
      ++(wc.qp_num == to[0]->qp_num ? flood_seen : others);
    }
    return others == pairs - 1;
  });
  CHECK(all);
  CHECK(others == pairs - 1);
  CHECK(flood_seen < 20000);
}

TEST_CASE("each of many queue pairs delivers to its own") {
  constexpr std::size_t pairs = 64;
  node a, b;
  auto cq_a = a.cq(1024), cq_b = b.cq(1024);
  const region mem_a = a.memory(pairs * 64), mem_b = b.memory(pairs * 64);
  std::vector<held<ibv_qp>> from, to;
  for (std::size_t i = 0; i < pairs; ++i) {
    from.push_back(a.qp({.send_cq = cq_a.get(), .recv_cq = cq_a.get()}));
    to.push_back(b.qp({.send_cq = cq_b.get(), .recv_cq = cq_b.get()}));
    a.connect(from[i].get(), b.reach(to[i].get()));
    b.connect(to[i].get(), a.reach(from[i].get()));
    REQUIRE(post_receive(to[i].get(), {mem_b.sge(i * 64, 64)}, i) == 0);
  }
  for (std::size_t i = pairs; i-- > 0;) {
    mem_a.word(i * 64) = 7000 + i;
    REQUIRE(request(IBV_WR_SEND, {mem_a.sge(i * 64, 8)}, i).post(from[i].get()) == 0);
  }
  const auto got = collect(cq_b.get(), pairs);
  REQUIRE(got.size() == pairs);
  for (const ibv_wc& wc : got) {
    CHECK(wc.status == IBV_WC_SUCCESS);
    CHECK(wc.qp_num == to[wc.wr_id]->qp_num);
    CHECK(mem_b.word(wc.wr_id * 64) == 7000 + wc.wr_id);
  }
  CHECK(collect(cq_a.get(), pairs).size() == pairs);
}

TEST_CASE("two queue pairs of one context can be connected to each other") {
  node n;
  side a(n, {}), b(n, {});
  n.connect(a.qp.get(), b.reach());
  n.connect(b.qp.get(), a.reach());
  a.mem.fill(0, 500, 1);
  REQUIRE(b.receive(0, 500) == 0);
  REQUIRE(a.send(0, 500) == 0);
  CHECK(b.received().byte_len == 500);
  CHECK(b.mem.holds(0, 500, 1));
  CHECK(a.sent().status == IBV_WC_SUCCESS);
  REQUIRE(request(IBV_WR_RDMA_READ, {b.mem.sge(4096, 500)})
              .at(a.mem.address(), a.mem.mr->rkey)
              .post(b.qp.get()) == 0);
  CHECK(b.sent().status == IBV_WC_SUCCESS);
  CHECK(b.mem.holds(4096, 500, 1));
}

TEST_CASE("a queue pair can be connected to itself") {
  side a;
  a.n.connect(a.qp.get(), a.reach());
  a.mem.fill(0, 100, 2);
  REQUIRE(a.receive(4096, 100, 8) == 0);
  REQUIRE(a.send(0, 100, 9) == 0);
  CHECK(a.received().wr_id == 8);
  CHECK(a.mem.holds(4096, 100, 2));
  CHECK(a.sent().wr_id == 9);
  REQUIRE(request(IBV_WR_ATOMIC_FETCH_AND_ADD, {a.mem.sge(0, 8)})
              .atomic(a.mem.address(8192), a.mem.mr->rkey, 3)
              .post(a.qp.get()) == 0);
  CHECK(a.sent().status == IBV_WC_SUCCESS);
  CHECK(a.mem.word(8192) == 3);
}

TEST_CASE("queue pairs are made, used and destroyed many times over") {
  node a, b;
  auto cq_a = a.cq(), cq_b = b.cq();
  const region mem_a = a.memory(4096), mem_b = b.memory(4096);
  for (std::uint64_t i = 0; i < 100; ++i) {
    auto from = a.qp({.send_cq = cq_a.get(), .recv_cq = cq_a.get()});
    auto to = b.qp({.send_cq = cq_b.get(), .recv_cq = cq_b.get()});
    b.connect(to.get(), a.reach(from.get()));
    a.connect(from.get(), b.reach(to.get()));
    REQUIRE(post_receive(to.get(), {mem_b.sge(0, 64)}, i) == 0);
    mem_a.word(0) = i + 1;
    REQUIRE(request(IBV_WR_SEND, {mem_a.sge(0, 8)}, i).post(from.get()) == 0);
    const ibv_wc got = one(cq_b.get());
    CHECK(got.wr_id == i);
    CHECK(got.qp_num == to->qp_num);
    CHECK(mem_b.word(0) == i + 1);
    CHECK(one(cq_a.get()).status == IBV_WC_SUCCESS);
  }
}

TEST_CASE("a queue pair with work under way can be destroyed, and the memory after it") {
  for (int i = 0; i < 10; ++i) {
    duo d;
    for (int k = 0; k < 8; ++k) REQUIRE(d.a.receive(0, 64) == 0);
    for (int k = 0; k < 8; ++k) REQUIRE(d.a.send(0, 64) == 0);  // nobody receives them
    CHECK(d.a.qp.destroy() == 0);
    CHECK(d.a.mem.mr.destroy() == 0);
    CHECK(d.a.send_cq.destroy() == 0);
    CHECK(d.a.recv_cq.destroy() == 0);
  }
}

TEST_CASE("devices are opened and closed many times over") {
  for (int i = 0; i < 30; ++i) {
    node n;
    auto cq = n.cq();
    CHECK(cq->cqe > 0);
  }
}

}  // namespace penstock::conformance
