// SEND and RECV of shm0 between two contexts.
#include <atomic>
#include <thread>
#include <utility>

#include "test/nic/rig.hpp"

using rig::pair;
namespace shm = penstock::nic::shm;

TEST_CASE("a short message arrives in the posted receive, with its numbers") {
  pair p;
  REQUIRE(p.b.receive(7, 100, 64) == 0);
  std::memcpy(p.a.memory.data(), "hello", 6);
  REQUIRE(p.a.send(3, 0, 6) == 0);
  const ibv_wc s = p.a.sent();
  CHECK(s.wr_id == 3);
  CHECK(s.status == IBV_WC_SUCCESS);
  CHECK(s.opcode == IBV_WC_SEND);
  CHECK(s.qp_num == p.a.qp->qp_num);
  const ibv_wc r = p.b.received();
  CHECK(r.wr_id == 7);
  CHECK(r.status == IBV_WC_SUCCESS);
  CHECK(r.opcode == IBV_WC_RECV);
  CHECK(r.byte_len == 6);
  CHECK(r.src_qp == p.a.qp->qp_num);
  CHECK(std::memcmp(p.b.memory.data() + 100, "hello", 6) == 0);
  CHECK(p.b.memory[106] == std::byte{0});
}

TEST_CASE("a solicited message is found by a poll, as any other") {
  pair p;
  for (std::uint64_t i = 1; i <= 3; ++i) {
    REQUIRE(p.b.receive(i, 0, 64) == 0);
    REQUIRE(p.a.send(i, 0, 9, IBV_SEND_SOLICITED | IBV_SEND_SIGNALED) == 0);
    CHECK(p.a.sent().wr_id == i);
    CHECK(p.b.received().wr_id == i);
  }
}

TEST_CASE("messages of every size around the limits arrive whole and in order") {
  rig::options o;
  o.memory = 4 << 20;
  pair p(o);
  for (std::size_t i = 0; i < p.a.memory.size(); ++i)
    p.a.memory[i] = static_cast<std::byte>(i * 7 + (i >> 9));
  for (const std::size_t n :
       {std::size_t{0}, std::size_t{1}, std::size_t{47}, std::size_t{48}, std::size_t{49},
        std::size_t{4096}, std::size_t{16384}, std::size_t{16385}, std::size_t{65536},
        std::size_t{1000000}, std::size_t{4} << 20}) {
    CAPTURE(n);
    std::fill(p.b.memory.begin(), p.b.memory.end(), std::byte{0});
    REQUIRE(p.b.receive(n, 0, n) == 0);
    REQUIRE(p.a.send(n, 0, n) == 0);
    const ibv_wc r = p.b.received();
    CHECK(r.status == IBV_WC_SUCCESS);
    CHECK(r.byte_len == n);
    CHECK(p.a.sent().status == IBV_WC_SUCCESS);
    CHECK(std::memcmp(p.a.memory.data(), p.b.memory.data(), n) == 0);
  }
}

TEST_CASE("short messages find receives of no, one and two pieces, and each gets its own") {
  pair p;
  for (std::size_t i = 0; i < 256; ++i) p.a.memory[i] = static_cast<std::byte>(i + 1);
  const auto at = [&](std::size_t round) { return 4096 + 256 * round; };
  std::size_t round = 0;
  for (const std::size_t bytes : {0u, 1u, 7u, 8u, 9u, 47u, 48u, 49u})
    for (const int pieces : {0, 1, 2}) {
      if (pieces == 0 && bytes != 0) continue;
      for (const unsigned more : {0u, unsigned{IBV_SEND_INLINE}, unsigned{IBV_SEND_SOLICITED}}) {
        CAPTURE(bytes);
        CAPTURE(pieces);
        const std::size_t place = at(round++);
        ibv_sge list[] = {p.b.piece(place, pieces == 1 ? 64 : 5), p.b.piece(place + 5, 59)};
        ibv_recv_wr wr{}, *bad = nullptr;
        wr.wr_id = round;
        wr.sg_list = list;
        wr.num_sge = pieces;
        REQUIRE(ibv_post_recv(p.b.qp, &wr, &bad) == 0);
        REQUIRE(p.a.send(round, 0, bytes, IBV_SEND_SIGNALED | more) == 0);
        const ibv_wc r = p.b.received();
        CHECK(r.wr_id == round);
        CHECK(r.status == IBV_WC_SUCCESS);
        CHECK(r.byte_len == bytes);
        CHECK(r.wc_flags == 0);
        CHECK(std::memcmp(p.b.memory.data() + place, p.a.memory.data(), bytes) == 0);
        CHECK(p.b.memory[place + bytes] == std::byte{0});
        CHECK(p.a.sent().wr_id == round);
      }
    }
}

