// The effects of PENSTOCK_SHM_FAULT: one case for each fault, at both ends of the connection.
#include <atomic>
#include <cerrno>
#include <random>
#include <thread>

#include "lib/base/clock.hpp"
#include "nic/shm/qp.hpp"
#include "test/nic/pretence.hpp"

using namespace rig;
using penstock::now_ns;
namespace shm = penstock::nic::shm;

namespace {

ibv_event_type next_event(const side& s) {
  ibv_async_event e{};
  REQUIRE(s.v.get_async_event(s.context, &e) == 0);
  s.v.ack_async_event(&e);
  return e.event_type;
}

ibv_port_state port_state(const side& s) {
  ibv_port_attr a{};
  REQUIRE(s.v.query_port(s.context, 1, &a) == 0);
  return a.state;
}

/// Two connected sides: faults at the first, and none at the other.
struct faulty_pair {
  side a, b;
  explicit faulty_pair(const char* faults, const options& o = {})
      : faulty_pair(std::make_unique<pretending>("plain", faults), o) {}
  explicit faulty_pair(std::unique_ptr<pretending> as, const options& o)
      : a(o), b((as.reset(), o)) {
    a.connect(b);
    b.connect(a);
  }
};

}  // namespace

TEST_CASE("the k-th call ends with its errno, and the others as ever") {
  const pretending as("plain",
                      "reg_mr=2:EFAULT,create_cq=3:ENOMEM,create_qp=2:ENOSPC,modify_qp=2:EINVAL,"
                      "query_port=1:EIO,alloc_pd=2:ENOMEM,create_srq=1:ENOSYS,query_device=2:EIO,"
                      "create_comp_channel=1:EMFILE");
  side s;
  const auto fails = [](void* made, int with) { return made == nullptr && errno == with; };
  CHECK(fails(s.v.reg_mr(s.pd, s.memory.data(), 64, 0), EFAULT));
  ibv_mr* mr = s.v.reg_mr(s.pd, s.memory.data(), 64, 0);
  CHECK(mr != nullptr);
  CHECK(s.v.dereg_mr(mr) == 0);
  CHECK(fails(s.v.create_cq(s.context, 4, nullptr, nullptr, 0), ENOMEM));
  CHECK(fails(s.new_qp(), ENOSPC));
  CHECK(s.set_state(IBV_QPS_ERR) == EINVAL);
  CHECK(s.set_state(IBV_QPS_ERR) == 0);
  CHECK(fails(s.v.alloc_pd(s.context), ENOMEM));
  CHECK(fails(s.v.create_comp_channel(s.context), EMFILE));
  ibv_srq_init_attr srq{};
  srq.attr = {4, 1, 0};
  CHECK(fails(s.v.create_srq(s.pd, &srq), ENOSYS));
  ibv_port_attr port;
  CHECK(s.v.query_port(s.context, 1, &port) == EIO);
  CHECK(s.v.query_port(s.context, 1, &port) == 0);
  ibv_device_attr device;
  CHECK(s.v.query_device(s.context, &device) == 0);
  CHECK(s.v.query_device(s.context, &device) == EIO);
}

TEST_CASE("posting and polling fail when they are told to, and lose nothing") {
  faulty_pair p("post_send=2:ENOMEM,poll_cq=1:EIO,post_recv=1:ENOMEM,req_notify_cq=1:EIO");
  for (int i = 0; i < 3; ++i) REQUIRE(p.b.receive(1, 0, 64) == 0);
  CHECK(p.a.send(1, 0, 8) == 0);
  CHECK(p.a.send(2, 0, 8) == ENOMEM);
  CHECK(p.a.send(3, 0, 8) == 0);
  ibv_wc wc;
  CHECK(ibv_poll_cq(p.a.send_cq, 1, &wc) == -1);
  CHECK(p.a.sent().wr_id == 1);
  CHECK(p.a.sent().wr_id == 3);
  CHECK(p.a.receive(1, 0, 8) == ENOMEM);
  CHECK(p.a.receive(1, 0, 8) == 0);
  CHECK(ibv_req_notify_cq(p.a.recv_cq, 0) == EIO);
  CHECK(ibv_req_notify_cq(p.a.recv_cq, 0) == 0);
}

TEST_CASE("the k-th send ends with its status and breaks the queue pair") {
  faulty_pair p("send=3:REM_ACCESS_ERR");
  for (int i = 0; i < 4; ++i) REQUIRE(p.b.receive(1, 0, 64) == 0);
  for (std::uint64_t i = 1; i <= 4; ++i) REQUIRE(p.a.send(i, 0, 8) == 0);
  CHECK(p.a.sent().status == IBV_WC_SUCCESS);
  CHECK(p.a.sent().status == IBV_WC_SUCCESS);
  const ibv_wc third = p.a.sent();
  CHECK(third.status == IBV_WC_REM_ACCESS_ERR);
  CHECK(third.wr_id == 3);
  CHECK(p.a.sent().status == IBV_WC_WR_FLUSH_ERR);
  CHECK(p.a.state() == IBV_QPS_ERR);
  CHECK(p.b.received().status == IBV_WC_SUCCESS);
  CHECK(p.b.received().status == IBV_WC_SUCCESS);
  CHECK(side::empty(p.b.recv_cq));
}

