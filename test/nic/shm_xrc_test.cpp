// Extended reliable connections on shm0: shared receive queues that messages name.
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <limits>

#include "nic/shm/context.hpp"
#include "nic/shm/qp.hpp"
#include "nic/shm/srq.hpp"
#include "test/nic/rig.hpp"

namespace shm = penstock::nic::shm;

namespace {

/// A side with a domain, receiving QPs and queues of it; and sending QPs.
struct xrc_side : rig::side {
  ibv_xrcd* domain = nullptr;
  ibv_cq* own_cq = nullptr;  ///< of the second queue
  ibv_srq* queues[2] = {};
  ibv_qp* from = nullptr;  ///< receives
  ibv_qp* to = nullptr;    ///< sends

  explicit xrc_side(rig::options opts = {}) : side(opts) {
    ibv_xrcd_init_attr x{IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, -1, O_CREAT};
    domain = shm::open_xrcd(context, &x);
    REQUIRE(domain != nullptr);
    own_cq = v.create_cq(context, 4, nullptr, nullptr, 0);
    for (int i = 0; i < 2; ++i) {
      ibv_srq_init_attr_ex a{};
      a.attr = {16, 2, 0};
      a.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
                    IBV_SRQ_INIT_ATTR_CQ;
      a.srq_type = IBV_SRQT_XRC;
      a.pd = pd;
      a.xrcd = domain;
      a.cq = i == 0 ? recv_cq : own_cq;
      queues[i] = shm::create_srq_ex(context, &a);
      REQUIRE(queues[i] != nullptr);
    }
    ibv_qp_init_attr r{};
    r.qp_type = IBV_QPT_XRC_RECV;
    from = shm::create_xrc_receiver(context, &r, shm::of(domain));
    ibv_qp_init_attr s{};
    s.qp_type = IBV_QPT_XRC_SEND;
    s.send_cq = send_cq;
    s.cap = {16, 0, 2, 0, 64};
    to = v.create_qp(pd, &s);
    REQUIRE(from != nullptr);
    REQUIRE(to != nullptr);
    REQUIRE(to_init(from) == 0);
    REQUIRE(to_init(to) == 0);
  }
  ~xrc_side() {
    for (ibv_qp* q : {from, to})
      if (q != nullptr) CHECK(v.destroy_qp(q) == 0);
    for (ibv_srq* q : queues)
      if (q != nullptr) CHECK(v.destroy_srq(q) == 0);
    CHECK(shm::close_xrcd(domain) == 0);
    CHECK(v.destroy_cq(own_cq) == 0);
  }
  xrc_side(const xrc_side&) = delete;
  xrc_side& operator=(const xrc_side&) = delete;

  void meet(const xrc_side& peer) {
    REQUIRE(to_rtr(to, peer.gid, peer.from->qp_num) == 0);
    REQUIRE(to_rts(to) == 0);
    REQUIRE(to_rtr(from, peer.gid, peer.to->qp_num) == 0);
    REQUIRE(to_rts(from) == 0);
  }
  std::uint32_t number(int queue) {
    std::uint32_t n = 0;
    REQUIRE(shm::get_srq_num(queues[queue], &n) == 0);
    return n;
  }
  void receive_in(int queue, std::uint64_t id, std::size_t offset, std::size_t bytes) {
    ibv_sge s = piece(offset, bytes);
    ibv_recv_wr wr{}, *bad = nullptr;
    wr.wr_id = id;
    wr.sg_list = &s;
    wr.num_sge = 1;
    REQUIRE(ibv_post_srq_recv(queues[queue], &wr, &bad) == 0);
  }
  int send_to(std::uint32_t queue, ibv_wr_opcode op, std::size_t offset, std::size_t bytes,
              std::uint64_t remote = 0, std::uint32_t rkey = 0) {
    ibv_sge s = piece(offset, bytes);
    ibv_send_wr wr{}, *bad = nullptr;
    wr.wr_id = 100 + queue;
    wr.opcode = op;
    wr.sg_list = &s;
    wr.num_sge = 1;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.imm_data = 77;
    wr.qp_type.xrc.remote_srqn = queue;
    wr.wr.rdma = {remote, rkey};
    return ibv_post_send(to, &wr, &bad);
  }
};

struct xrc_pair {
  xrc_side a, b;
  explicit xrc_pair(rig::options o = {}) : a(o), b(o) {
    a.meet(b);
    b.meet(a);
  }
};

}  // namespace

