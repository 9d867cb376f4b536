// Every lane and queue of an engine filled to the brim on a device with small limits, while no
// thread looks at the completion queues. Each queue pair is connected to itself.
#include <doctest/doctest.h>
#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/clock.hpp"
#include "lib/base/settings.hpp"
#include "memreg/memreg.hpp"
#include "nic/device.hpp"
#include "nic/registrar.hpp"
#include "queues/queues.hpp"

using namespace penstock;
using queues::room_share;

namespace {

constexpr std::uint32_t peers = 3, most_cqe = 64;

// Asks until it holds; false after 20 s, which on a busy machine the device's threads do not need.
template <class Holds>
bool in_time(Holds&& holds) {
  const std::uint64_t until = now_ns() + 20'000'000'000;
  for (unsigned i = 1; !holds(); ++i) {
    if (i % 256 != 0) continue;
    if (now_ns() > until) return false;
    ::sched_yield();
  }
  return true;
}

queues::dimensions small() {
  queues::dimensions d;
  d.peers = peers;
  d.credits = 18;
  d.spares = 1;
  d.request_chunks = 16;
  d.reply_chunks = 8;
  d.depth = 16;
  d.max_inline = 64;
  return d;
}

struct rig {
  nic::device device;
  ibv_pd* pd = nullptr;
  std::unique_ptr<nic::registrar_as<memreg::registrar, memreg::registration>> registrar;
  std::unique_ptr<queues::message_queues> q;
  std::vector<std::array<queues::lane, 3>> lanes{peers};  // by side

  explicit rig(const queues::dimensions& size = small(), std::uint32_t cqe = most_cqe,
               const char* personality = "plain") {
    settings s;
    s.device = "shm0";
    s.max_cqe = cqe;
    s.shm_personality = personality;
    auto d = nic::open_device(s);
    REQUIRE(d);
    device = std::move(*d);
    REQUIRE((cqe == 0 || device.limits.max_cqe == static_cast<int>(cqe)));
    pd = device.verbs->alloc_pd(device.context);
    registrar =
        std::make_unique<nic::registrar_as<memreg::registrar, memreg::registration>>(device, pd);
    auto made = queues::message_queues::open(device, pd, *registrar, size);
    REQUIRE_MESSAGE(made, made.error().message());
    q = std::move(*made);
    for (std::uint32_t p = 0; p < peers; ++p)
      for (unsigned s3 = 0; s3 < 3; ++s3)
        lanes[p][s3].open(connected(static_cast<queues::side>(s3)), size.depth, 0, 0,
                          q->signals_all());
  }
  ~rig() {
    for (auto& all : lanes)
      for (auto& l : all) device.verbs->destroy_qp(l.qp);
    q.reset();
    registrar.reset();
    device.verbs->dealloc_pd(pd);
  }