TEST_CASE("the k-th receive ends with its status, and the sender hears of it") {
  faulty_pair p("receive=2:LOC_PROT_ERR");
  for (int i = 0; i < 3; ++i) REQUIRE(p.a.receive(1, 0, 64) == 0);
  REQUIRE(p.b.send(1, 0, 8) == 0);
  REQUIRE(p.b.send(2, 0, 8) == 0);
  CHECK(p.a.received().status == IBV_WC_SUCCESS);
  CHECK(p.a.received().status == IBV_WC_LOC_PROT_ERR);
  CHECK(p.a.received().status == IBV_WC_WR_FLUSH_ERR);
  CHECK(next_event(p.b) == IBV_EVENT_QP_FATAL);
}

TEST_CASE("a device that goes says so, flushes what was posted, and makes nothing more") {
  for (const char* when : {"gone=2", "gone=900ms"}) {
    CAPTURE(when);
    faulty_pair p(when);
    REQUIRE(p.a.receive(9, 0, 64) == 0);
    for (int i = 0; i < 3; ++i) REQUIRE(p.b.receive(1, 0, 64) == 0);
    REQUIRE(p.a.send(1, 0, 8) == 0);
    CHECK(p.a.sent().status == IBV_WC_SUCCESS);
    if (when[5] == '2') REQUIRE(p.a.send(2, 0, 8) == 0);
    CHECK(next_event(p.a) == IBV_EVENT_DEVICE_FATAL);
    CHECK(p.a.received().status == IBV_WC_WR_FLUSH_ERR);
    CHECK(p.a.state() == IBV_QPS_ERR);
    CHECK(p.a.v.alloc_pd(p.a.context) == nullptr);
    CHECK(errno == EIO);
    ibv_port_attr port;
    CHECK(p.a.v.query_port(p.a.context, 1, &port) == EIO);
    // The other end learns of it by its retries.
    REQUIRE(p.b.send(3, 0, 8) == 0);
    CHECK(p.b.sent().status == IBV_WC_RETRY_EXC_ERR);
  }
}

TEST_CASE("over a port that is down nothing goes until it is up, or the retries have ended") {
  options o;
  o.retry_cnt = 7;
  o.timeout = 18;  // 8 s in all
  faulty_pair p("port_down=1:100ms", o);
  REQUIRE(p.b.receive(1, 0, 64) == 0);
  const std::uint64_t begun = now_ns();
  REQUIRE(p.a.send(1, 0, 8) == 0);  // goes, and is the last one
  CHECK(p.a.sent().status == IBV_WC_SUCCESS);
  CHECK(next_event(p.a) == IBV_EVENT_PORT_ERR);
  REQUIRE(p.b.receive(1, 0, 64) == 0);
  REQUIRE(p.a.send(2, 0, 8) == 0);
  CHECK(p.a.sent().status == IBV_WC_SUCCESS);
  CHECK(now_ns() - begun >= 100'000'000);
  CHECK(next_event(p.a) == IBV_EVENT_PORT_ACTIVE);
  CHECK(port_state(p.a) == IBV_PORT_ACTIVE);
  CHECK(p.b.received().status == IBV_WC_SUCCESS);
  CHECK(p.b.received().status == IBV_WC_SUCCESS);

  options impatient;
  impatient.timeout = 10;  // 8 ms
  faulty_pair q("port_down=1ms", impatient);
  CHECK(next_event(q.a) == IBV_EVENT_PORT_ERR);
  CHECK(port_state(q.a) == IBV_PORT_DOWN);
  REQUIRE(q.b.receive(1, 0, 64) == 0);
  REQUIRE(q.a.send(1, 0, 8) == 0);
  CHECK(q.a.sent().status == IBV_WC_RETRY_EXC_ERR);

  // Nor does anything come; but what has come is there.
  faulty_pair r("port_down=1", impatient);
  for (std::uint64_t id : {1, 2}) REQUIRE(r.a.receive(id, 0, 64) == 0);
  REQUIRE(r.b.send(1, 0, 8) == 0);
  CHECK(r.b.sent().status == IBV_WC_SUCCESS);
  REQUIRE(r.b.receive(1, 0, 64) == 0);
  REQUIRE(r.a.send(1, 0, 8) == 0);
  CHECK(next_event(r.a) == IBV_EVENT_PORT_ERR);
  CHECK(r.a.received().status == IBV_WC_SUCCESS);
  REQUIRE(r.b.send(2, 0, 8) == 0);
  CHECK(r.b.sent().status == IBV_WC_RETRY_EXC_ERR);
}