TEST_CASE("each message goes to the queue that it names, and completes where that one does") {
  xrc_pair p;
  std::memcpy(p.a.memory.data(), "to first", 8);
  std::memset(p.a.memory.data() + 64, 5, 100'000);
  p.b.receive_in(0, 1, 0, 64);
  p.b.receive_in(1, 2, 4096, 100'000);
  REQUIRE(p.a.send_to(p.b.number(1), IBV_WR_SEND_WITH_IMM, 64, 100'000) == 0);
  ibv_wc wc = p.b.next(p.b.own_cq);
  CHECK(wc.status == IBV_WC_SUCCESS);
  CHECK(wc.wr_id == 2);
  CHECK(wc.byte_len == 100'000);
  CHECK(wc.imm_data == 77);
  CHECK(wc.qp_num == p.b.from->qp_num);
  CHECK(std::memcmp(p.b.memory.data() + 4096, p.a.memory.data() + 64, 100'000) == 0);
  CHECK(p.a.sent().status == IBV_WC_SUCCESS);
  REQUIRE(p.a.send_to(p.b.number(0), IBV_WR_SEND, 0, 8) == 0);
  CHECK(p.a.sent().status == IBV_WC_SUCCESS);
  wc = p.b.received();
  CHECK(wc.wr_id == 1);
  CHECK(std::memcmp(p.b.memory.data(), "to first", 8) == 0);
  CHECK(p.b.empty(p.b.own_cq));
}

TEST_CASE("a message waits for a receive of its own queue, whatever the other one has") {
  rig::options o;
  o.rnr_retry = 0;
  xrc_pair p(o);
  p.b.receive_in(0, 1, 0, 64);
  REQUIRE(p.a.send_to(p.b.number(1), IBV_WR_SEND, 0, 8) == 0);
  CHECK(p.a.sent().status == IBV_WC_RNR_RETRY_EXC_ERR);
}

TEST_CASE("the receives of messages that were not taken are free again, each in its own queue") {
  rig::options o;
  o.rnr_retry = 0;
  xrc_pair p(o);
  p.b.receive_in(0, 1, 0, 64);
  p.b.receive_in(0, 2, 64, 64);
  p.b.receive_in(1, 3, 128, 100'000);
  const auto send_three = [&] {
    for (const int queue : {0, 1, 0})
      REQUIRE(p.a.send_to(p.b.number(queue), IBV_WR_SEND, 64, queue == 1 ? 20'000 : 8) == 0);
    for (int i = 0; i < 3; ++i) CHECK(p.a.sent().status == IBV_WC_SUCCESS);
  };
  send_three();
  const auto reset = [](xrc_side& side, ibv_qp* q) {
    ibv_qp_attr to{};
    to.qp_state = IBV_QPS_RESET;
    REQUIRE(side.v.modify_qp(q, &to, IBV_QP_STATE) == 0);
    REQUIRE(side.to_init(q) == 0);
  };
  SUBCASE("while the sender is there") {
    reset(p.b, p.b.from);
    reset(p.a, p.a.to);
  }
  SUBCASE("after the sender has left") {
    reset(p.a, p.a.to);
    reset(p.b, p.b.from);
  }
  REQUIRE(p.a.to_rtr(p.a.to, p.b.gid, p.b.from->qp_num) == 0);
  REQUIRE(p.b.to_rtr(p.b.from, p.a.gid, p.a.to->qp_num) == 0);
  REQUIRE(p.a.to_rts(p.a.to) == 0);
  send_three();
  CHECK(p.b.received().wr_id == 1);
  CHECK(p.b.received().wr_id == 2);
  CHECK(p.b.next(p.b.own_cq).wr_id == 3);
}

// More messages are posted than the ring, and the receiver's completion queue, which its device may
// fill meanwhile, have room for. So the oldest message that waits has its receive, and no byte in
// the ring.
TEST_CASE("a sender that leaves gives back the receive of a message that found no room") {
  constexpr std::uint32_t most = 512;
  rig::options o;
  o.srq_wr = o.send_wr = most;
  o.cqe = 16;
  rig::pair p(o);
  shm::of(p.a.context).overflow_ns = std::numeric_limits<std::uint64_t>::max();
  for (std::uint64_t i = 0; i < most; ++i) REQUIRE(p.b.receive(i, 0, 64) == 0);
  for (std::uint64_t i = 0; i < most; ++i) REQUIRE(p.a.send(i, 0, 8, 0) == 0);
  const auto& shared = shm::of(p.b.srq);
  REQUIRE(shm::of(p.a.qp).works.posted() == most);
  REQUIRE(shm::of(p.a.qp).to.claimed_at == shm::of(p.a.qp).tx.pushed());
  SUBCASE("it is reset first") {
    REQUIRE(p.a.set_state(IBV_QPS_RESET) == 0);
    REQUIRE(p.b.set_state(IBV_QPS_RESET) == 0);
  }
  SUBCASE("it breaks, and is reset first") {
    REQUIRE(p.a.set_state(IBV_QPS_ERR) == 0);
    CHECK(p.a.sent().status == IBV_WC_WR_FLUSH_ERR);
    REQUIRE(p.a.set_state(IBV_QPS_RESET) == 0);
    REQUIRE(p.b.set_state(IBV_QPS_RESET) == 0);
  }
  SUBCASE("the receiver is reset first") {
    REQUIRE(p.b.set_state(IBV_QPS_RESET) == 0);
    REQUIRE(p.a.set_state(IBV_QPS_RESET) == 0);
  }
  CHECK(shared.shown->available.load() == shared.works.size());
}

TEST_CASE("an XRC sender that leaves gives back the receive of a message that found no room") {
  constexpr std::size_t bytes = 16'000;  // eight of them are more than a ring holds
  xrc_pair p;
  for (std::uint64_t i = 0; i < 8; ++i) p.b.receive_in(1, i, 0, bytes);
  for (int i = 0; i < 4; ++i) shm::store(shm::of(p.b.own_cq), {}, false);  // it is full
  for (int i = 0; i < 8; ++i) REQUIRE(p.a.send_to(p.b.number(1), IBV_WR_SEND, 0, bytes) == 0);
  REQUIRE(!shm::of(p.a.to).works.idle());
  REQUIRE(shm::of(p.a.to).to.claimed_at == shm::of(p.a.to).tx.pushed());
  ibv_qp_attr reset{};
  reset.qp_state = IBV_QPS_RESET;
  REQUIRE(p.a.v.modify_qp(p.a.to, &reset, IBV_QP_STATE) == 0);
  REQUIRE(p.b.v.modify_qp(p.b.from, &reset, IBV_QP_STATE) == 0);
  const auto& shared = shm::of(p.b.queues[1]);
  CHECK(shared.shown->available.load() == shared.works.size());
}

TEST_CASE("a sender names the queue before it claims a receive of that queue") {
  xrc_pair p;  // it has no receive: the sender waits for one
  REQUIRE(p.a.send_to(p.b.number(1), IBV_WR_SEND, 0, 8) == 0);
  while (shm::of(p.b.from).selected == nullptr) CHECK(p.b.empty(p.b.own_cq));
  CHECK(shm::of(p.b.from).selected == &shm::of(p.b.queues[1]));
  CHECK(shm::of(p.a.to).shown->claims.load() == 0);
  p.b.receive_in(1, 5, 0, 64);
  CHECK(p.b.next(p.b.own_cq).wr_id == 5);
  CHECK(p.a.sent().status == IBV_WC_SUCCESS);
}

TEST_CASE("a queue that there is not in the domain is refused") {
  xrc_pair p;
  REQUIRE(p.a.send_to(99, IBV_WR_SEND, 0, 8) == 0);
  CHECK(p.a.sent().status == IBV_WC_REM_INV_REQ_ERR);
}

TEST_CASE(
    "WRITE, with and without an immediate, READ and atomics reach the memory of the queue's "
    "domain") {
  xrc_pair p;
  const auto there = reinterpret_cast<std::uint64_t>(p.b.memory.data()) + 8192;
  std::memcpy(p.a.memory.data(), "one side", 8);
  REQUIRE(p.a.send_to(p.b.number(0), IBV_WR_RDMA_WRITE, 0, 8, there, p.b.mr->rkey) == 0);
  CHECK(p.a.sent().status == IBV_WC_SUCCESS);
  CHECK(std::memcmp(p.b.memory.data() + 8192, "one side", 8) == 0);
  p.b.receive_in(1, 9, 0, 64);
  REQUIRE(p.a.send_to(p.b.number(1), IBV_WR_RDMA_WRITE_WITH_IMM, 0, 8, there + 8, p.b.mr->rkey) ==
          0);
  CHECK(p.a.sent().status == IBV_WC_SUCCESS);
  const ibv_wc wc = p.b.next(p.b.own_cq);
  CHECK(wc.wr_id == 9);
  CHECK(wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM);
  REQUIRE(p.a.send_to(p.b.number(0), IBV_WR_RDMA_READ, 64, 8, there + 8, p.b.mr->rkey) == 0);
  CHECK(p.a.sent().status == IBV_WC_SUCCESS);
  CHECK(std::memcmp(p.a.memory.data() + 64, "one side", 8) == 0);
}

TEST_CASE("messages for a full completion queue wait, and are not lost") {
  xrc_pair p;
  for (std::uint64_t i = 0; i < 8; ++i) p.b.receive_in(1, i, 64 * i, 64);
  for (int i = 0; i < 8; ++i) {
    REQUIRE(p.a.send_to(p.b.number(1), IBV_WR_SEND, 0, 8) == 0);
    CHECK(p.a.sent().status == IBV_WC_SUCCESS);
  }
  for (std::uint64_t i = 0; i < 8; ++i) CHECK(p.b.next(p.b.own_cq).wr_id == i);
}

TEST_CASE("who sleeps on a channel is woken by a message that names his queue") {
  rig::options o;
  o.channel = true;
  xrc_pair p(o);
  for (std::uint64_t i = 0; i < 3; ++i) {
    p.b.receive_in(0, i, 0, 64);
    REQUIRE(ibv_req_notify_cq(p.b.recv_cq, 0) == 0);
    REQUIRE(p.a.send_to(p.b.number(0), IBV_WR_SEND, 0, 8) == 0);
    pollfd f{p.b.channel->fd, POLLIN, 0};
    REQUIRE(::poll(&f, 1, 10'000) == 1);
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    REQUIRE(p.b.v.get_cq_event(p.b.channel, &cq, &context) == 0);
    CHECK(cq == p.b.recv_cq);
    p.b.v.ack_cq_events(cq, 1);
    CHECK(p.b.received().wr_id == i);
    CHECK(p.a.sent().status == IBV_WC_SUCCESS);
  }
}

TEST_CASE("a receiving QP takes no work, and a domain in use is not closed") {
  xrc_side s;
  ibv_sge piece = s.piece(0, 8);
  ibv_recv_wr r{}, *bad_receive = nullptr;
  ibv_send_wr w{}, *bad = nullptr;
  r.sg_list = w.sg_list = &piece;
  r.num_sge = w.num_sge = 1;
  CHECK(ibv_post_recv(s.from, &r, &bad_receive) == EINVAL);
  CHECK(ibv_post_recv(s.to, &r, &bad_receive) == EINVAL);
  w.opcode = IBV_WR_SEND;
  CHECK(ibv_post_send(s.from, &w, &bad) != 0);
  CHECK(shm::close_xrcd(s.domain) == EBUSY);
}

TEST_CASE("a file names a domain: who opens it again has the same one") {
  rig::side s;
  const int fd = ::open("/tmp", O_RDONLY | O_CLOEXEC | O_DIRECTORY);
  ibv_xrcd_init_attr x{IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, fd, 0};
  CHECK(shm::open_xrcd(s.context, &x) == nullptr);
  x.oflags = O_CREAT;
  ibv_xrcd* first = shm::open_xrcd(s.context, &x);
  ibv_xrcd* again = shm::open_xrcd(s.context, &x);
  REQUIRE(first != nullptr);
  REQUIRE(again != nullptr);
  CHECK(&shm::of(first) == &shm::of(again));
  x.oflags = O_CREAT | O_EXCL;
  CHECK(shm::open_xrcd(s.context, &x) == nullptr);
  CHECK(shm::close_xrcd(first) == 0);
  CHECK(shm::close_xrcd(again) == 0);
  ::close(fd);
}
