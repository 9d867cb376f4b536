// The state machine of an RC queue pair: the steps that exist, the attributes that each needs, the
// calls that are allowed in each state.
#include <doctest/doctest.h>

#include <cerrno>

#include "test/conformance/differences.hpp"
#include "test/conformance/rig.hpp"

namespace penstock::conformance {
namespace {

ibv_qp_attr init_attr(const node& n) {
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_INIT;
  a.port_num = n.dev.self.port;
  return a;
}
constexpr int init_mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;

}  // namespace

TEST_CASE("a new queue pair is in RESET and goes through INIT and RTR to RTS") {
  side a, b;
  CHECK(a.n.state(a.qp.get()) == IBV_QPS_RESET);
  CHECK(a.n.to_init(a.qp.get()) == 0);
  CHECK(a.n.state(a.qp.get()) == IBV_QPS_INIT);
  CHECK(a.n.to_rtr(a.qp.get(), b.reach()) == 0);
  CHECK(a.n.state(a.qp.get()) == IBV_QPS_RTR);
  CHECK(a.n.to_rts(a.qp.get()) == 0);
  CHECK(a.n.state(a.qp.get()) == IBV_QPS_RTS);
  CHECK(a.qp->state == IBV_QPS_RTS);
}

TEST_CASE("queue pair numbers of a context differ") {
  node n;
  side a(n, {}), b(n, {});
  CHECK(a.qp->qp_num != b.qp->qp_num);
}

TEST_CASE("each attribute that a step demands is missed when it is left out") {
  side a, b;
  ibv_qp_attr attr = init_attr(a.n);
  for (const int bit : {IBV_QP_PKEY_INDEX, IBV_QP_PORT, IBV_QP_ACCESS_FLAGS}) {
    CAPTURE(bit);
    CHECK(a.n.v.modify_qp(a.qp.get(), &attr, init_mask & ~bit) == EINVAL);
  }
  REQUIRE(a.n.to_init(a.qp.get()) == 0);
  attr = {};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = b.qp->qp_num;
  attr.max_dest_rd_atomic = 1;
  attr.ah_attr = a.n.dev.path_to(b.reach().where);
  const int rtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  for (const int bit : {IBV_QP_AV, IBV_QP_PATH_MTU, IBV_QP_DEST_QPN, IBV_QP_RQ_PSN,
                        IBV_QP_MAX_DEST_RD_ATOMIC, IBV_QP_MIN_RNR_TIMER}) {
    CAPTURE(bit);
    CHECK(a.n.v.modify_qp(a.qp.get(), &attr, rtr & ~bit) == EINVAL);
  }
  ibv_qp_attr elsewhere = attr;  // a path that leaves by a port that the device does not have
  elsewhere.ah_attr.port_num = static_cast<std::uint8_t>(a.n.dev.limits.phys_port_cnt + 1);
  CHECK(a.n.v.modify_qp(a.qp.get(), &elsewhere, rtr) == EINVAL);
  REQUIRE(a.n.v.modify_qp(a.qp.get(), &attr, rtr) == 0);
  attr = {};
  attr.qp_state = IBV_QPS_RTS;
  const int rts = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                  IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
  for (const int bit : {IBV_QP_TIMEOUT, IBV_QP_RETRY_CNT, IBV_QP_RNR_RETRY, IBV_QP_SQ_PSN,
                        IBV_QP_MAX_QP_RD_ATOMIC}) {
    CAPTURE(bit);
    CHECK(a.n.v.modify_qp(a.qp.get(), &attr, rts & ~bit) == EINVAL);
  }
  CHECK(a.n.v.modify_qp(a.qp.get(), &attr, rts) == 0);
}

TEST_CASE("steps cannot be skipped") {
  side a, b;
  CHECK(a.n.to_rtr(a.qp.get(), b.reach()) == EINVAL);
  CHECK(a.n.to_rts(a.qp.get()) == EINVAL);
  REQUIRE(a.n.to_init(a.qp.get()) == 0);
  CHECK(a.n.to_rts(a.qp.get()) == EINVAL);
  CHECK(a.n.state(a.qp.get()) == IBV_QPS_INIT);
  REQUIRE(a.n.to_rtr(a.qp.get(), b.reach()) == 0);
  CHECK(a.n.to_init(a.qp.get()) == EINVAL);
  CHECK(a.n.state(a.qp.get()) == IBV_QPS_RTR);
}

TEST_CASE("attributes that do not belong to a step are refused with it") {
  side a;
  ibv_qp_attr attr = init_attr(a.n);
  CHECK(a.n.v.modify_qp(a.qp.get(), &attr, init_mask | IBV_QP_TIMEOUT) == EINVAL);
  CHECK(a.n.v.modify_qp(a.qp.get(), &attr, init_mask | IBV_QP_DEST_QPN) == EINVAL);
  CHECK(a.n.state(a.qp.get()) == IBV_QPS_RESET);
}

TEST_CASE("a port that does not exist is refused") {
  side a;
  ibv_qp_attr attr = init_attr(a.n);
  attr.port_num = static_cast<std::uint8_t>(a.n.dev.limits.phys_port_cnt + 1);
  CHECK(a.n.v.modify_qp(a.qp.get(), &attr, init_mask) == EINVAL);
}

TEST_CASE("from every state but RESET a queue pair goes to ERR, and from there to RESET") {
  for (int steps = 1; steps < 4; ++steps) {
    CAPTURE(steps);
    side a, b;
    CHECK(a.n.to_state(a.qp.get(), IBV_QPS_ERR) == EINVAL);
    REQUIRE(a.n.to_init(a.qp.get()) == 0);
    if (steps > 1) REQUIRE(a.n.to_rtr(a.qp.get(), b.reach()) == 0);
    if (steps > 2) REQUIRE(a.n.to_rts(a.qp.get()) == 0);
    CHECK(a.n.to_state(a.qp.get(), IBV_QPS_ERR) == 0);
    CHECK(a.n.state(a.qp.get()) == IBV_QPS_ERR);
    CHECK(a.n.to_state(a.qp.get(), IBV_QPS_RESET) == 0);
    CHECK(a.n.state(a.qp.get()) == IBV_QPS_RESET);
  }
}

TEST_CASE("query_qp tells what was set") {
  duo d({.rnr_retry = 5, .retry = 3, .timeout = 15, .min_rnr_timer = 4, .reads = 2});
  ibv_qp_attr a{};
  ibv_qp_init_attr init{};
  const int mask = IBV_QP_STATE | IBV_QP_DEST_QPN | IBV_QP_PATH_MTU | IBV_QP_RNR_RETRY |
                   IBV_QP_RETRY_CNT | IBV_QP_TIMEOUT | IBV_QP_MIN_RNR_TIMER |
                   IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_ACCESS_FLAGS |
                   IBV_QP_CAP | IBV_QP_PORT;
  REQUIRE(d.a.n.v.query_qp(d.a.qp.get(), &a, mask, &init) == 0);
  CHECK(a.qp_state == IBV_QPS_RTS);
  CHECK(a.dest_qp_num == d.b.qp->qp_num);
  CHECK(a.path_mtu == static_cast<ibv_mtu>(d.a.n.dev.self.mtu));
  CHECK(a.rnr_retry == 5);
  CHECK(a.retry_cnt == 3);
  CHECK(a.timeout == 15);
  CHECK(a.min_rnr_timer == 4);
  CHECK(a.max_rd_atomic >= 2);
  CHECK(a.max_dest_rd_atomic >= 2);
  CHECK((a.qp_access_flags & IBV_ACCESS_REMOTE_WRITE) != 0);
  CHECK(a.port_num == d.a.n.dev.self.port);
  CHECK(init.qp_type == IBV_QPT_RC);
  CHECK(init.send_cq == d.a.send_cq.get());
  CHECK(init.recv_cq == d.a.recv_cq.get());
  CHECK(init.cap.max_send_wr >= 32);
}

TEST_CASE(
    "the state that a program sees in its queue pair changes only when it asks for the state") {
  duo d;
  ibv_qp& qp = *d.a.qp.get();
  REQUIRE(qp.state == IBV_QPS_RTS);
  REQUIRE(request(IBV_WR_RDMA_WRITE, {d.a.mem.sge(0, 8)})
              .at(d.b.mem.address(0), d.b.mem.mr->rkey ^ 0x555)
              .post(&qp) == 0);
  CHECK(d.a.sent().status == IBV_WC_REM_ACCESS_ERR);
  CHECK(qp.state == IBV_QPS_RTS);
  ibv_qp_attr a{};
  ibv_qp_init_attr init{};
  REQUIRE(d.a.n.v.query_qp(&qp, &a, IBV_QP_AV | IBV_QP_DEST_QPN, &init) == 0);
  CHECK(qp.state == IBV_QPS_RTS);
  REQUIRE(d.a.n.v.query_qp(&qp, &a, IBV_QP_STATE, &init) == 0);
  CHECK(qp.state == IBV_QPS_ERR);
}

TEST_CASE("receives are refused in RESET and taken in INIT") {
  side a;
  CHECK(a.receive(0, 64) != 0);
  REQUIRE(a.n.to_init(a.qp.get()) == 0);
  CHECK(a.receive(0, 64) == 0);
}

TEST_CASE("a receive posted in INIT takes the first message") {
  side a, b;
  REQUIRE(b.n.to_init(b.qp.get()) == 0);
  REQUIRE(b.receive(64, 64, 77) == 0);
  REQUIRE(b.n.to_rtr(b.qp.get(), a.reach()) == 0);
  a.n.connect(a.qp.get(), b.reach());
  a.mem.fill(0, 32, 5);
  REQUIRE(a.send(0, 32) == 0);
  CHECK(b.received().wr_id == 77);
  CHECK(b.mem.holds(64, 32, 5));
  CHECK(a.sent().status == IBV_WC_SUCCESS);
}

TEST_CASE("a queue pair in RTR receives, and sends once it is in RTS") {
  side a, b;
  REQUIRE(b.n.to_init(b.qp.get()) == 0);
  REQUIRE(b.n.to_rtr(b.qp.get(), a.reach()) == 0);
  REQUIRE(b.receive(0, 64) == 0);
  a.n.connect(a.qp.get(), b.reach());
  REQUIRE(a.receive(0, 64) == 0);
  REQUIRE(a.send(0, 8) == 0);
  CHECK(b.received().status == IBV_WC_SUCCESS);
  REQUIRE(b.n.to_rts(b.qp.get()) == 0);
  REQUIRE(b.send(0, 8) == 0);
  CHECK(a.received().status == IBV_WC_SUCCESS);
}

TEST_CASE("sends are refused before RTS") {
  side a, b;
  CHECK(a.send(0, 8) != 0);
  REQUIRE(a.n.to_init(a.qp.get()) == 0);
  CHECK(a.send(0, 8) != 0);
  REQUIRE(a.n.to_rtr(a.qp.get(), b.reach()) == 0);
  CHECK(a.send(0, 8) != 0);
  CHECK(silent(a.send_cq.get(), 20));
}

TEST_CASE("what waits on a queue pair that goes to ERR is flushed, in order") {
  duo d;
  for (std::uint64_t i = 0; i < 4; ++i) REQUIRE(d.a.receive(0, 64, 100 + i) == 0);
  REQUIRE(d.a.n.to_state(d.a.qp.get(), IBV_QPS_ERR) == 0);
  const auto flushed = collect(d.a.recv_cq.get(), 4);
  REQUIRE(flushed.size() == 4);
  for (std::uint64_t i = 0; i < 4; ++i) {
    CHECK(flushed[i].status == IBV_WC_WR_FLUSH_ERR);
    CHECK(flushed[i].wr_id == 100 + i);
    CHECK(flushed[i].qp_num == d.a.qp->qp_num);
  }
}

TEST_CASE("what is posted to a queue pair in ERR is flushed, signalled or not") {
  duo d;
  REQUIRE(d.a.n.to_state(d.a.qp.get(), IBV_QPS_ERR) == 0);
  REQUIRE(d.a.send(0, 8, 1, 0) == 0);
  REQUIRE(d.a.send(0, 8, 2) == 0);
  const auto sends = collect(d.a.send_cq.get(), 2);
  REQUIRE(sends.size() == 2);
  CHECK(sends[0].status == IBV_WC_WR_FLUSH_ERR);
  CHECK(sends[0].wr_id == 1);
  CHECK(sends[1].wr_id == 2);
  REQUIRE(d.a.receive(0, 8, 3) == 0);
  const auto receives =
      collect(d.a.recv_cq.get(), 1, here().late_receive_flushed ? patience_ns : 50'000'000);
  REQUIRE(receives.size() == (here().late_receive_flushed ? 1u : 0u));
  for (const ibv_wc& wc : receives) {
    CHECK(wc.status == IBV_WC_WR_FLUSH_ERR);
    CHECK(wc.wr_id == 3);
  }
}

TEST_CASE("a reset queue pair has forgotten what was posted and can be connected again") {
  duo d;
  REQUIRE(d.a.receive(0, 64, 1) == 0);
  REQUIRE(d.b.receive(0, 64, 2) == 0);
  for (side* s : {&d.a, &d.b}) REQUIRE(s->n.to_state(s->qp.get(), IBV_QPS_RESET) == 0);
  CHECK(silent(d.a.recv_cq.get(), 20));
  d.connect({});
  REQUIRE(d.b.receive(128, 64, 3) == 0);
  d.a.mem.fill(0, 64, 8);
  REQUIRE(d.a.send(0, 64) == 0);
  const ibv_wc wc = d.b.received();
  CHECK(wc.status == IBV_WC_SUCCESS);
  CHECK(wc.wr_id == 3);
  CHECK(d.b.mem.holds(128, 64, 8));
}

TEST_CASE("access rights can be changed in RTS") {
  duo d({.access = IBV_ACCESS_REMOTE_READ});
  ibv_qp_attr a{};
  a.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
  REQUIRE(d.b.n.v.modify_qp(d.b.qp.get(), &a, IBV_QP_ACCESS_FLAGS) == 0);
  d.a.mem.fill(0, 16, 2);
  REQUIRE(request(IBV_WR_RDMA_WRITE, {d.a.mem.sge(0, 16)})
              .at(d.b.mem.address(), d.b.mem.mr->rkey)
              .post(d.a.qp.get()) == 0);
  CHECK(d.a.sent().status == IBV_WC_SUCCESS);
  CHECK(d.b.mem.holds(0, 16, 2));
}

TEST_CASE("what the fabric's administrators decide of a path is in the queue pair") {
  side a, b;
  a.n.dev.paths = {.service_level = 5,
                   .traffic_class = 4 * 26,
                   .hop_limit = 7,
                   .pkey_index = 0,
                   .flow_label = 0x12345,
                   .flow_spread = false};
  a.n.connect(a.qp.get(), b.reach());
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  REQUIRE(a.n.v.query_qp(a.qp.get(), &attr, IBV_QP_AV | IBV_QP_PKEY_INDEX, &init) == 0);
  REQUIRE(attr.ah_attr.is_global == 1);
  CHECK(attr.ah_attr.grh.traffic_class == 4 * 26);
  CHECK(attr.ah_attr.grh.flow_label == 0x12345);
  CHECK(attr.pkey_index == 0);
  // Of RoCE's paths the kernel takes the route's hop limit; soft-RoCE's frames have no priority.
  if (!a.n.dev.shared_memory) return;
  CHECK(attr.ah_attr.grh.hop_limit == 7);
  CHECK(attr.ah_attr.sl == 5);
}

}  // namespace penstock::conformance