TEST_CASE("a sender that found no receive waits as long as it is told") {
  faulty_pair p("rnr=30ms");
  const std::uint64_t begun = now_ns();
  REQUIRE(p.a.send(1, 0, 8) == 0);
  CHECK(side::empty(p.a.send_cq));
  REQUIRE(p.b.receive(1, 0, 64) == 0);
  CHECK(p.a.sent().status == IBV_WC_SUCCESS);
  CHECK(now_ns() - begun >= 30'000'000);
}

TEST_CASE("datagrams are lost, come twice, and are overtaken") {
  struct expectation {
    const char* faults;
    std::vector<std::uint64_t> come;
  };
  for (const expectation& e : {expectation{"lost=100%", {}},
                               {"doubled=100%", {1, 1, 2, 2, 3, 3, 4, 4}},
                               {"lost=0%", {1, 2, 3, 4}}}) {
    CAPTURE(e.faults);
    options o;
    o.type = IBV_QPT_UD;
    faulty_pair p(e.faults, o);
    ibv_ah_attr path = side::path(p.b.gid);
    ibv_ah* ah = p.a.v.create_ah(p.a.pd, &path);
    REQUIRE(ah != nullptr);
    for (std::size_t i = 0; i < 10; ++i) REQUIRE(p.b.receive(i, 4096 + i * 64, 64) == 0);
    for (std::uint64_t i = 1; i <= 4; ++i) {
      p.a.memory[i] = static_cast<std::byte>(i);
      REQUIRE(p.a.post(i, IBV_WR_SEND, i, 1, IBV_SEND_SIGNALED, [&](ibv_send_wr& wr) {
        wr.wr.ud = {ah, p.b.qp->qp_num, 0x1234};
      }) == 0);
      CHECK(p.a.sent().status == IBV_WC_SUCCESS);
    }
    for (const std::uint64_t number : e.come) {
      const ibv_wc wc = p.b.received();
      CHECK(std::to_integer<std::uint64_t>(p.b.memory[4096 + wc.wr_id * 64 + 40]) == number);
    }
    CHECK(side::empty(p.b.recv_cq));
    CHECK(p.a.v.destroy_ah(ah) == 0);
  }
}

TEST_CASE("a datagram that is overtaken comes after the next one, or late") {
  const pretending as("plain", "overtaken=100%");
  options o;
  o.type = IBV_QPT_UD;
  rig::pair p(o);
  ibv_ah_attr path = side::path(p.b.gid);
  ibv_ah* ah = p.a.v.create_ah(p.a.pd, &path);
  for (std::size_t i = 0; i < 10; ++i) REQUIRE(p.b.receive(i, 4096 + i * 64, 64) == 0);
  unsigned seen = 0;
  for (std::uint64_t i = 0; i < 5; ++i) {
    p.a.memory[0] = static_cast<std::byte>(i);
    REQUIRE(p.a.post(i, IBV_WR_SEND, 0, 1, IBV_SEND_SIGNALED, [&](ibv_send_wr& wr) {
      wr.wr.ud = {ah, p.b.qp->qp_num, 0x1234};
    }) == 0);
    CHECK(p.a.sent().status == IBV_WC_SUCCESS);
  }
  for (int i = 0; i < 5; ++i) {
    const ibv_wc wc = p.b.received();
    REQUIRE(wc.status == IBV_WC_SUCCESS);
    seen |= 1u << std::to_integer<unsigned>(p.b.memory[4096 + wc.wr_id * 64 + 40]);
  }
  CHECK(seen == 31);
  CHECK(p.a.v.destroy_ah(ah) == 0);
}

TEST_CASE("the bytes of a WRITE land in any order, and all of them") {
  faulty_pair p("any_order");
  constexpr std::size_t bytes = 40;
  const auto write = [&](std::size_t from) {
    return p.a.post(1, IBV_WR_RDMA_WRITE, from, bytes, IBV_SEND_SIGNALED, [&](ibv_send_wr& wr) {
      wr.wr.rdma = {reinterpret_cast<std::uint64_t>(p.b.memory.data()), p.b.mr->rkey};
    });
  };
  bool last_came_first = false;
  for (int round = 1; round <= 100'000 && !last_came_first; ++round) {
    const auto mark = static_cast<std::byte>(round);
    std::memset(p.a.memory.data(), round & 255, bytes);
    std::atomic<bool> written{false};
    // Somebody who believes that the last byte comes last.
    std::thread believer([&] {
      const auto at = [&](std::size_t i) {
        return std::atomic_ref(p.b.memory[i]).load(std::memory_order_acquire);
      };
      while (at(bytes - 1) != mark && !written.load(std::memory_order_acquire)) {
      }
      for (std::size_t i = 0; i < bytes; ++i)
        if (at(i) != mark && at(bytes - 1) == mark) last_came_first = true;
    });
    REQUIRE(write(0) == 0);
    const ibv_wc wc = p.a.sent();
    written.store(true, std::memory_order_release);
    believer.join();
    REQUIRE(wc.status == IBV_WC_SUCCESS);
    for (std::size_t i = 0; i < bytes; ++i) REQUIRE(p.b.memory[i] == mark);
  }
  CHECK(last_came_first);
}

