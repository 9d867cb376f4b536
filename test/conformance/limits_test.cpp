// The limits that a device reports, and that it keeps to them.
#include <doctest/doctest.h>

#include <cerrno>

#include "test/conformance/rig.hpp"

namespace penstock::conformance {

TEST_CASE("the limits that every user counts on are not zero") {
  const node n;
  const ibv_device_attr& l = n.dev.limits;
  CHECK(l.max_mr_size > 0);
  CHECK(l.max_qp >= 1024);
  CHECK(l.max_qp_wr >= 256);
  CHECK(l.max_sge >= 2);
  CHECK(l.max_cq >= 64);
  CHECK(l.max_cqe >= 4096);
  CHECK(l.max_mr >= 1024);
  CHECK(l.max_pd >= 16);
  CHECK(l.max_srq >= 16);
  CHECK(l.max_srq_wr >= 1024);
  CHECK(l.max_srq_sge >= 1);
  CHECK(l.max_qp_rd_atom >= 1);
  CHECK(l.max_qp_init_rd_atom >= 1);
  CHECK(l.atomic_cap != IBV_ATOMIC_NONE);
  CHECK(l.phys_port_cnt >= 1);
}

TEST_CASE("the chosen port is active, has an MTU and takes messages of a megabyte") {
  const node n;
  CHECK(n.dev.port.state == IBV_PORT_ACTIVE);
  CHECK(n.dev.port.active_mtu >= IBV_MTU_256);
  CHECK(n.dev.port.active_mtu <= n.dev.port.max_mtu);
  CHECK(n.dev.port.max_msg_sz >= (1u << 20));
  CHECK(n.dev.port.gid_tbl_len >= 1);
}

TEST_CASE("the chosen GID is not zero and query_gid tells the same one") {
  const node n;
  ibv_gid gid{};
  const ibv_gid zero{};
  REQUIRE(n.v.query_gid(n.dev.context, n.dev.self.port, n.dev.self.gid_index, &gid) == 0);
  CHECK(std::memcmp(&gid, &n.dev.self.gid, sizeof gid) == 0);
  CHECK(std::memcmp(&gid, &zero, sizeof gid) != 0);
}

TEST_CASE("a port that does not exist cannot be queried") {
  const node n;
  ibv_port_attr a{};
  CHECK(n.v.query_port(n.dev.context, static_cast<std::uint8_t>(n.dev.limits.phys_port_cnt + 1),
                       &a) != 0);
}

TEST_CASE("a completion queue has at least the entries that were asked for") {
  node n;
  auto cq = n.cq(100);
  CHECK(cq->cqe >= 100);
  auto largest = n.cq(n.dev.limits.max_cqe);
  CHECK(largest->cqe >= n.dev.limits.max_cqe);
}

TEST_CASE("a completion queue beyond the limit, or without entries, is refused") {
  const node n;
  CHECK(n.v.create_cq(n.dev.context, n.dev.limits.max_cqe + 1, nullptr, nullptr, 0) == nullptr);
  CHECK(n.v.create_cq(n.dev.context, 0, nullptr, nullptr, 0) == nullptr);
  CHECK(n.v.create_cq(n.dev.context, -1, nullptr, nullptr, 0) == nullptr);
}

TEST_CASE("create_qp grants at least what was asked and tells what it granted") {
  node n;
  auto cq = n.cq();
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq.get();
  init.cap = {33, 17, 3, 2, 20};
  init.qp_type = IBV_QPT_RC;
  held<ibv_qp> qp(n.v.create_qp(n.pd, &init), n.v.destroy_qp);
  REQUIRE(qp);
  CHECK(init.cap.max_send_wr >= 33);
  CHECK(init.cap.max_recv_wr >= 17);
  CHECK(init.cap.max_send_sge >= 3);
  CHECK(init.cap.max_recv_sge >= 2);
  CHECK(init.cap.max_inline_data >= 20);
}

TEST_CASE("create_qp refuses what lies beyond the limits") {
  node n;
  auto cq = n.cq();
  const auto refused = [&](auto&& ask_too_much) {
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq.get();
    init.cap = {8, 8, 1, 1, 0};
    init.qp_type = IBV_QPT_RC;
    ask_too_much(init);
    const held<ibv_qp> qp(n.v.create_qp(n.pd, &init), n.v.destroy_qp);
    return !qp;
  };
  const auto wr = static_cast<std::uint32_t>(n.dev.limits.max_qp_wr);
  const auto sge = static_cast<std::uint32_t>(n.dev.limits.max_sge);
  CHECK_FALSE(refused([](ibv_qp_init_attr&) {}));
  CHECK(refused([&](ibv_qp_init_attr& i) { i.cap.max_send_wr = wr + 1; }));
  CHECK(refused([&](ibv_qp_init_attr& i) { i.cap.max_recv_wr = wr + 1; }));
  CHECK(refused([&](ibv_qp_init_attr& i) { i.cap.max_send_sge = sge + 1; }));
  CHECK(refused([&](ibv_qp_init_attr& i) { i.cap.max_recv_sge = sge + 1; }));
  CHECK(refused([](ibv_qp_init_attr& i) { i.cap.max_inline_data = 1u << 24; }));
}

TEST_CASE("the inline limit that was found by trying can be had, and no more") {
  node n;
  auto cq = n.cq();
  const auto granted = [&](std::uint32_t bytes) {
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq.get();
    init.cap = {4, 1, 1, 1, bytes};
    init.qp_type = IBV_QPT_RC;
    const held<ibv_qp> qp(n.v.create_qp(n.pd, &init), n.v.destroy_qp);
    return static_cast<bool>(qp);
  };
  CHECK(n.dev.max_inline >= 64);
  CHECK(granted(n.dev.max_inline));
  if (n.dev.max_inline < 16384) CHECK_FALSE(granted(n.dev.max_inline + 4));
}

TEST_CASE("a shared receive queue tells its size and limit") {
  node n;
  auto srq = n.srq(50, 2);
  ibv_srq_attr a{};
  REQUIRE(n.v.query_srq(srq.get(), &a) == 0);
  CHECK(a.max_wr >= 50);
  CHECK(a.max_sge >= 2);
  CHECK(a.srq_limit == 0);
}

TEST_CASE("a shared receive queue beyond the limit is refused") {
  const node n;
  ibv_srq_init_attr init{};
  init.attr.max_wr = static_cast<std::uint32_t>(n.dev.limits.max_srq_wr) + 1;
  init.attr.max_sge = 1;
  CHECK(n.v.create_srq(n.pd, &init) == nullptr);
  init.attr.max_wr = 8;
  init.attr.max_sge = static_cast<std::uint32_t>(n.dev.limits.max_srq_sge) + 1;
  CHECK(n.v.create_srq(n.pd, &init) == nullptr);
}

TEST_CASE("objects in use cannot be destroyed") {
  node n;
  auto cq = n.cq();
  auto srq = n.srq();
  auto qp = n.qp({.send_cq = cq.get(), .recv_cq = cq.get(), .srq = srq.get()});
  CHECK(n.v.destroy_cq(cq.get()) == EBUSY);
  CHECK(n.v.destroy_srq(srq.get()) == EBUSY);
  CHECK(n.v.dealloc_pd(n.pd) == EBUSY);
  CHECK(qp.destroy() == 0);
  CHECK(srq.destroy() == 0);
  CHECK(cq.destroy() == 0);
}

TEST_CASE("statuses and events have names") {
  const node n;
  CHECK(std::strlen(n.v.wc_status_str(IBV_WC_RNR_RETRY_EXC_ERR)) > 0);
  CHECK(std::strlen(n.v.event_type_str(IBV_EVENT_QP_FATAL)) > 0);
}

}  // namespace penstock::conformance