TEST_CASE("a short message's receive is looked at when the message is taken") {
  pair p;
  REQUIRE(p.b.receive(1, 0, 64) == 0);
  REQUIRE(p.a.send(1, 0, 8) == 0);
  CHECK(p.a.sent().status == IBV_WC_SUCCESS);  // it is in the ring
  REQUIRE(p.b.v.dereg_mr(p.b.mr) == 0);
  p.b.mr = nullptr;
  CHECK(p.b.received().status == IBV_WC_LOC_PROT_ERR);
  CHECK(p.b.state() == IBV_QPS_ERR);
}

TEST_CASE("a receive may reach beyond its region, if the message does not") {
  pair p;
  constexpr std::size_t last = 128;
  ibv_sge s = p.b.piece(p.b.memory.size() - last, last);
  s.length += 4096;
  ibv_recv_wr wr{}, *bad = nullptr;
  wr.sg_list = &s;
  wr.num_sge = 1;
  for (int i = 0; i < 3; ++i) REQUIRE(ibv_post_recv(p.b.qp, &wr, &bad) == 0);
  REQUIRE(p.a.send(1, 0, 8) == 0);
  CHECK(p.b.received().status == IBV_WC_SUCCESS);
  REQUIRE(p.a.send(2, 0, last) == 0);
  CHECK(p.b.received().status == IBV_WC_SUCCESS);
  REQUIRE(p.a.send(3, 0, last + 1) == 0);
  CHECK(p.b.received().status == IBV_WC_LOC_PROT_ERR);
}

TEST_CASE("a shared receive queue serves messages of two queue pairs") {
  rig::options o;
  o.srq_wr = 16;
  rig::side a, c, b(o);
  ibv_qp* first = b.qp;
  ibv_qp* second = b.new_qp();
  REQUIRE(b.to_init(second) == 0);
  a.connect(b);
  REQUIRE(b.to_rtr(first, a.gid, a.qp->qp_num) == 0);
  REQUIRE(b.to_rts(first) == 0);
  REQUIRE(c.to_rtr(c.qp, b.gid, second->qp_num) == 0);
  REQUIRE(c.to_rts(c.qp) == 0);
  REQUIRE(b.to_rtr(second, c.gid, c.qp->qp_num) == 0);
  REQUIRE(b.to_rts(second) == 0);
  for (std::uint64_t i = 0; i < 4; ++i) REQUIRE(b.receive(i, i * 64, 64) == 0);
  REQUIRE(a.send(1, 0, 8) == 0);
  REQUIRE(c.send(1, 0, 8) == 0);
  REQUIRE(a.send(2, 0, 8) == 0);
  REQUIRE(c.send(2, 0, 8) == 0);
  int from_first = 0, from_second = 0;
  for (int i = 0; i < 4; ++i) {
    const ibv_wc r = b.received();
    CHECK(r.status == IBV_WC_SUCCESS);
    from_first += r.qp_num == first->qp_num;
    from_second += r.qp_num == second->qp_num;
  }
  CHECK(from_first == 2);
  CHECK(from_second == 2);
  CHECK(b.v.destroy_qp(second) == 0);
}

TEST_CASE("a context connected to itself keeps its two queue pairs apart") {
  rig::side a;
  ibv_qp* q = a.new_qp();
  REQUIRE(a.to_init(q) == 0);
  REQUIRE(a.to_rtr(a.qp, a.gid, q->qp_num) == 0);
  REQUIRE(a.to_rtr(q, a.gid, a.qp->qp_num) == 0);
  REQUIRE(a.to_rts(a.qp) == 0);
  REQUIRE(a.to_rts(q) == 0);
  ibv_sge s = a.piece(4096, 64);
  ibv_recv_wr wr{}, *bad = nullptr;
  wr.wr_id = 5;
  wr.sg_list = &s;
  wr.num_sge = 1;
  REQUIRE(ibv_post_recv(q, &wr, &bad) == 0);
  REQUIRE(a.send(1, 0, 16) == 0);
  const ibv_wc r = a.received();
  CHECK(r.qp_num == q->qp_num);
  CHECK(r.wr_id == 5);
  CHECK(a.v.destroy_qp(q) == 0);
}