TEST_CASE("a link takes its time: a message its delay, a READ twice that, bytes their rate") {
  const auto took = [](const char* faults, ibv_wr_opcode what, std::size_t bytes, int messages) {
    faulty_pair p(faults);
    for (int i = 0; i < messages; ++i) REQUIRE(p.b.receive(1, 0, bytes) == 0);
    const std::uint64_t begun = now_ns();
    for (int i = 0; i < messages; ++i)
      REQUIRE(p.a.post(1, what, 0, bytes, IBV_SEND_SIGNALED, [&](ibv_send_wr& wr) {
        if (what != IBV_WR_SEND)
          wr.wr.rdma = {reinterpret_cast<std::uint64_t>(p.b.memory.data()), p.b.mr->rkey};
      }) == 0);
    for (int i = 0; i < messages; ++i) REQUIRE(p.a.sent().status == IBV_WC_SUCCESS);
    return now_ns() - begun;
  };
  CHECK(took("delay=20ms", IBV_WR_SEND, 8, 1) >= 20'000'000);
  CHECK(took("delay=20ms", IBV_WR_RDMA_WRITE, 8, 1) >= 20'000'000);
  CHECK(took("delay=20ms", IBV_WR_RDMA_READ, 8, 1) >= 40'000'000);
  // They are on their way together.
  const std::uint64_t together = took("delay=200ms", IBV_WR_SEND, 8, 10);
  CHECK(together >= 200'000'000);
  CHECK(together < 10 * 200'000'000ull);
  // One after the other over the same link: 10 x 10,000 bytes x 8 bits at 10 Mbit/s.
  CHECK(took("rate=0.01Gbit", IBV_WR_SEND, 10'000, 10) >= 80'000'000);
}

TEST_CASE("a port that is down while a message is under way loses nothing and stops nothing") {
  // The receiver's port, as faults.cpp takes it down: thousands of times, for moments, so that it
  // is down between any two steps of a sender.
  const auto each_time_down = [](options o, ibv_wr_opcode op, std::size_t bytes) {
    o.retry_cnt = 7;
    o.timeout = 20;
    pair p(o);
    shm::queue_pair& qp = shm::of(p.b.qp);
    std::atomic<bool> over{false};
    std::thread port([&] {
      std::mt19937 random(5);
      const auto turn_to = [&](shm::qp_public life) {
        qp.shown->life.store(shm::life_word(qp.generation, life), std::memory_order_release);
        for (const std::uint64_t until = now_ns() + random() % 1000; now_ns() < until;)
          ;
      };
      while (!over.load(std::memory_order_relaxed)) {
        turn_to(shm::qp_public::cut);
        turn_to(shm::qp_public::ready);
      }
    });
    const std::uint64_t until = now_ns() + 1'000'000'000;
    int wrong = 0;
    for (std::uint64_t i = 0; wrong == 0 && now_ns() < until; ++i) {
      wrong += p.b.receive(i, 0, 4096) != 0;
      wrong += p.a.post(i, op, 0, bytes, IBV_SEND_SIGNALED, [&](ibv_send_wr& w) {
        w.wr.rdma.remote_addr = reinterpret_cast<std::uint64_t>(p.b.memory.data());
        w.wr.rdma.rkey = p.b.mr->rkey;
      }) != 0;
      const ibv_wc received = p.b.received(), sent = p.a.sent();
      wrong += received.status != IBV_WC_SUCCESS || received.wr_id != i;
      wrong += sent.status != IBV_WC_SUCCESS || sent.wr_id != i;
    }
    CHECK(wrong == 0);
    over.store(true, std::memory_order_relaxed);
    port.join();
  };
  options shared;
  shared.srq_wr = 16;
  for (const options& o : {options{}, shared})
    for (const std::size_t bytes : {8, 3000}) {
      each_time_down(o, IBV_WR_SEND, bytes);
      each_time_down(o, IBV_WR_RDMA_WRITE_WITH_IMM, bytes);
    }
}
