// Send queues, receiver-not-ready, flushing and the state machine of shm0.
#include <atomic>
#include <chrono>
#include <thread>

#include "nic/shm/arena.hpp"
#include "nic/shm/counters.hpp"
#include "test/nic/rig.hpp"

using rig::pair;
namespace shm = penstock::nic::shm;

TEST_CASE("a send that finds no receive waits, counts as not ready, and goes when one is posted") {
  pair p;
  REQUIRE(p.a.send(1, 0, 8) == 0);
  CHECK(rig::wait_for([&] { return shm::rnr_received(p.a.context) > 0; }));
  CHECK(rig::wait_for([&] { return shm::rnr_sent(p.b.context) > 0; }));
  CHECK(rig::side::empty(p.a.send_cq));
  REQUIRE(p.b.receive(1, 0, 8) == 0);
  CHECK(p.a.sent().status == IBV_WC_SUCCESS);
  CHECK(p.b.received().status == IBV_WC_SUCCESS);
}

TEST_CASE("as many messages as receives go out, and no receiver-not-ready is counted") {
  pair p;
  for (std::uint64_t i = 0; i < 32; ++i) REQUIRE(p.b.receive(i, i * 8, 8) == 0);
  for (std::uint64_t i = 0; i < 32; ++i) REQUIRE(p.a.send(i, 0, 8) == 0);
  for (std::uint64_t i = 0; i < 32; ++i) CHECK(p.a.sent().wr_id == i);
  CHECK(shm::rnr_received(p.a.context) == 0);
  for (std::uint64_t i = 0; i < 32; ++i) CHECK(p.b.received().wr_id == i);
}

TEST_CASE("the receiver-not-ready retries end in their error, and the rest is flushed in order") {
  rig::options o;
  o.rnr_retry = 2;
  o.min_rnr_timer = 1;
  pair p(o);
  for (std::uint64_t i = 0; i < 4; ++i) REQUIRE(p.a.send(i, 0, 8) == 0);
  const ibv_wc first = p.a.sent();
  CHECK(first.wr_id == 0);
  CHECK(first.status == IBV_WC_RNR_RETRY_EXC_ERR);
  CHECK(shm::rnr_received(p.a.context) == 3);  // the first attempt and two retries
  for (std::uint64_t i = 1; i < 4; ++i) {
    const ibv_wc wc = p.a.sent();
    CHECK(wc.wr_id == i);
    CHECK(wc.status == IBV_WC_WR_FLUSH_ERR);
  }
  CHECK(p.a.state() == IBV_QPS_ERR);
}

TEST_CASE("a queue pair whose peer does not exist gives up after its retries, not before") {
  rig::options o;
  o.timeout = 14;  // 67 ms
  o.retry_cnt = 1;
  rig::side a(o), b(o);
  REQUIRE(a.to_rtr(a.qp, b.gid, b.qp->qp_num + 1) == 0);
  REQUIRE(a.to_rts(a.qp) == 0);
  const std::uint64_t begin = penstock::now_ns();
  REQUIRE(a.send(1, 0, 8) == 0);
  CHECK(a.sent().status == IBV_WC_RETRY_EXC_ERR);
  CHECK(penstock::now_ns() - begin >= 130'000'000);
}

TEST_CASE("a message sent before the peer is ready to receive arrives once it is") {
  rig::side a, b;
  REQUIRE(b.receive(1, 0, 8) == 0);
  a.connect(b);
  REQUIRE(a.send(1, 0, 8) == 0);
  CHECK(rig::side::empty(a.send_cq));
  REQUIRE(b.to_rtr(b.qp, a.gid, a.qp->qp_num) == 0);
  CHECK(b.received().status == IBV_WC_SUCCESS);
  CHECK(a.sent().status == IBV_WC_SUCCESS);
}