  ibv_qp* connected(queues::side s) {
    ibv_qp_init_attr init{};
    init.qp_type = IBV_QPT_RC;
    q->describe(s, init);
    ibv_qp* const qp = device.verbs->create_qp(pd, &init);
    REQUIRE(qp != nullptr);
    ibv_qp_attr a{};
    a.qp_state = IBV_QPS_INIT;
    a.port_num = device.self.port;
    a.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
    REQUIRE(device.verbs->modify_qp(
                qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);
    a.qp_state = IBV_QPS_RTR;
    a.path_mtu = static_cast<ibv_mtu>(device.self.mtu);
    a.dest_qp_num = qp->qp_num;
    a.min_rnr_timer = 1;
    a.ah_attr = device.path_to(device.self);
    REQUIRE(device.verbs->modify_qp(qp, &a,
                                    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                        IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                                        IBV_QP_MIN_RNR_TIMER) == 0);
    a.qp_state = IBV_QPS_RTS;
    a.timeout = 14;
    a.retry_cnt = 6;
    a.rnr_retry = 7;
    REQUIRE(device.verbs->modify_qp(qp, &a,
                                    IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
                                        IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                        IBV_QP_MAX_QP_RD_ATOMIC) == 0);
    return qp;
  }

  // Posts eight bytes, as a write, a write with an immediate, or a send.
  void post(queues::lane& l, std::uint32_t identity, ibv_wr_opcode op, bool signal) {
    std::uint64_t bytes = 1;
    ibv_sge sge{reinterpret_cast<std::uintptr_t>(&bytes), sizeof bytes, 0};
    ibv_send_wr wr{};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = op;
    wr.send_flags = IBV_SEND_INLINE;
    wr.wr.rdma.remote_addr = q->request_chunks->base();
    wr.wr.rdma.rkey = q->request_chunks->keys().rkey;
    REQUIRE(l.post(wr, identity, {}, signal) == 0);
  }

  // Takes all completions of sends; how many there were.
  std::uint32_t reap() {
    std::uint32_t all = 0;
    ibv_wc wc;
    while (ibv_poll_cq(q->send_cq, 1, &wc) == 1) {
      ++all;
      CHECK(wc.status == IBV_WC_SUCCESS);
      const auto id = static_cast<std::uint32_t>(wc.wr_id >> 32);
      lanes[id / 3][id % 3].complete(static_cast<std::uint32_t>(wc.wr_id), [](queues::holding) {});
      q->send_room.give(1);
    }
    return all;
  }
  // Messages of op on one side, to its peers in turn, until `count` have gone; sends are reaped.
  void send(queues::side s, ibv_wr_opcode op, std::uint32_t count) {
    std::uint32_t i = 0, p = 0;
    REQUIRE(in_time([&] {
      if (q->admits(lanes[p][s], false, room_share::all)) {
        post(lanes[p][s], p * 3 + s, op, false);
        ++i;
      } else {
        (void)reap();
      }
      p = (p + 1) % peers;
      return i == count;
    }));
  }
  [[nodiscard]] bool quiet() const {
    pollfd f{device.context->async_fd, POLLIN, 0};
    return ::poll(&f, 1, 20) == 0;
  }
};

std::uint32_t completions(ibv_cq* cq, std::uint32_t expected) {
  std::uint32_t n = 0;
  ibv_wc wc;
  (void)in_time([&] {
    if (ibv_poll_cq(cq, 1, &wc) == 1) n += wc.status == IBV_WC_SUCCESS ? 1 : 0;
    return n >= expected;
  });
  return ibv_poll_cq(cq, 1, &wc) == 0 ? n : ~0u;
}

}  // namespace

TEST_CASE("signalled sends on all lanes stop at the tickets, and the completion queue holds them") {
  rig r;
  const std::uint32_t tickets = r.q->send_room.tickets();
  REQUIRE(tickets <= most_cqe);
  REQUIRE(tickets < peers * 3 * small().depth);
  for (int round = 0; round < 3; ++round) {
    std::uint32_t posted = 0;
    for (const room_share share : {room_share::requests, room_share::all}) {
      for (bool any = true; any;) {
        any = false;
        for (std::uint32_t p = 0; p < peers; ++p)
          for (unsigned s = 0; s < 3; ++s)
            if (r.q->admits(r.lanes[p][s], true, share)) {
              r.post(r.lanes[p][s], p * 3 + s, IBV_WR_RDMA_WRITE, true);
              ++posted;
              any = true;
            }
      }
      CHECK(posted == (share == room_share::requests ? tickets - tickets / 4 : tickets));
    }
    CHECK(r.quiet());
    std::uint32_t reaped = 0;
    (void)in_time([&] { return (reaped += r.reap()) >= tickets; });
    CHECK(reaped == tickets);
    CHECK(r.q->send_room.free() == static_cast<std::int32_t>(tickets));
  }
}

TEST_CASE(
    "queue pairs that break give back all that they hold, and the completion queue holds it") {
  for (const std::uint32_t cqe :
       {std::uint32_t{0}, most_cqe}) {  // room for those unsignalled; none
    CAPTURE(cqe);
    rig r(small(), cqe, "overrun,inline=64");
    CHECK(r.q->signals_all() == (cqe != 0));
    // Every receive is taken, so that what follows stays on its queue pair.
    r.send(queues::small_side, IBV_WR_SEND, small().small_receives());
    r.send(queues::bulk_side, IBV_WR_SEND, small().bulk_receives());
    r.send(queues::reply_side, IBV_WR_RDMA_WRITE_WITH_IMM, small().reply_receives());
    // Where not all are signalled, three a lane may linger unseen.
    const std::uint32_t unseen = cqe != 0 ? 0 : peers * 3 * 3;
    CHECK(in_time([&] {
      (void)r.reap();
      return r.q->send_room.free() >= static_cast<std::int32_t>(r.q->send_room.tickets() - unseen);
    }));
    std::uint32_t posted = 0;
    for (bool any = true; any;) {
      any = false;
      for (std::uint32_t p = 0; p < peers; ++p)
        for (unsigned s = 0; s < 3; ++s)
          if (r.q->admits(r.lanes[p][s], false, room_share::all)) {
            r.post(r.lanes[p][s], p * 3 + s,
                   s == queues::reply_side ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_SEND, false);
            ++posted;
            any = true;
          }
    }
    if (cqe != 0)
      CHECK(posted == r.q->send_room.tickets());
    else
      CHECK(posted >= peers * 3 * (small().depth - 3));
    for (auto& all : r.lanes)
      for (auto& l : all) {
        ibv_qp_attr a{};
        a.qp_state = IBV_QPS_ERR;
        REQUIRE(r.device.verbs->modify_qp(l.qp, &a, IBV_QP_STATE) == 0);
      }
    std::uint32_t flushed = 0;
    ibv_wc wc;
    (void)in_time([&] {
      if (ibv_poll_cq(r.q->send_cq, 1, &wc) == 1) {
        CHECK(wc.status == IBV_WC_WR_FLUSH_ERR);
        ++flushed;
      }
      return flushed >= posted;
    });
    CHECK(flushed == posted);
    while (!r.quiet()) {  // each queue pair has taken its last message; no queue has overrun
      ibv_async_event e;
      REQUIRE(r.device.verbs->get_async_event(r.device.context, &e) == 0);
      CHECK(e.event_type == IBV_EVENT_QP_LAST_WQE_REACHED);
      r.device.verbs->ack_async_event(&e);
    }
  }
}

TEST_CASE("as many messages as receives are posted fill the queues of what comes, and no more") {
  // The fewest receives that do, on a device that has no longer queues.
  queues::dimensions fewest = small().lean(1);
  fewest.credits = 15;
  fewest.full_cost = 4;
  fewest.words = 0;
  fewest.request_chunks = 15;
  for (const bool tiny : {false, true}) {
    const queues::dimensions d = tiny ? fewest : small();
    rig r(d, tiny ? 0 : most_cqe, tiny ? "small,inline=64" : "plain");
    if (tiny) CHECK(d.small_receives() == static_cast<std::uint32_t>(r.device.limits.max_srq_wr));
    r.send(queues::small_side, IBV_WR_SEND, d.small_receives());
    r.send(queues::bulk_side, IBV_WR_SEND, d.bulk_receives());
    r.send(queues::reply_side, IBV_WR_RDMA_WRITE_WITH_IMM, d.reply_receives());
    CHECK(r.quiet());
    CHECK(completions(r.q->am_cq, d.request_receives()) == d.request_receives());
    CHECK(completions(r.q->reply_cq, d.reply_receives()) == d.reply_receives());
  }
}

TEST_CASE("queues hold all that can come before they are made longer, meanwhile and afterwards") {
  for (const char* personality : {"plain", "no_resize"}) {
    CAPTURE(personality);
    queues::dimensions d = small();
    d.peers = 500;
    d.near = 2;
    d.loan = 1;
    d.credits = 20 + d.peers * d.loan;
    rig r(d, 0, personality);
    const bool longer = std::string_view(personality) == "plain";
    std::uint32_t sent[3] = {};                // by side
    std::uint32_t under_way[2] = {};           // by queue: of requests, of replies
    const auto take = [&](unsigned replies) {  // all that is under way
      const std::uint32_t n = std::exchange(under_way[replies], 0);
      CHECK(completions(replies != 0 ? r.q->reply_cq : r.q->am_cq, n) == n);
    };
    std::uint32_t admitted = d.near;
    for (std::uint32_t room = d.peers_at_start(), before = 0; room != before;) {
      CAPTURE(room);
      for (; admitted < room; ++admitted) REQUIRE(r.q->admit_peer());
      const queues::dimensions now = d.for_peers(room);
      if (longer) {
        CHECK(r.q->send_cq->cqe == static_cast<int>(now.send_entries(r.device.limits, false)));
        CHECK(r.q->reply_cq->cqe == static_cast<int>(now.reply_receives()));
        CHECK(r.q->am_cq->cqe == static_cast<int>(now.request_receives()));
      }
      CHECK(r.q->send_room.tickets() == (longer ? now : d).send_completions(r.device.limits));
      // As many messages as receives; the last ones stay where the next step finds them.
      const std::uint32_t most[] = {now.small_receives(), now.reply_receives(),
                                    now.bulk_receives()};
      for (const auto side : {queues::small_side, queues::bulk_side, queues::reply_side}) {
        const unsigned replies = side == queues::reply_side;
        while (sent[side] < most[side]) {
          const std::uint32_t n = std::min(most[side] - sent[side], 64u);
          take(replies);
          r.send(side, replies != 0 ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_SEND, n);
          sent[side] += n, under_way[replies] += n;
        }
      }
      CHECK(r.quiet());
      before = std::exchange(room, std::min(room * 2, d.peers));
    }
    CHECK(admitted == d.peers);
    take(0);
    take(1);
  }
}

TEST_CASE("ranks that answer nothing leave chunks to others, and the last of them to transfers") {
  const rig r;
  queues::chunk_pool& pool = *r.q->request_chunks;
  std::vector<std::uint32_t> held[5];
  std::uint32_t left = pool.chunks();
  const auto fill = [&](std::uint32_t rank) {
    while (const auto c = pool.take_for(rank)) {
      pool.lend(*c, rank);
      held[rank].push_back(*c);
    }
    return static_cast<std::uint32_t>(held[rank].size());
  };
  for (std::uint32_t rank = 0; rank < 4; ++rank) {  // log2 of 16
    CAPTURE(rank);
    const std::uint32_t n = fill(rank);
    CHECK(n >= 1);
    CHECK(n <= (left + 1) / 2);
    left -= n;
  }
  CHECK(fill(4) == 0);
  const auto transfer = pool.take();
  REQUIRE(transfer);
  pool.give(*transfer);
  for (const std::uint32_t c : held[0]) {
    CHECK(pool.settle(c, 0));
    pool.give(c);
  }
  CHECK(fill(4) >= 1);
  CHECK(held[4].size() <= pool.chunks() / 2);
}

TEST_CASE("one rank alone has all chunks but those for transfers") {
  queues::dimensions d = small();
  d.peers = 1;
  const rig r(d);
  queues::chunk_pool& pool = *r.q->request_chunks;
  std::uint32_t n = 0;
  for (; const auto c = pool.take_for(0); ++n) pool.lend(*c, 0);
  CHECK(n == pool.chunks() - 1);
  CHECK(pool.take());
  CHECK_FALSE(pool.take());
}