TEST_CASE("contexts of one device have the same addresses, and the QP number says which is meant") {
  rig::options o;
  o.device = &shm::device_identity(1);
  SUBCASE("RC") {}
  SUBCASE("UC") { o.type = IBV_QPT_UC; }
  rig::side a(o), b(o), other(o);
  ibv_device_attr first{}, second{};
  REQUIRE(a.v.query_device(a.context, &first) == 0);
  REQUIRE(b.v.query_device(b.context, &second) == 0);
  CHECK(first.node_guid == second.node_guid);
  CHECK(first.sys_image_guid == second.sys_image_guid);
  REQUIRE(a.qp->qp_num != b.qp->qp_num);
  ibv_port_attr port{};
  REQUIRE(a.v.query_port(a.context, 1, &port) == 0);
  for (int row = 0; row < port.gid_tbl_len; ++row) {
    ibv_gid here{}, there{};
    REQUIRE(a.v.query_gid(a.context, 1, row, &here) == 0);
    REQUIRE(b.v.query_gid(b.context, 1, row, &there) == 0);
    CHECK(std::memcmp(&here, &there, sizeof here) == 0);
    if (row >= 4) continue;
    rig::side to(o);
    REQUIRE(to.to_init(to.qp) == 0);
    REQUIRE(to.to_rtr(to.qp, here, a.qp->qp_num) == 0);
  }
  REQUIRE(a.to_rtr(a.qp, other.gid, b.qp->qp_num) == 0);
  REQUIRE(b.to_rtr(b.qp, other.gid, a.qp->qp_num) == 0);
  REQUIRE(a.to_rts(a.qp) == 0);
  REQUIRE(b.to_rts(b.qp) == 0);
  REQUIRE(b.receive(7, 0, 64) == 0);
  REQUIRE(a.send(8, 0, 64) == 0);
  CHECK(b.received().wr_id == 7);
  CHECK(a.sent().wr_id == 8);
  CHECK(rig::side::empty(other.recv_cq));
}

TEST_CASE("an address that no device here has is unreachable") {
  rig::options o;
  o.device = &shm::device_identity(0);
  rig::side a(o);
  ibv_gid stranger = a.gid;
  stranger.raw[15] = static_cast<std::uint8_t>(stranger.raw[15] + 1);
  CHECK(a.to_rtr(a.qp, stranger, a.qp->qp_num) == EHOSTUNREACH);
  // Of a context that has just been closed: other programs may have opened any other one.
  const std::uint32_t closed = rig::side(o).qp->qp_num;
  CHECK(a.to_rtr(a.qp, a.gid, closed) == EHOSTUNREACH);
}

TEST_CASE("two devices have different addresses, and reach each other") {
  rig::options one, two;
  one.device = &shm::device_identity(0);
  two.device = &shm::device_identity(1);
  rig::pair p(one, two);
  CHECK(std::memcmp(&p.a.gid, &p.b.gid, sizeof p.a.gid) != 0);
  REQUIRE(p.b.receive(1, 0, 8) == 0);
  REQUIRE(p.a.send(2, 0, 8) == 0);
  CHECK(p.b.received().status == IBV_WC_SUCCESS);
}

TEST_CASE("where ports have LIDs, these are addresses, and a datagram says whose it comes from") {
  rig::options o;
  o.device = &shm::device_identity(0);
  o.lids = true;
  o.type = IBV_QPT_UD;
  pair p(o);
  ibv_port_attr port{};
  REQUIRE(p.a.v.query_port(p.a.context, 1, &port) == 0);
  CHECK(port.link_layer == IBV_LINK_LAYER_INFINIBAND);
  REQUIRE(port.lid != 0);
  REQUIRE(p.b.receive(1, 0, 256) == 0);
  ibv_ah_attr at{};
  at.dlid = port.lid;
  at.port_num = 1;
  ibv_ah* ah = p.a.v.create_ah(p.a.pd, &at);
  REQUIRE(ah != nullptr);
  REQUIRE(p.a.post(2, IBV_WR_SEND, 0, 9, IBV_SEND_SIGNALED, [&](ibv_send_wr& wr) {
    wr.wr.ud = {ah, p.b.qp->qp_num, 0x1234};
  }) == 0);
  CHECK(p.a.sent().status == IBV_WC_SUCCESS);
  const ibv_wc r = p.b.received();
  CHECK(r.slid == port.lid);
  CHECK((r.wc_flags & IBV_WC_GRH) == 0);
  CHECK(r.byte_len == 49);  // the room for the header is left all the same
  CHECK(p.a.v.destroy_ah(ah) == 0);
}

TEST_CASE("a queue pair connected to itself receives its own message") {
  rig::side a;
  a.connect(a);
  REQUIRE(a.receive(1, 4096, 64) == 0);
  a.memory[0] = std::byte{42};
  REQUIRE(a.send(2, 0, 1) == 0);
  CHECK(a.received().status == IBV_WC_SUCCESS);
  CHECK(a.memory[4096] == std::byte{42});
}