TEST_CASE("a peer's orderly leaving is reported by the sender's timer only") {
  rig::options o;
  o.timeout = 14;
  o.retry_cnt = 1;
  rig::side a(o);
  {
    rig::side b(o);
    a.connect(b);
    b.connect(a);
    REQUIRE(b.receive(1, 0, 8) == 0);
    REQUIRE(a.send(1, 0, 8) == 0);
    CHECK(a.sent().status == IBV_WC_SUCCESS);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  CHECK(a.state() == IBV_QPS_RTS);
  CHECK(shm::event_count(a.context).load() == 0);
  REQUIRE(a.send(2, 0, 8) == 0);
  CHECK(a.sent().status == IBV_WC_RETRY_EXC_ERR);
}

TEST_CASE("slots of the send queue come free when a signalled completion is polled") {
  rig::options o;
  o.send_wr = 4;
  pair p(o);
  for (std::uint64_t i = 0; i < 16; ++i) REQUIRE(p.b.receive(i, 0, 8) == 0);
  for (int i = 0; i < 3; ++i) REQUIRE(p.a.send(1, 0, 8, 0) == 0);
  REQUIRE(p.a.send(2, 0, 8) == 0);
  CHECK(p.a.send(3, 0, 8) == ENOMEM);
  CHECK(p.a.sent().wr_id == 2);  // frees all four
  for (int i = 0; i < 4; ++i) REQUIRE(p.a.send(4, 0, 8, 0) == 0);
  CHECK(p.a.send(5, 0, 8) == ENOMEM);
}

TEST_CASE("sends complete although the peer neither polls nor sleeps on its channel") {
  rig::options o;
  o.memory = 4 << 20;
  o.send_wr = o.recv_wr = 1024;
  o.cqe = 2048;
  pair p(o);
  REQUIRE(p.b.receive(0, 0, 2 << 20) == 0);
  for (std::uint64_t i = 1; i <= 900; ++i) REQUIRE(p.b.receive(i, (2 << 20) + i * 64, 64) == 0);
  for (std::size_t i = 0; i < 2 << 20; ++i) p.a.memory[i] = static_cast<std::byte>(i >> 8);
  REQUIRE(p.a.send(0, 0, 2 << 20) == 0);
  for (std::uint64_t i = 1; i <= 900; ++i) REQUIRE(p.a.send(i, 0, 64) == 0);
  for (std::uint64_t i = 0; i <= 900; ++i) {
    const ibv_wc wc = p.a.sent();
    REQUIRE(wc.wr_id == i);
    REQUIRE(wc.status == IBV_WC_SUCCESS);
  }
  for (std::uint64_t i = 0; i <= 900; ++i) REQUIRE(p.b.received().wr_id == i);
  CHECK(std::memcmp(p.a.memory.data(), p.b.memory.data(), 2 << 20) == 0);
}

TEST_CASE("every queue pair of many on one completion queue is served, beside a busy one") {
  rig::options o;
  o.cqe = 4096;
  o.memory = 1 << 16;
  o.recv_wr = 16;
  rig::side a(o), b(o);
  a.connect(b);
  b.connect(a);
  constexpr int quiet = 60;
  std::vector<ibv_qp*> here, there;
  for (int i = 0; i < quiet; ++i) {
    ibv_qp *x = a.new_qp(), *y = b.new_qp();
    REQUIRE(a.to_init(x) == 0);
    REQUIRE(b.to_init(y) == 0);
    REQUIRE(a.to_rtr(x, b.gid, y->qp_num) == 0);
    REQUIRE(b.to_rtr(y, a.gid, x->qp_num) == 0);
    REQUIRE(a.to_rts(x) == 0);
    REQUIRE(b.to_rts(y) == 0);
    ibv_sge s = b.piece(0, 8);
    ibv_recv_wr rw{}, *bad_r = nullptr;
    rw.sg_list = &s;
    rw.num_sge = 1;
    REQUIRE(ibv_post_recv(y, &rw, &bad_r) == 0);
    here.push_back(x);
    there.push_back(y);
  }
  for (ibv_qp* x : here) {
    ibv_sge s = a.piece(0, 8);
    ibv_send_wr sw{}, *bad_s = nullptr;
    sw.opcode = IBV_WR_SEND;
    sw.sg_list = &s;
    sw.num_sge = 1;
    REQUIRE(ibv_post_send(x, &sw, &bad_s) == 0);
  }
  int from_quiet = 0;
  for (int polls = 0; polls < 400 && from_quiet < quiet; ++polls) {
    // The busy one always has more waiting than a poll takes.
    for (int i = 0; i < 4; ++i)
      if (b.receive(1, 0, 8) == 0)
        REQUIRE(a.send(1, 0, 8, polls % 8 == 0 ? IBV_SEND_SIGNALED : 0) == 0);
    ibv_wc wc[4];
    const int n = ibv_poll_cq(b.recv_cq, 4, wc);
    for (int i = 0; i < n; ++i) from_quiet += wc[i].qp_num != b.qp->qp_num;
    while (ibv_poll_cq(a.send_cq, 4, wc) > 0) {
    }
  }
  CHECK(from_quiet == quiet);
  for (ibv_qp* x : here) CHECK(a.v.destroy_qp(x) == 0);
  for (ibv_qp* y : there) CHECK(b.v.destroy_qp(y) == 0);
}

TEST_CASE("an unsignalled send makes no completion, and every one does when all are signalled") {
  pair p;
  for (std::uint64_t i = 0; i < 4; ++i) REQUIRE(p.b.receive(i, 0, 8) == 0);
  REQUIRE(p.a.send(1, 0, 8, 0) == 0);
  REQUIRE(p.a.send(2, 0, 8) == 0);
  CHECK(p.a.sent().wr_id == 2);
  CHECK(rig::side::empty(p.a.send_cq));
  rig::options o;
  o.signal_all = true;
  pair all(o);
  REQUIRE(all.b.receive(1, 0, 8) == 0);
  REQUIRE(all.a.send(1, 0, 8, 0) == 0);
  CHECK(all.a.sent().wr_id == 1);
}

TEST_CASE("posting is refused in the states that do not allow it") {
  rig::side a, b;
  CHECK(a.send(1, 0, 8) == EINVAL);  // INIT
  REQUIRE(a.to_rtr(a.qp, b.gid, b.qp->qp_num) == 0);
  CHECK(a.send(1, 0, 8) == EINVAL);  // RTR
  CHECK(a.receive(1, 0, 8) == 0);
  REQUIRE(a.set_state(IBV_QPS_RESET) == 0);
  CHECK(a.send(1, 0, 8) == EINVAL);
  CHECK(a.receive(1, 0, 8) == EINVAL);
}

TEST_CASE("a transition without its attributes, or out of order, is refused") {
  rig::side a, b;
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  CHECK(a.v.modify_qp(a.qp, &attr, IBV_QP_STATE) == EINVAL);
  attr.qp_state = IBV_QPS_RTS;
  CHECK(a.v.modify_qp(a.qp, &attr, IBV_QP_STATE) == EINVAL);
  CHECK(a.state() == IBV_QPS_INIT);
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 2;
  CHECK(a.v.modify_qp(a.qp, &attr, IBV_QP_STATE | IBV_QP_PORT) == EINVAL);
  attr.cur_qp_state = IBV_QPS_RTS;
  CHECK(a.v.modify_qp(a.qp, &attr, IBV_QP_CUR_STATE) == EINVAL);
  CHECK(a.to_rtr(a.qp, ibv_gid{}, 1) == EHOSTUNREACH);
}

TEST_CASE("a queue pair with a shared receive queue may ask for any receives of its own") {
  rig::options o;
  o.srq_wr = 4;
  rig::side a(o);  // man ibv_create_qp: max_recv_wr and max_recv_sge are ignored then
  ibv_device_attr limits{};
  REQUIRE(a.v.query_device(a.context, &limits) == 0);
  const auto made = [&](bool shared, std::uint32_t wr, std::uint32_t sge) {
    ibv_qp_init_attr i{};
    i.send_cq = a.send_cq;
    i.recv_cq = a.recv_cq;
    i.srq = shared ? a.srq : nullptr;
    i.cap = {4, wr, 1, sge, 0};
    i.qp_type = IBV_QPT_RC;
    ibv_qp* qp = a.v.create_qp(a.pd, &i);
    if (qp != nullptr) CHECK(a.v.destroy_qp(qp) == 0);
    return qp != nullptr;
  };
  const auto wr = static_cast<std::uint32_t>(limits.max_qp_wr) + 1;
  const auto sge = static_cast<std::uint32_t>(limits.max_sge) + 1;
  CHECK(made(true, wr, 1));
  CHECK(made(true, 4, sge));
  CHECK_FALSE(made(false, wr, 1));
  CHECK_FALSE(made(false, 4, sge));
}

TEST_CASE("the error state flushes both queues in order, and what is posted after") {
  pair p;
  for (std::uint64_t i = 0; i < 5; ++i) REQUIRE(p.a.receive(i, 0, 8) == 0);
  for (std::uint64_t i = 0; i < 3; ++i) REQUIRE(p.a.send(10 + i, 0, 8) == 0);  // no receives at b
  REQUIRE(p.a.set_state(IBV_QPS_ERR) == 0);
  REQUIRE(p.a.receive(5, 0, 8) == 0);
  REQUIRE(p.a.send(13, 0, 8, 0) == 0);  // unsignalled: flushed all the same
  for (std::uint64_t i = 0; i < 6; ++i) {
    const ibv_wc wc = p.a.received();
    CHECK(wc.wr_id == i);
    CHECK(wc.status == IBV_WC_WR_FLUSH_ERR);
  }
  for (std::uint64_t i = 0; i < 4; ++i) {
    const ibv_wc wc = p.a.sent();
    CHECK(wc.wr_id == 10 + i);
    CHECK(wc.status == IBV_WC_WR_FLUSH_ERR);
  }
}

TEST_CASE("messages that had arrived are delivered before the receives are flushed") {
  pair p;
  for (std::uint64_t i = 0; i < 4; ++i) REQUIRE(p.b.receive(i, i * 8, 8) == 0);
  REQUIRE(p.a.send(1, 0, 8) == 0);
  REQUIRE(p.a.send(2, 0, 8) == 0);
  CHECK(p.a.sent().status == IBV_WC_SUCCESS);
  CHECK(p.a.sent().status == IBV_WC_SUCCESS);
  REQUIRE(p.b.set_state(IBV_QPS_ERR) == 0);
  CHECK(p.b.received().status == IBV_WC_SUCCESS);
  CHECK(p.b.received().status == IBV_WC_SUCCESS);
  CHECK(p.b.received().status == IBV_WC_WR_FLUSH_ERR);
  CHECK(p.b.received().status == IBV_WC_WR_FLUSH_ERR);
  CHECK(rig::side::empty(p.b.recv_cq));
}

TEST_CASE("a reset pair can be connected again and starts afresh") {
  pair p;
  for (int round = 0; round < 20; ++round) {
    REQUIRE(p.b.receive(1, 0, 64) == 0);
    REQUIRE(p.b.receive(2, 0, 64) == 0);
    REQUIRE(p.a.send(1, 0, 60) == 0);
    REQUIRE(p.a.send(2, 0, 60) == 0);
    CHECK(p.b.received().wr_id == 1);  // the second stays in the ring
    REQUIRE(p.a.set_state(IBV_QPS_RESET) == 0);
    REQUIRE(p.b.set_state(IBV_QPS_RESET) == 0);
    CHECK(rig::side::empty(p.a.send_cq));
    CHECK(rig::side::empty(p.b.recv_cq));
    REQUIRE(p.a.to_init(p.a.qp) == 0);
    REQUIRE(p.b.to_init(p.b.qp) == 0);
    p.a.connect(p.b);
    p.b.connect(p.a);
  }
}

TEST_CASE("a message longer than its receive is an error at both ends") {
  pair p;
  REQUIRE(p.b.receive(1, 0, 8) == 0);
  REQUIRE(p.a.send(1, 0, 9) == 0);
  const ibv_wc r = p.b.received();
  CHECK(r.status == IBV_WC_LOC_LEN_ERR);
  CHECK(r.wr_id == 1);
  CHECK(p.a.sent().status == IBV_WC_REM_INV_REQ_ERR);
  CHECK(p.a.state() == IBV_QPS_ERR);
  CHECK(p.b.state() == IBV_QPS_ERR);
  CHECK(p.b.memory[8] == std::byte{0});
}

TEST_CASE("a refused message is never reported as sent, wherever the ring stands") {
  for (std::uint64_t before = 0; before < 70; before += 3) {
    pair p;
    for (std::uint64_t i = 0; i < before; ++i) {
      REQUIRE(p.b.receive(i, 0, 64) == 0);
      REQUIRE(p.a.send(i, 0, 8) == 0);
      REQUIRE(p.a.sent().status == IBV_WC_SUCCESS);
      REQUIRE(p.b.received().status == IBV_WC_SUCCESS);
    }
    REQUIRE(p.b.receive(1, 0, 64) == 0);
    REQUIRE(p.a.send(1, 0, 65) == 0);
    CHECK(p.b.received().status == IBV_WC_LOC_LEN_ERR);
    CHECK(p.a.sent().status == IBV_WC_REM_INV_REQ_ERR);
  }
}

TEST_CASE("a new queue pair in a former one's place has none of its receives") {
  for (int i = 0; i < 3; ++i) {
    pair p;
    for (std::uint64_t k = 0; k < 4; ++k) REQUIRE(p.b.receive(k, 0, 8) == 0);
    REQUIRE(p.b.v.destroy_qp(p.b.qp) == 0);
    REQUIRE(p.a.v.destroy_qp(p.a.qp) == 0);
    p.a.make_qp();
    p.b.make_qp();
    p.a.connect(p.b);
    p.b.connect(p.a);
    REQUIRE(p.a.send(1, 0, 8) == 0);
    CHECK(rig::wait_for([&] { return shm::rnr_received(p.a.context) > 0; }));
    CHECK(rig::side::empty(p.a.send_cq));
    REQUIRE(p.b.receive(9, 0, 8) == 0);
    CHECK(p.b.received().wr_id == 9);
  }
}

TEST_CASE("a message refused after it was reported sent breaks its sender, who hears of it") {
  pair p;
  REQUIRE(p.b.receive(1, 0, 64) == 0);
  REQUIRE(p.a.send(1, 0, 8) == 0);
  CHECK(p.a.sent().status == IBV_WC_SUCCESS);
  REQUIRE(p.b.v.dereg_mr(p.b.mr) == 0);  // under a message that has arrived
  p.b.mr = nullptr;
  CHECK(p.b.received().status == IBV_WC_LOC_PROT_ERR);
  REQUIRE(rig::wait_for([&] { return shm::event_count(p.a.context).load() != 0; }));
  ibv_async_event e;
  REQUIRE(p.a.v.get_async_event(p.a.context, &e) == 0);
  CHECK(e.event_type == IBV_EVENT_QP_FATAL);
  CHECK(e.element.qp == p.a.qp);
  p.a.v.ack_async_event(&e);
  CHECK(p.a.state() == IBV_QPS_ERR);
}

TEST_CASE("a receive whose key is not good ends its message in a remote operation error") {
  for (const bool shared : {false, true})
    for (const bool gone : {false, true}) {  // the key was good when the receive was posted
      CAPTURE(shared);
      CAPTURE(gone);
      rig::options o;
      o.srq_wr = shared ? 4 : 0;
      pair p({}, o);
      if (!gone) p.b.mr->lkey ^= 1;
      REQUIRE(p.b.receive(1, 0, 64) == 0);
      if (!gone) p.b.mr->lkey ^= 1;
      if (gone) {
        REQUIRE(p.b.v.dereg_mr(p.b.mr) == 0);
        p.b.mr = nullptr;
      }
      REQUIRE(p.a.send(1, 0, 8) == 0);
      CHECK(p.b.received().status == IBV_WC_LOC_PROT_ERR);
      CHECK(p.a.sent().status == IBV_WC_REM_OP_ERR);
      CHECK(p.b.state() == IBV_QPS_ERR);
      CHECK(p.a.state() == IBV_QPS_ERR);
    }
}

TEST_CASE("scatter and gather lists move bytes across their borders") {
  pair p;
  for (std::size_t i = 0; i < 4096; ++i) p.a.memory[i] = static_cast<std::byte>(i);
  ibv_sge from[3] = {p.a.piece(0, 5), p.a.piece(1000, 100), p.a.piece(3000, 200)};
  ibv_sge to[4] = {p.b.piece(0, 50), p.b.piece(100, 0), p.b.piece(200, 1), p.b.piece(300, 500)};
  ibv_recv_wr rw{}, *bad_r = nullptr;
  rw.sg_list = to;
  rw.num_sge = 4;
  REQUIRE(ibv_post_recv(p.b.qp, &rw, &bad_r) == 0);
  ibv_send_wr sw{}, *bad_s = nullptr;
  sw.opcode = IBV_WR_SEND;
  sw.sg_list = from;
  sw.num_sge = 3;
  REQUIRE(ibv_post_send(p.a.qp, &sw, &bad_s) == 0);
  CHECK(p.b.received().byte_len == 305);
  std::vector<std::byte> sent, got;
  for (const auto& s : from)
    sent.insert(sent.end(), reinterpret_cast<std::byte*>(s.addr),
                reinterpret_cast<std::byte*>(s.addr) + s.length);
  for (const auto& s : to)
    got.insert(got.end(), reinterpret_cast<std::byte*>(s.addr),
               reinterpret_cast<std::byte*>(s.addr) + s.length);
  got.resize(sent.size());
  CHECK(sent == got);
}

TEST_CASE("an inline send may change its buffer at once, also when it has to wait") {
  pair p;
  std::memset(p.a.memory.data(), 1, 200);
  REQUIRE(p.a.send(1, 0, 200, IBV_SEND_SIGNALED | IBV_SEND_INLINE) == 0);  // no receive yet
  std::memset(p.a.memory.data(), 2, 200);
  REQUIRE(p.b.receive(1, 0, 200) == 0);
  CHECK(p.b.received().status == IBV_WC_SUCCESS);
  CHECK(p.b.memory[0] == std::byte{1});
  CHECK(p.b.memory[199] == std::byte{1});
  CHECK(p.a.send(1, 0, 257, IBV_SEND_INLINE) == EINVAL);
}

TEST_CASE("a drained send queue holds new work until it is ready to send again") {
  pair p;
  for (std::uint64_t i = 0; i < 2; ++i) REQUIRE(p.b.receive(i, 0, 8) == 0);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_SQD;
  attr.en_sqd_async_notify = 1;
  REQUIRE(p.a.v.modify_qp(p.a.qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY) == 0);
  ibv_async_event e;
  REQUIRE(p.a.v.get_async_event(p.a.context, &e) == 0);
  CHECK(e.event_type == IBV_EVENT_SQ_DRAINED);
  p.a.v.ack_async_event(&e);
  REQUIRE(p.a.send(1, 0, 8) == 0);
  CHECK(rig::side::empty(p.a.send_cq));
  REQUIRE(p.a.set_state(IBV_QPS_RTS) == 0);
  CHECK(p.a.sent().status == IBV_WC_SUCCESS);
}

TEST_CASE("what is not supported is refused") {
  rig::side a;
  ibv_qp_init_attr q{};
  q.send_cq = q.recv_cq = a.send_cq;
  q.cap = {1, 1, 1, 1, 0};
  q.qp_type = IBV_QPT_RAW_PACKET;
  CHECK(a.v.create_qp(a.pd, &q) == nullptr);
  CHECK(errno == EOPNOTSUPP);
  q.qp_type = IBV_QPT_RC;
  q.cap.max_send_sge = 17;
  CHECK(a.v.create_qp(a.pd, &q) == nullptr);
  CHECK(errno == EINVAL);
  CHECK(a.v.dealloc_pd(a.pd) == EBUSY);
  CHECK(a.v.destroy_cq(a.send_cq) == EBUSY);
  CHECK(a.v.close_device(a.context) == EBUSY);
  CHECK(a.v.create_cq(a.context, 0, nullptr, nullptr, 0) == nullptr);
}

TEST_CASE("a piece that the memory file cannot hold is an errno, and the next one is given") {
  shm::arena memory;
  REQUIRE(memory.open({1, 2}) == 0);
  errno = 0;
  CHECK(memory.carve(shm::arena_bytes, 4096) == 0);
  CHECK(errno == ENOMEM);
  const std::uint64_t piece = memory.carve(10'000, 10'000);
  REQUIRE(piece != 0);
  std::memset(memory.at(piece), 1, 10'000);
  memory.give_back(piece, 10'000);
  CHECK(memory.carve(10'000, 10'000) == piece);  // used again, and clean
  CHECK(*memory.at(piece) == std::byte{0});
}

TEST_CASE("many threads post to one queue pair and poll one completion queue, and lose nothing") {
  rig::options o;
  o.send_wr = o.recv_wr = 512;
  o.cqe = 4096;
  pair p(o);
  constexpr int threads = 3, each = 3000;
  constexpr std::size_t places = 512;
  std::atomic<int> sent{0}, received{0}, posted{0};
  std::atomic<std::size_t> place{0};
  std::atomic<bool> failed{false};
  const auto poll = [&](ibv_cq* cq, std::atomic<int>& count) {
    ibv_wc wc[8];
    const int n = ibv_poll_cq(cq, 8, wc);
    for (int i = 0; i < n; ++i)
      if (wc[i].status != IBV_WC_SUCCESS) failed.store(true);
    count.fetch_add(n);
  };
  std::vector<std::thread> team;
  for (int t = 0; t < threads; ++t) {
    team.emplace_back([&] {
      for (int i = 0; i < each && !failed.load();) {
        if (p.a.send(1, 0, 40) == 0) ++i;
        poll(p.a.send_cq, sent);
      }
    });
    team.emplace_back([&] {
      const std::uint64_t until = penstock::now_ns() + 60'000'000'000;
      while (received.load() < threads * each && !failed.load() && penstock::now_ns() < until) {
        // Each has a place of its own: two threads may poll, and so write, at a time.
        if (posted.load() - received.load() < 400 &&
            p.b.receive(1, place.fetch_add(1) % places * 64, 64) == 0)
          posted.fetch_add(1);
        poll(p.b.recv_cq, received);
        ::sched_yield();
      }
    });
  }
  for (auto& t : team) t.join();
  CHECK_FALSE(failed.load());
  CHECK(received.load() == threads * each);
  CHECK(rig::wait_for([&] {
    poll(p.a.send_cq, sent);
    return sent.load() == threads * each;
  }));
}

namespace {

/// A connected pair whose second side has shared receives, and a UD queue pair at each side; those
/// of the second share the receives.
struct two_kinds {
  two_kinds() : p({}, {.srq_wr = 16}), from(add(p.a)), to(add(p.b)) {
    ibv_ah_attr attr = rig::side::path(p.b.gid);
    path = p.a.v.create_ah(p.a.pd, &attr);
    REQUIRE(path != nullptr);
  }
  two_kinds(const two_kinds&) = delete;
  two_kinds& operator=(const two_kinds&) = delete;
  ~two_kinds() {
    CHECK(p.a.v.destroy_ah(path) == 0);
    CHECK(p.a.v.destroy_qp(from) == 0);
    CHECK(p.b.v.destroy_qp(to) == 0);
  }

  static ibv_qp* add(rig::side& s) {
    s.o.type = IBV_QPT_UD;
    ibv_qp* qp = s.new_qp();
    REQUIRE(s.to_init(qp) == 0);
    REQUIRE(s.to_rtr(qp, {}, 0) == 0);
    REQUIRE(s.to_rts(qp) == 0);
    return qp;
  }
  void send_datagram() {
    std::swap(p.a.qp, from);
    REQUIRE(p.a.post(1, IBV_WR_SEND, 0, 8, IBV_SEND_SIGNALED, [&](ibv_send_wr& wr) {
      wr.wr.ud = {path, to->qp_num, 0x1234};
    }) == 0);
    std::swap(p.a.qp, from);
    CHECK(p.a.sent().status == IBV_WC_SUCCESS);
  }
  std::uint32_t received_by() const {
    const ibv_wc wc = p.b.received();
    return wc.status == IBV_WC_SUCCESS ? wc.qp_num : 0;
  }

  pair p;
  ibv_qp *from, *to;
  ibv_ah* path = nullptr;
};

}  // namespace

TEST_CASE("a send finds no receive where a datagram has taken the shared one") {
  two_kinds t;
  REQUIRE(t.p.b.receive(1, 0, 64) == 0);
  t.send_datagram();
  CHECK(t.received_by() == t.to->qp_num);
  REQUIRE(t.p.a.send(2, 0, 8) == 0);
  CHECK(rig::wait_for([&] { return shm::rnr_received(t.p.a.context) > 0; }));
  CHECK(rig::side::empty(t.p.a.send_cq));
  REQUIRE(t.p.b.receive(2, 0, 64) == 0);
  CHECK(t.p.a.sent().wr_id == 2);
  CHECK(t.received_by() == t.p.b.qp->qp_num);
}

TEST_CASE("a datagram does not take a shared receive that a send has claimed") {
  two_kinds t;
  REQUIRE(t.p.b.receive(1, 0, 64) == 0);
  REQUIRE(t.p.a.send(2, 0, 8) == 0);
  CHECK(t.p.a.sent().wr_id == 2);
  t.send_datagram();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // it has arrived
  CHECK(t.received_by() == t.p.b.qp->qp_num);
  REQUIRE(t.p.b.receive(2, 0, 64) == 0);
  CHECK(t.received_by() == t.to->qp_num);
}
