// No memory in the calls that make objects and connect them: each of their allocations fails in
// turn. The call answers ENOMEM, throws nothing, and keeps nothing: it then succeeds, messages go
// through what it has made, and nothing of it keeps other objects busy.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nic/shm/boundary.hpp"
#include "nic/shm/observer.hpp"
#include "nic/shm/qp.hpp"
#include "nic/shm/traffic.hpp"
#include "nic/shm/xrc.hpp"
#include "nic/tcp/network.hpp"
#include "test/nic/failing_memory.hpp"
#include "test/nic/pretence.hpp"

namespace shm = penstock::nic::shm;
using failing_memory::asks_in_vain, failing_memory::fail_each, failing_memory::none,
    failing_memory::to_failure;

namespace {

/// A side each of whose objects has been destroyed, and made again in spite of failures.
struct poor_side : rig::side {
  ibv_ah* ah = nullptr;

  explicit poor_side(const rig::options& opts) : side(opts) {
    const std::uint32_t cq_place = send_cq->handle, mr_place = mr->handle;
    const std::uint32_t qp_place = shm::of(qp).index, srq_place = srq != nullptr ? srq->handle : 0;
    const std::uint64_t ring = shm::of(qp).ring;
    CHECK_FALSE(asks_in_vain([&] { return v.destroy_qp(std::exchange(qp, nullptr)); }));
    CHECK_FALSE(asks_in_vain([&] { return v.dereg_mr(std::exchange(mr, nullptr)); }));
    if (srq != nullptr)
      CHECK_FALSE(asks_in_vain([&] { return v.destroy_srq(std::exchange(srq, nullptr)); }));
    CHECK_FALSE(asks_in_vain([&] { return v.destroy_cq(std::exchange(recv_cq, nullptr)); }));
    CHECK_FALSE(asks_in_vain([&] { return v.destroy_cq(std::exchange(send_cq, nullptr)); }));
    if (channel != nullptr)
      CHECK_FALSE(
          asks_in_vain([&] { return v.destroy_comp_channel(std::exchange(channel, nullptr)); }));
    CHECK_FALSE(asks_in_vain([&] { return v.dealloc_pd(std::exchange(pd, nullptr)); }));
    pd = fail_each([&] { return v.alloc_pd(context); });
    if (o.channel) channel = fail_each([&] { return v.create_comp_channel(context); });
    send_cq = fail_each([&] { return v.create_cq(context, o.cqe, this, nullptr, 0); });
    recv_cq = fail_each([&] { return v.create_cq(context, o.cqe, this, channel, 0); });
    if (o.srq_wr != 0) {
      ibv_srq_init_attr a{};
      a.attr = {o.srq_wr, o.sges, 0};
      srq = fail_each([&] { return v.create_srq(pd, &a); });
      CHECK(srq->handle == srq_place);
    }
    mr = fail_each([&] {
      return v.reg_mr(pd, memory.data(), memory.size(),
                      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    });
    qp = fail_each([&] { return new_qp(); });
    CHECK(send_cq->handle == cq_place);
    CHECK(mr->handle == mr_place);
    CHECK(shm::of(qp).index == qp_place);
    CHECK(shm::of(qp).ring == ring);
    CHECK(v.destroy_qp(fail_each([&] { return new_qp(); })) == 0);  // lists grow for a second one
    ibv_mw* const window =
        opts.tcp ? nullptr : fail_each([&] { return ibv_alloc_mw(pd, IBV_MW_TYPE_2); });
    if (window != nullptr) CHECK_FALSE(asks_in_vain([&] { return ibv_dealloc_mw(window); }));
  }
  ~poor_side() {
    if (ah != nullptr) CHECK(v.destroy_ah(ah) == 0);
  }
  poor_side(const poor_side&) = delete;
  poor_side& operator=(const poor_side&) = delete;

  void meet(const side& to) {
    const auto begin_anew = [&] {
      REQUIRE(set_state(IBV_QPS_RESET) == 0);
      REQUIRE(to_init(qp) == 0);
    };
    begin_anew();
    const auto meets = [&] {
      const int e = to_rtr(qp, to.gid, to.qp->qp_num);
      return e == 0 && to_failure == none ? ENOMEM : e;  // it has failed, and asked its peer again
    };
    if (o.type == IBV_QPT_UD)
      CHECK(to_rtr(qp, to.gid, to.qp->qp_num) == 0);
    else
      CHECK(fail_each(meets, begin_anew) == 0);
    CHECK(to_rts(qp) == 0);
    ibv_ah_attr a = path(to.gid);
    ah = fail_each([&] { return v.create_ah(pd, &a); });
  }
  void talk(side& to) {
    const auto address = [&](ibv_send_wr& wr) { wr.wr.ud = {ah, to.qp->qp_num, 0x1234}; };
    REQUIRE(to.receive(7, 0, 256) == 0);
    REQUIRE(post(8, IBV_WR_SEND, 0, 64, IBV_SEND_SIGNALED, address) == 0);
    CHECK(to.received().status == IBV_WC_SUCCESS);
    CHECK(sent().status == IBV_WC_SUCCESS);
  }
};

void make_and_talk(rig::options o) {
  rig::side to(o);
  poor_side from(o);
  from.meet(to);
  to.connect(from);
  from.talk(to);
  if (o.tcp) return;  // whose peer is told by a message
  CHECK_FALSE(
      asks_in_vain([&] { return to.set_state(IBV_QPS_RESET); }));  // a peer writes to its ring
  if (o.type != IBV_QPT_UD) CHECK(fail_each([&] { return to.to_init(to.qp); }) == 0);
}

}  // namespace

TEST_CASE("every call that makes an object or connects it is refused where there is no memory") {
  rig::options o;
  SUBCASE("RC") {}
  SUBCASE("RC with a shared receive queue and a channel") {
    o.srq_wr = 16;
    o.channel = true;
  }
  SUBCASE("UC") { o.type = IBV_QPT_UC; }
  SUBCASE("UD") { o.type = IBV_QPT_UD; }
  SUBCASE("tcp0, RC") { o.tcp = true; }
  SUBCASE("tcp0, UD") {
    o.tcp = true;
    o.type = IBV_QPT_UD;
  }
  make_and_talk(o);
}

TEST_CASE("the same of a device that is told to fail, later") {
  const rig::pretending later("", "send=1000000:RETRY_EXC_ERR");
  make_and_talk({});
}

TEST_CASE("the same of a watched device, which counts only queue pairs that there are") {
  const std::string file = "/tmp/penstock-no-memory-" + std::to_string(::getpid());
  const shm::traffic_file* counts = shm::traffic_file::map(file.c_str(), true);
  REQUIRE(counts != nullptr);
  ::setenv("PENVERBS_STATS", file.c_str(), 1);
  rig::options o;
  o.opened = [](ibv_context* c) {
    shm::of(c).watched = shm::observer::of_environment(shm::of(c));
    shm::fill_operations(c->ops, shm::of(c));
  };
  make_and_talk(o);
  ::unsetenv("PENVERBS_STATS");
  ::unlink(file.c_str());
  CHECK(counts->count() == 4);
}

TEST_CASE("a device for which there is no memory is not opened") {
  const auto* v = &rig::shm_calls();
  SUBCASE("shm0") {}
  SUBCASE("tcp0") { v = &penstock::nic::tcp_calls(); }
  ibv_device** list = v->get_device_list(nullptr);
  ibv_context* const opened = fail_each([&] { return v->open_device(list[0]); });
  v->free_device_list(list);
  CHECK_FALSE(asks_in_vain([&] { return v->close_device(opened); }));
}

TEST_CASE(
    "tcp0: without memory for what goes out a connection breaks, and the next one brings it") {
  rig::options o;
  o.tcp = true;
  std::optional<rig::pair> p;
  const auto meets = [](rig::side& s) {
    CHECK(rig::side::empty(s.recv_cq));
    return static_cast<const penstock::nic::tcp::half&>(*shm::of(s.qp).way).met;
  };
  // One that its peer had to ask for once more has sent something, and kept the memory for it.
  const auto first_asks_in_vain = [&](auto&& call) {
    for (int tries = 0; tries < 50; ++tries) {
      p.emplace(o);
      REQUIRE(rig::wait_for([&] { return meets(p->a) && meets(p->b); }));
      REQUIRE(p->b.receive(7, 0, 256) == 0);
      if (asks_in_vain(call)) return true;
    }
    return false;
  };
  const auto post = [&] { return p->a.send(8, 0, 64); };
  SUBCASE("a request") { REQUIRE(first_asks_in_vain(post)); }
  SUBCASE("that a queue pair leaves, by RESET") {
    REQUIRE(first_asks_in_vain([&] { return p->b.set_state(IBV_QPS_RESET); }));
    REQUIRE(p->b.to_init(p->b.qp) == 0);
    p->b.connect(p->a);
    REQUIRE(p->b.receive(7, 0, 256) == 0);
    REQUIRE(post() == 0);
  }
  SUBCASE("that a queue pair leaves, as it is destroyed") {
    REQUIRE(first_asks_in_vain([&] { return p->b.v.destroy_qp(std::exchange(p->b.qp, nullptr)); }));
    p->b.make_qp();
    REQUIRE(p->a.set_state(IBV_QPS_RESET) == 0);
    REQUIRE(p->a.to_init(p->a.qp) == 0);
    p->b.connect(p->a);
    p->a.connect(p->b);
    REQUIRE(p->b.receive(7, 0, 256) == 0);
    REQUIRE(post() == 0);
  }
  CHECK(p->b.received().status == IBV_WC_SUCCESS);
  CHECK(p->a.sent().status == IBV_WC_SUCCESS);
}

TEST_CASE("a region gets other memory, or keeps its own where there is no memory for the change") {
  rig::side s;
  std::vector<std::byte> other(8192);
  const auto change = [&] {
    const int e = shm::rereg_mr(s.mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, other.data(),
                                other.size(), 0);
    CHECK((s.mr->addr == other.data()) == (e == 0));
    return e;
  };
  CHECK(fail_each(change) == 0);
  ibv_sge all{reinterpret_cast<std::uint64_t>(other.data()), 8192, s.mr->lkey};
  CHECK_FALSE(asks_in_vain(
      [&] { return shm::advise_mr(s.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, 0, &all, 1); }));
}

TEST_CASE("domains, queues and queue pairs of XRC are refused where there is no memory") {
  rig::side s;
  ibv_cq* const before = s.v.create_cq(s.context, 1, nullptr, nullptr, 0);
  const std::uint32_t cq_place = before->handle;
  CHECK(s.v.destroy_cq(before) == 0);
  ibv_xrcd_init_attr x{IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, -1, O_CREAT};
  ibv_xrcd* const domain = fail_each([&] { return shm::c_call<shm::open_xrcd>(s.context, &x); });
  ibv_srq_init_attr_ex q{};
  q.attr = {16, 2, 0};
  q.comp_mask =
      IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
  q.srq_type = IBV_SRQT_XRC;
  q.pd = s.pd;
  q.xrcd = domain;
  q.cq = s.recv_cq;
  ibv_srq* const first = fail_each([&] { return shm::c_call<shm::create_srq_ex>(s.context, &q); });
  ibv_srq* const second = fail_each([&] { return shm::c_call<shm::create_srq_ex>(s.context, &q); });
  CHECK(second->handle == first->handle + 1);
  ibv_qp_init_attr r{};
  r.qp_type = IBV_QPT_XRC_RECV;
  ibv_qp* const to = fail_each(
      [&] { return shm::c_call<shm::create_xrc_receiver>(s.context, &r, shm::of(domain)); });
  CHECK_FALSE(asks_in_vain([&] { return s.v.destroy_qp(to); }));
  CHECK(shm::close_xrcd(domain) == EBUSY);
  CHECK_FALSE(asks_in_vain([&] { return s.v.destroy_srq(first); }));
  CHECK(s.v.destroy_srq(second) == 0);
  CHECK(shm::of(s.recv_cq).domains.empty());
  CHECK_FALSE(asks_in_vain([&] { return shm::close_xrcd(domain); }));
  ibv_cq* const after = s.v.create_cq(s.context, 1, nullptr, nullptr, 0);
  CHECK(after->handle == cq_place);
  CHECK(s.v.destroy_cq(after) == 0);
}

TEST_CASE("queues grow, or stay as they are where there is no memory") {
  rig::options o;
  o.srq_wr = 16;
  rig::side s(o);
  CHECK(fail_each([&] { return s.v.resize_cq(s.send_cq, 1000); }) == 0);
  ibv_srq_attr a{1000, 0, 0};
  CHECK(fail_each([&] { return s.v.modify_srq(s.srq, &a, IBV_SRQ_MAX_WR); }) == 0);
  CHECK(s.v.query_srq(s.srq, &a) == 0);
  CHECK(a.max_wr == 1000);
}