TEST_CASE("the direct path's messages go by the rings alone") {
  pair p;
  auto* tx = penstock::nic::shm::direct_tx(p.a.qp);
  auto* rx = penstock::nic::shm::direct_rx(p.b.qp);
  REQUIRE(tx != nullptr);
  REQUIRE(rx != nullptr);
  for (int i = 0; i < 1000; ++i) {
    REQUIRE(tx->try_push(penstock::nic::shm::op_direct, static_cast<std::uint64_t>(i), 0,
                         [&](std::byte* body, std::byte*) { std::memcpy(body, &i, sizeof i); }));
    while (rx->follow())
      ;  // where the ring turns
    const auto m = rx->front();
    REQUIRE(m);
    CHECK(m.slot->header == static_cast<std::uint64_t>(i));
    rx->pop(m);
  }
  CHECK(rig::side::empty(p.b.recv_cq));
}

TEST_CASE("a datagram arrives behind its global route header") {
  rig::options o;
  o.type = IBV_QPT_UD;
  pair p(o);
  REQUIRE(p.b.receive(1, 0, 256) == 0);
  ibv_ah_attr at = rig::side::path(p.b.gid);
  ibv_ah* ah = p.a.v.create_ah(p.a.pd, &at);
  REQUIRE(ah != nullptr);
  std::memcpy(p.a.memory.data(), "datagram", 9);
  const auto& pending = penstock::nic::shm::datagrams_pending(p.b.context);
  CHECK(pending.load() == 0);
  REQUIRE(p.a.post(2, IBV_WR_SEND, 0, 9, IBV_SEND_SIGNALED, [&](ibv_send_wr& wr) {
    wr.wr.ud = {ah, p.b.qp->qp_num, 0x1234};
  }) == 0);
  CHECK(p.a.sent().status == IBV_WC_SUCCESS);
  REQUIRE(rig::wait_for([&] { return pending.load() != 0; }));
  const ibv_wc r = p.b.received();
  CHECK(r.status == IBV_WC_SUCCESS);
  CHECK(r.byte_len == 49);
  CHECK(r.src_qp == p.a.qp->qp_num);
  CHECK((r.wc_flags & IBV_WC_GRH) != 0);
  CHECK(std::memcmp(p.b.memory.data() + 40, "datagram", 9) == 0);
  ibv_grh grh;
  std::memcpy(&grh, p.b.memory.data(), sizeof grh);
  CHECK(std::memcmp(&grh.sgid, &p.a.gid, 16) == 0);
  CHECK(pending.load() == 0);
  CHECK(p.a.v.destroy_ah(ah) == 0);
}

TEST_CASE(
    "shared receives of messages that nobody took are free again, whichever side ends first") {
  rig::options sender, receiver;
  sender.rnr_retry = 0;
  receiver.srq_wr = 16;
  rig::pair p(sender, receiver);
  for (std::uint64_t i = 0; i < 2; ++i) REQUIRE(p.b.receive(i, i * 64, 64) == 0);
  const auto send_two = [&] {
    for (std::uint64_t i = 0; i < 2; ++i) REQUIRE(p.a.send(i, 0, 8) == 0);
    for (int i = 0; i < 2; ++i) CHECK(p.a.sent().status == IBV_WC_SUCCESS);
  };
  send_two();
  rig::side *first = &p.a, *second = &p.b;
  SUBCASE("the sender") {}
  SUBCASE("the receiver") { std::swap(first, second); }
  for (rig::side* s : {first, second}) {
    REQUIRE(s->set_state(IBV_QPS_RESET) == 0);
    REQUIRE(s->to_init(s->qp) == 0);
  }
  p.a.connect(p.b);
  p.b.connect(p.a);
  send_two();
  for (std::uint64_t i = 0; i < 2; ++i) CHECK(p.b.received().wr_id == i);
}

TEST_CASE("a pair is reset while another thread polls its completion queue") {
  pair p;
  std::atomic<bool> done{false};
  std::atomic<unsigned> polls{0};
  std::thread other([&] {
    for (; !done; ++polls) CHECK(rig::side::empty(p.b.recv_cq));
  });
  for (unsigned i = 0; i < 500 || polls < 500; ++i) {
    REQUIRE(p.b.set_state(IBV_QPS_RESET) == 0);
    REQUIRE(p.b.to_init(p.b.qp) == 0);
  }
  done = true;
  other.join();
  p.b.connect(p.a);
  REQUIRE(p.b.receive(1, 0, 8) == 0);
  REQUIRE(p.a.set_state(IBV_QPS_RESET) == 0);
  REQUIRE(p.a.to_init(p.a.qp) == 0);
  p.a.connect(p.b);
  REQUIRE(p.a.send(1, 0, 8) == 0);
  CHECK(p.a.sent().status == IBV_WC_SUCCESS);
  CHECK(p.b.received().status == IBV_WC_SUCCESS);
}
