// The effects of PENSTOCK_SHM_PERSONALITY.
#include <poll.h>

#include <cerrno>
#include <cstdlib>
#include <string>

#include "nic/shm/cq.hpp"
#include "nic/shm/fault_plan.hpp"
#include "nic/shm/personality.hpp"
#include "test/nic/pretence.hpp"

using namespace rig;
using penstock::nic::shm::parse_faults;
using penstock::nic::shm::parse_personality;

TEST_CASE("a personality is made of names and limits, of which the later ones count") {
  const auto p = parse_personality("small, inline=64,qp=9");
  REQUIRE(p);
  CHECK(p->limits.srq_wr == 16);
  CHECK(p->limits.cqe == 32);
  CHECK(p->limits.inline_bytes == 64);
  CHECK(p->limits.qp == 9);
  CHECK_FALSE(p->overruns);
  CHECK(p->receive_wait_ms == 1000);
  CHECK(parse_personality("receive_wait_ms=0,part=7")->receive_wait_ms == 0);
  CHECK(parse_personality("")->limits.sge == penstock::nic::shm::max_sges);
}

TEST_CASE("unknown names and bad values are refused with what there is") {
  const auto message = [](const auto& r) { return r ? std::string("none") : r.error().message(); };
  CHECK(message(parse_personality("tiny")).find("\"tiny\"") != std::string::npos);
  CHECK(message(parse_personality("tiny")).find("no_inline") != std::string::npos);
  CHECK(message(parse_personality("sge=17")).find("sge=17 is not a number from 1 to 16") !=
        std::string::npos);
  for (const char* bad : {"sge", "sge=", "sge=0", "cqe=12x", "part=x", "receive_wait_ms=60001",
                          "inline=-1", "plain=1", ","})
    CHECK_FALSE(parse_personality(bad).has_value());
  CHECK(message(parse_faults("send=5:FOO")).find("RETRY_EXC_ERR") != std::string::npos);
  CHECK(message(parse_faults("sent=5:FOO")).find("reg_mr") != std::string::npos);
  for (const char* bad :
       {"send", "send=RETRY_EXC_ERR", "send=0:RETRY_EXC_ERR", "send=5", "reg_mr=1:EFOO", "lost=5",
        "lost=101%", "delay=5", "delay=5m", "rate=100", "rate=0Gbit", "gone=0", "gone=3h",
        "port_down=1s:x", "any_order=1", "seed=x"})
    CHECK_FALSE(parse_faults(bad).has_value());
  const auto f = parse_faults("reg_mr=3:ENOMEM,port_down=1s:200ms,gone=12,rate=100Gbit,lost=2.5%");
  REQUIRE(f);
  CHECK(f->calls[1].k == 3);
  CHECK(f->calls[1].code == ENOMEM);
  CHECK(f->port_down.ns == 1'000'000'000);
  CHECK(f->port_down_ns == 200'000'000);
  CHECK(f->gone.sends == 12);
  CHECK(f->ns_per_byte == doctest::Approx(0.08));
  CHECK(f->lost == doctest::Approx(0.025));
}

TEST_CASE("a device that cannot be pretended is not opened") {
  const pretending as("tiny", "");
  ibv_device** list = shm_calls().get_device_list(nullptr);
  errno = 0;
  CHECK(shm_calls().open_device(list[0]) == nullptr);
  CHECK(errno == EINVAL);
  shm_calls().free_device_list(list);
}

TEST_CASE("small limits are told and kept") {
  const pretending as("small,qp=2,mr=2,cq=3,srq=1,reads=1,part=4115", "");
  options o;
  o.cqe = 32;
  o.send_wr = o.recv_wr = 16;
  o.sges = 1;
  o.inline_bytes = 0;
  o.srq_wr = 16;
  o.reads = 1;
  side s(o);
  ibv_device_attr a;
  REQUIRE(s.v.query_device(s.context, &a) == 0);
  CHECK(a.max_qp == 2);
  CHECK(a.max_qp_wr == 16);
  CHECK(a.max_sge == 1);
  CHECK(a.max_cqe == 32);
  CHECK(a.max_srq_wr == 16);
  CHECK(a.max_qp_rd_atom == 1);
  CHECK(a.vendor_part_id == 4115);

  // One more of each is refused, and there is room again when one has gone.
  const auto refused = [](void* made, int with) { return made == nullptr && errno == with; };
  ibv_qp* second = s.new_qp();
  REQUIRE(second != nullptr);
  CHECK(refused(s.new_qp(), ENOMEM));
  CHECK(s.v.destroy_qp(second) == 0);
  second = s.new_qp();
  CHECK(second != nullptr);
  CHECK(s.v.destroy_qp(second) == 0);
  ibv_cq* third = s.v.create_cq(s.context, 32, nullptr, nullptr, 0);
  CHECK(third != nullptr);
  CHECK(refused(s.v.create_cq(s.context, 1, nullptr, nullptr, 0), ENOMEM));
  CHECK(s.v.destroy_cq(third) == 0);
  CHECK(refused(s.v.create_cq(s.context, 33, nullptr, nullptr, 0), EINVAL));
  ibv_srq_init_attr srq{};
  srq.attr = {16, 1, 0};
  CHECK(refused(s.v.create_srq(s.pd, &srq), ENOMEM));
  ibv_mr* mr = s.v.reg_mr(s.pd, s.memory.data(), 4096, 0);
  CHECK(mr != nullptr);
  CHECK(refused(s.v.reg_mr(s.pd, s.memory.data(), 4096, 0), ENOMEM));
  CHECK(s.v.dereg_mr(mr) == 0);

  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = s.send_cq;
  init.qp_type = IBV_QPT_RC;
  for (const ibv_qp_cap cap : {ibv_qp_cap{17, 1, 1, 1, 0}, ibv_qp_cap{1, 17, 1, 1, 0},
                               ibv_qp_cap{1, 1, 2, 1, 0}, ibv_qp_cap{1, 1, 1, 1, 1}}) {
    init.cap = cap;
    CHECK(refused(s.v.create_qp(s.pd, &init), EINVAL));
  }
  init.cap = {16, 16, 1, 1, 0};
  ibv_qp* q = s.v.create_qp(s.pd, &init);
  REQUIRE(q != nullptr);
  CHECK(init.cap.max_inline_data == 0);
  CHECK(s.v.destroy_qp(q) == 0);
}

TEST_CASE("what is sent by a small device arrives, and nothing goes inline") {
  const pretending as("small", "");
  options o;
  o.cqe = 32;
  o.send_wr = o.recv_wr = 16;
  o.sges = 1;
  o.inline_bytes = 0;
  rig::pair p(o);
  CHECK(p.a.send(1, 0, 8, IBV_SEND_SIGNALED | IBV_SEND_INLINE) == EINVAL);
  for (int round = 0; round < 100; ++round) {
    REQUIRE(p.b.receive(7, 0, 8) == 0);
    REQUIRE(p.a.send(1, 0, 8) == 0);
    CHECK(p.a.sent().status == IBV_WC_SUCCESS);
    CHECK(p.b.received().byte_len == 8);
  }
}

TEST_CASE("a shared receive queue is resized with what it holds, and never below that") {
  options o;
  o.srq_wr = 4;
  rig::pair p({}, o);
  const auto resize = [&](std::uint32_t entries) {
    ibv_srq_attr a{};
    a.max_wr = entries;
    return p.b.v.modify_srq(p.b.srq, &a, IBV_SRQ_MAX_WR);
  };
  std::uint64_t next = 0, taken = 0;
  const auto take = [&] {
    REQUIRE(p.a.send(1, 0, 8) == 0);
    CHECK(p.b.received().wr_id == taken++);
  };
  for (int i = 0; i < 3; ++i) REQUIRE(p.b.receive(next++, 0, 8) == 0);
  take();
  take();
  for (int i = 0; i < 3; ++i) REQUIRE(p.b.receive(next++, 0, 8) == 0);
  CHECK(p.b.receive(99, 0, 8) == ENOMEM);
  CHECK(resize(3) == EINVAL);
  CHECK(resize(0) == EINVAL);
  REQUIRE(resize(11) == 0);
  while (next < taken + 11) REQUIRE(p.b.receive(next++, 0, 8) == 0);
  CHECK(p.b.receive(99, 0, 8) == ENOMEM);
  ibv_srq_attr now{};
  REQUIRE(p.b.v.query_srq(p.b.srq, &now) == 0);
  CHECK(now.max_wr == 11);
  while (taken < next - 2) take();
  REQUIRE(resize(2) == 0);
  while (taken < next) take();
}

TEST_CASE("queues keep their length where the device cannot resize them") {
  for (const bool resizes : {false, true}) {
    CAPTURE(resizes);
    const pretending as(resizes ? "" : "no_resize", "");
    options o;
    o.srq_wr = 4;
    rig::pair p({}, o);
    ibv_device_attr a;
    REQUIRE(p.b.v.query_device(p.b.context, &a) == 0);
    CHECK(((a.device_cap_flags & IBV_DEVICE_SRQ_RESIZE) != 0) == resizes);
    ibv_srq_attr longer{};
    longer.max_wr = 8;
    const int expected = resizes ? 0 : EOPNOTSUPP;
    CHECK(p.b.v.modify_srq(p.b.srq, &longer, IBV_SRQ_MAX_WR) == expected);
    CHECK(p.b.v.resize_cq(p.b.recv_cq, 100) == expected);
  }
}

TEST_CASE("an armed queue gives its event for what it holds as the personality says") {
  struct {
    const char* words;
    bool at_arming, at_poll;
  } const rows[] = {{"", false, true},
                    {"armed=held", true, false},
                    {"armed=later", false, false},
                    {"armed=later,armed=left", false, true}};
  for (const auto& row : rows) {
    CAPTURE(row.words);
    const pretending as(row.words, "");
    options o;
    o.channel = true;
    pair p(o);
    const auto event = [&](int ms) {
      pollfd f{p.b.channel->fd, POLLIN, 0};
      if (::poll(&f, 1, ms) != 1) return false;
      ibv_cq* cq;
      void* context;
      REQUIRE(p.b.v.get_cq_event(p.b.channel, &cq, &context) == 0);
      p.b.v.ack_cq_events(cq, 1);
      return true;
    };
    // All four have come, and have their completions, before the queue is armed.
    for (std::uint64_t i = 0; i < 6; ++i) REQUIRE(p.b.receive(i, 0, 8) == 0);
    for (int i = 0; i < 4; ++i) REQUIRE(p.a.send(1, 0, 8) == 0);
    penstock::nic::shm::absorb(penstock::nic::shm::of(p.b.recv_cq));
    REQUIRE(ibv_req_notify_cq(p.b.recv_cq, 0) == 0);
    CHECK(event(row.at_arming ? 2000 : 20) == row.at_arming);
    CHECK(p.b.received().status == IBV_WC_SUCCESS);
    CHECK(event(row.at_poll ? 2000 : 20) == row.at_poll);
    for (int i = 0; i < 3; ++i) CHECK(p.b.received().status == IBV_WC_SUCCESS);
    // One that comes later gives the event in all of them.
    REQUIRE(ibv_req_notify_cq(p.b.recv_cq, 0) == 0);
    REQUIRE(p.a.send(1, 0, 8) == 0);
    CHECK(event(2000));
    CHECK(p.b.received().status == IBV_WC_SUCCESS);
  }
}

TEST_CASE("without shared receive queues none is made") {
  const pretending as("no_srq", "");
  side s;
  ibv_srq_init_attr srq{};
  srq.attr = {1, 1, 0};
  CHECK(s.v.create_srq(s.pd, &srq) == nullptr);
  CHECK(errno == EOPNOTSUPP);
  ibv_device_attr a;
  REQUIRE(s.v.query_device(s.context, &a) == 0);
  CHECK(a.max_srq == 0);
}

TEST_CASE("a queue overruns where the device is to, and waits where it is not") {
  for (const bool overruns : {false, true}) {
    CAPTURE(overruns);
    const pretending as(overruns ? "overrun" : "", "");
    options o;
    o.cqe = 8;
    rig::pair p(o);
    for (int i = 0; i < 20; ++i) {
      REQUIRE(p.b.receive(1, 0, 8) == 0);
      REQUIRE(p.a.send(1, 0, 8, 0) == 0);
    }
    int came = 0;
    ibv_wc wc[20];
    for (int n = 0; (n = ibv_poll_cq(p.b.recv_cq, 20, wc)) > 0;)
      for (int i = 0; i < n; ++i) came += wc[i].status == IBV_WC_SUCCESS ? 1 : 0;
    CHECK(came == (overruns ? 8 : 20));
    if (!overruns) continue;
    ibv_async_event e;
    REQUIRE(p.b.v.get_async_event(p.b.context, &e) == 0);
    CHECK(e.event_type == IBV_EVENT_CQ_ERR);
    p.b.v.ack_async_event(&e);
    CHECK(p.b.state() == IBV_QPS_ERR);
  }
}
