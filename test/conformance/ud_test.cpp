// Datagrams: UD queue pairs, address handles, the 40 bytes of header in front, what is dropped.
#include <doctest/doctest.h>

#include "test/conformance/differences.hpp"
#include "test/conformance/roles.hpp"

namespace penstock::conformance {
namespace {

constexpr std::uint32_t key = 0x11223344;
constexpr std::size_t header = sizeof(ibv_grh);

/// A UD queue pair in RTS, with everything around it.
struct post_box {
  explicit post_box(std::uint32_t qkey = key)
      : send_cq(n.cq()),
        recv_cq(n.cq()),
        qp(n.qp({.send_cq = send_cq.get(),
                 .recv_cq = recv_cq.get(),
                 .inline_bytes = 32,
                 .type = IBV_QPT_UD})),
        mem(n.memory(64 << 10)) {
    ibv_qp_attr a{};
    a.qp_state = IBV_QPS_INIT;
    a.port_num = n.dev.self.port;
    a.qkey = qkey;
    expect(n.v.modify_qp(qp.get(), &a,
                         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) == 0,
           "RESET to INIT");
    a = {};
    a.qp_state = IBV_QPS_RTR;
    expect(n.v.modify_qp(qp.get(), &a, IBV_QP_STATE) == 0, "INIT to RTR");
    a.qp_state = IBV_QPS_RTS;
    expect(n.v.modify_qp(qp.get(), &a, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0, "RTR to RTS");
  }
  held<ibv_ah> handle(const nic::address& remote) {
    ibv_ah_attr attr = n.dev.path_to(remote);
    held<ibv_ah> ah(n.v.create_ah(n.pd, &attr), n.v.destroy_ah);
    expect(static_cast<bool>(ah), "create_ah");
    return ah;
  }
  int send(ibv_ah* ah, std::uint32_t qpn, std::size_t offset, std::size_t bytes,
           std::uint32_t qkey = key, ibv_wr_opcode op = IBV_WR_SEND, unsigned flags = 0) {
    request r(op, {mem.sge(offset, bytes)}, 0, IBV_SEND_SIGNALED | flags);
    r.imm(4711);
    r.wr.wr.ud = {ah, qpn, qkey};
    return r.post(qp.get());
  }
  int receive(std::size_t offset, std::size_t bytes, std::uint64_t id = 0) {
    return post_receive(qp.get(), {mem.sge(offset, bytes)}, id);
  }
  [[nodiscard]] std::size_t mtu() const { return std::size_t{128} << n.dev.self.mtu; }

  node n;
  held<ibv_cq> send_cq, recv_cq;
  held<ibv_qp> qp;
  region mem;
};

}  // namespace

TEST_CASE("a datagram arrives behind its header and says where it is from") {
  post_box a, b;
  const auto ah = a.handle(b.n.dev.self);
  a.mem.fill(0, 200, 1);
  REQUIRE(b.receive(0, 1024, 6) == 0);
  REQUIRE(a.send(ah.get(), b.qp->qp_num, 0, 200) == 0);
  const ibv_wc got = one(b.recv_cq.get());
  CHECK(got.status == IBV_WC_SUCCESS);
  CHECK(got.opcode == IBV_WC_RECV);
  CHECK(got.wr_id == 6);
  CHECK(got.byte_len == header + 200);
  CHECK(got.src_qp == a.qp->qp_num);
  CHECK((got.wc_flags & IBV_WC_GRH) != 0);
  CHECK(b.mem.holds(header, 200, 1));
  CHECK(one(a.send_cq.get()).opcode == IBV_WC_SEND);
}

TEST_CASE("the answer to a datagram finds its way with the address from out of band") {
  as_processes(
      [](link& l) {
        post_box a;
        const party b = l.swap(a.n.reach(a.qp.get()));
        const auto ah = a.handle(b.where);
        expect(a.receive(4096, 1024) == 0, "post_recv");
        l.meet();
        a.mem.fill(0, 64, 5);
        expect(a.send(ah.get(), b.qpn, 0, 64) == 0, "post_send");
        expect(one(a.recv_cq.get()).src_qp == b.qpn, "an answer");
        expect(a.mem.holds(4096 + header, 64, 5), "what was sent");
      },
      [](link& l) {
        post_box b;
        const party a = l.swap(b.n.reach(b.qp.get()));
        const auto ah = b.handle(a.where);
        expect(b.receive(0, 1024) == 0, "post_recv");
        l.meet();
        expect(one(b.recv_cq.get()).status == IBV_WC_SUCCESS, "a datagram");
        expect(b.send(ah.get(), a.qpn, header, 64) == 0, "post_send");
        expect(one(b.send_cq.get()).status == IBV_WC_SUCCESS, "an answer to leave");
      });
}

TEST_CASE("a datagram carries an immediate value") {
  post_box a, b;
  const auto ah = a.handle(b.n.dev.self);
  REQUIRE(b.receive(0, 256) == 0);
  REQUIRE(a.send(ah.get(), b.qp->qp_num, 0, 8, key, IBV_WR_SEND_WITH_IMM) == 0);
  const ibv_wc got = one(b.recv_cq.get());
  CHECK((got.wc_flags & IBV_WC_WITH_IMM) != 0);
  CHECK(be32toh(got.imm_data) == 4711);
}

TEST_CASE("an inline datagram, an empty one and one that fills the MTU arrive") {
  post_box a, b;
  const auto ah = a.handle(b.n.dev.self);
  for (const std::size_t n : {std::size_t{24}, std::size_t{0}, a.mtu()}) {
    CAPTURE(n);
    a.mem.fill(0, n, 2);
    REQUIRE(b.receive(0, 8192) == 0);
    REQUIRE(a.send(ah.get(), b.qp->qp_num, 0, n, key, IBV_WR_SEND,
                   n == 24 ? static_cast<unsigned>(IBV_SEND_INLINE) : 0u) == 0);
    CHECK(one(b.recv_cq.get()).byte_len == header + n);
    CHECK(b.mem.holds(header, n, 2));
  }
}

TEST_CASE("a datagram above the MTU is not delivered, and its sender told so or not") {
  post_box a, b;
  const auto ah = a.handle(b.n.dev.self);
  REQUIRE(b.receive(0, 32768) == 0);
  REQUIRE(a.send(ah.get(), b.qp->qp_num, 0, a.mtu() + 1) == 0);
  CHECK(one(a.send_cq.get()).status == here().long_datagram);
  CHECK(silent(b.recv_cq.get(), 50));
}

TEST_CASE("without a receive a datagram is dropped, its sender content, and the next one arrives") {
  post_box a, b;
  const auto ah = a.handle(b.n.dev.self);
  a.mem.word(0) = 1;
  REQUIRE(a.send(ah.get(), b.qp->qp_num, 0, 8) == 0);
  CHECK(one(a.send_cq.get()).status == IBV_WC_SUCCESS);
  CHECK(silent(b.recv_cq.get(), 50));
  REQUIRE(b.receive(0, 256) == 0);
  CHECK(silent(b.recv_cq.get(), 50));
  a.mem.word(0) = 2;
  REQUIRE(a.send(ah.get(), b.qp->qp_num, 0, 8) == 0);
  CHECK(one(b.recv_cq.get()).status == IBV_WC_SUCCESS);
  CHECK(b.mem.word(header) == 2);
}

TEST_CASE("a datagram with another key, or to a number that nobody has, is dropped") {
  post_box a, b;
  const auto ah = a.handle(b.n.dev.self);
  REQUIRE(b.receive(0, 256) == 0);
  REQUIRE(a.send(ah.get(), b.qp->qp_num, 0, 8, key + 1) == 0);
  REQUIRE(a.send(ah.get(), b.qp->qp_num ^ 0x7ff00, 0, 8) == 0);
  CHECK(collect(a.send_cq.get(), 2).size() == 2);
  CHECK(silent(b.recv_cq.get(), 50));
  REQUIRE(a.send(ah.get(), b.qp->qp_num, 0, 8) == 0);
  CHECK(one(b.recv_cq.get()).status == IBV_WC_SUCCESS);
}

TEST_CASE("datagrams of several senders meet in one queue, each sender's in order") {
  post_box b;
  for (std::uint64_t i = 0; i < 30; ++i) REQUIRE(b.receive(i * 128, 128, i) == 0);
  post_box senders[3];
  for (std::uint64_t i = 0; i < 10; ++i)
    for (post_box& s : senders) {
      const auto ah = s.handle(b.n.dev.self);
      s.mem.word(0) = i;
      REQUIRE(s.send(ah.get(), b.qp->qp_num, 0, 8) == 0);
      CHECK(one(s.send_cq.get()).status == IBV_WC_SUCCESS);
    }
  const auto got = collect(b.recv_cq.get(), 30);
  REQUIRE(got.size() == 30);
  for (post_box& s : senders) {
    std::uint64_t next = 0;
    for (const ibv_wc& wc : got)
      if (wc.src_qp == s.qp->qp_num && b.mem.word(wc.wr_id * 128 + header) == next) ++next;
    CHECK(next == 10);
  }
}

TEST_CASE("a datagram to oneself arrives") {
  post_box a;
  const auto ah = a.handle(a.n.dev.self);
  a.mem.fill(0, 32, 3);
  REQUIRE(a.receive(4096, 256) == 0);
  REQUIRE(a.send(ah.get(), a.qp->qp_num, 0, 32) == 0);
  CHECK(one(a.recv_cq.get()).src_qp == a.qp->qp_num);
  CHECK(a.mem.holds(4096 + header, 32, 3));
}

TEST_CASE("a datagram over IPv4 carries the path's traffic class") {
  post_box a, b;
  a.n.dev.paths.traffic_class = 4 * 26;
  a.n.dev.paths.flow_label = 0x12345;
  const auto ah = a.handle(b.n.dev.self);
  REQUIRE(b.receive(0, 1024) == 0);
  REQUIRE(a.send(ah.get(), b.qp->qp_num, 0, 16) == 0);
  CHECK(one(b.recv_cq.get()).status == IBV_WC_SUCCESS);
  // RoCE v2 over IPv4 puts the packet's own header into the last 20 of the 40 bytes.
  const auto byte = [&](std::size_t i) { return std::to_integer<unsigned>(*b.mem.at(20 + i)); };
  if (a.n.dev.shared_memory || byte(0) != 0x45) return;
  CHECK(byte(1) == 4 * 26);
}

}  // namespace penstock::conformance
