// UC on shm0: a connection without answers. A request that fails at the peer is a lost message; its
// sender's completion says that it was sent.
#include <doctest/doctest.h>

#include <cerrno>
#include <cstring>

#include "test/nic/rig.hpp"

namespace {

rig::options uc() {
  rig::options o;
  o.type = IBV_QPT_UC;
  return o;
}

auto write_to(const rig::side& there, std::size_t offset, std::uint32_t rkey) {
  return [&there, offset, rkey](ibv_send_wr& wr) {
    wr.wr.rdma.remote_addr = reinterpret_cast<std::uint64_t>(there.memory.data() + offset);
    wr.wr.rdma.rkey = rkey;
  };
}

}  // namespace

TEST_CASE("UC carries messages of any length, and immediates") {
  rig::pair p(uc());
  for (const std::size_t n : {1u, 48u, 49u, 4096u, 100'000u}) {
    CAPTURE(n);
    std::memset(p.a.memory.data(), static_cast<int>(n % 251), n);
    REQUIRE(p.b.receive(7, 500'000, n) == 0);
    REQUIRE(p.a.post(8, IBV_WR_SEND_WITH_IMM, 0, n, IBV_SEND_SIGNALED,
                     [](ibv_send_wr& wr) { wr.imm_data = 99; }) == 0);
    const ibv_wc got = p.b.received();
    CHECK(got.status == IBV_WC_SUCCESS);
    CHECK(got.byte_len == n);
    CHECK(got.imm_data == 99);
    CHECK(p.b.memory[500'000 + n - 1] == static_cast<std::byte>(n % 251));
    CHECK(p.a.sent().status == IBV_WC_SUCCESS);
  }
}

TEST_CASE("a UC message without a receive is lost, and the next one arrives") {
  rig::pair p(uc());
  REQUIRE(p.a.send(1, 0, 100) == 0);
  CHECK(p.a.sent().status == IBV_WC_SUCCESS);
  REQUIRE(p.b.receive(2, 1000, 100) == 0);
  CHECK(rig::side::empty(p.b.recv_cq));
  p.a.memory[0] = std::byte{5};
  REQUIRE(p.a.send(3, 0, 60) == 0);
  const ibv_wc got = p.b.received();
  CHECK(got.wr_id == 2);
  CHECK(got.byte_len == 60);
  CHECK(p.b.memory[1000] == std::byte{5});
}

TEST_CASE("UC writes, and a write without the right to is lost without a word") {
  rig::pair p(uc());
  p.a.memory[0] = std::byte{77};
  REQUIRE(p.a.post(1, IBV_WR_RDMA_WRITE, 0, 64, IBV_SEND_SIGNALED,
                   write_to(p.b, 2000, p.b.mr->rkey)) == 0);
  CHECK(p.a.sent().status == IBV_WC_SUCCESS);
  CHECK(p.b.memory[2000] == std::byte{77});
  REQUIRE(p.a.post(2, IBV_WR_RDMA_WRITE, 0, 64, IBV_SEND_SIGNALED,
                   write_to(p.b, 3000, p.b.mr->rkey ^ 0x40000)) == 0);
  CHECK(p.a.sent().status == IBV_WC_SUCCESS);
  CHECK(p.b.memory[3000] == std::byte{0});
  CHECK(p.a.state() == IBV_QPS_RTS);
  CHECK(p.b.state() == IBV_QPS_RTS);
}

TEST_CASE("UC reads nothing: nobody would answer") {
  rig::pair p(uc());
  CHECK(p.a.post(1, IBV_WR_RDMA_READ, 0, 64, IBV_SEND_SIGNALED, write_to(p.b, 0, p.b.mr->rkey)) ==
        EINVAL);
  CHECK(p.a.post(1, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 8) == EINVAL);
}

TEST_CASE("UC sends to a peer that has gone are lost, and all complete") {
  rig::pair p(uc());
  REQUIRE(p.b.v.destroy_qp(p.b.qp) == 0);
  p.b.qp = nullptr;
  for (int i = 0; i < 20; ++i) {
    REQUIRE(p.a.send(1, 0, 10'000) == 0);
    CHECK(p.a.sent().status == IBV_WC_SUCCESS);
  }
}

TEST_CASE("UC goes through its states with what UC has") {
  rig::side a(uc());
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = a.qp->qp_num;
  attr.ah_attr = rig::side::path(a.gid);
  const int rtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  CHECK(a.v.modify_qp(a.qp, &attr, rtr | IBV_QP_MIN_RNR_TIMER) == EINVAL);
  CHECK(a.v.modify_qp(a.qp, &attr, rtr & ~IBV_QP_DEST_QPN) == EINVAL);
  CHECK(a.v.modify_qp(a.qp, &attr, rtr) == 0);
  attr.qp_state = IBV_QPS_RTS;
  CHECK(a.v.modify_qp(a.qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_RETRY_CNT) == EINVAL);
  CHECK(a.v.modify_qp(a.qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0);
}
