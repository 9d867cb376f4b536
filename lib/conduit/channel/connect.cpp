// Connections, made when first needed: both sides say which queue pairs they have (hello), over a
// UD queue pair that every process has. A hello says all its sender knows, so it may be lost,
// doubled or cross another; who still waits says so and repeats it.
//
//   X: make lanes, hello(want) ->        Y: make lanes, bind them to X's
//   X: bind to Y's, ready      <- hello(bound)
//   X: hello(bound)            ->        Y: ready
//
// A lane is ready here when it is bound here (RTS) and known to be bound there (RTR): then a
// message can be received, and answered, at the other end.
#include <algorithm>
#include <cstring>

#include "lib/base/clock.hpp"
#include "lib/base/cross_process.hpp"
#include "lib/base/shortage.hpp"
#include "lib/base/thread_index.hpp"
#include "lib/conduit/channel/datagrams.hpp"
#include "lib/conduit/engine.hpp"
#include "nic/shm/direct.hpp"

namespace penstock::conduit::PENSTOCK_ABI {
namespace {

constexpr std::uint64_t hello_again_ns = 20'000'000;
constexpr std::uint32_t hello_magic = 0x50454e53;

}  // namespace

/// Travels in one datagram; checked field by field on arrival.
struct hello {
  std::uint32_t magic = hello_magic;
  std::uint32_t from = 0;
  std::uint64_t job = 0;  ///< the job's secret, so that a stranger's datagram is nothing
  std::uint8_t made = 0, bound = 0, want = 0;
  std::uint8_t domain = 0;  ///< the sender's, and the receiver's
  std::uint32_t qpn[lane_count] = {};
  std::uint32_t psn[lane_count] = {};
  std::uint32_t reply_rkey = 0;  ///< verbs path: the sender's chunks, for replies
  std::uint64_t reply_base = 0;
};

status engine::connect(peer& p, unsigned lane) noexcept {
  const std::uint32_t tag = thread_tag();
  if (!p.connecting.try_enter(tag)) return status::busy;
  const std::uint64_t now = now_ns();
  status s = status::not_ready;
  if ((p.ready.load(std::memory_order_relaxed) >> lane & 1) != 0) {
    s = status::busy;  // became ready meanwhile: the caller tries again
  } else {
    const auto need = static_cast<std::uint8_t>(1u << lane | 1u << lane_reply | 1u << lane_request);
    if (p.connect_since_ns == 0) p.connect_since_ns = now;
    if (now - p.connect_since_ns > settings_.connect_timeout_ns)
      fatal(1,
            "rank %u did not answer within %.0f s when a connection was made; is it running? "
            "(PENSTOCK_CONNECT_TIMEOUT)",
            p.rank, static_cast<double>(settings_.connect_timeout_ns) * 1e-9);
    if (auto made = make_lanes(p, need); !made) {
      log(log_level::error, "no queue pair for rank %u: %s", p.rank,
          made.error().message().c_str());
      s = status::device_error;
    } else if (now - p.hello_at_ns > hello_again_ns) {
      say_hello(p, true);
    }
  }
  p.connecting.leave(tag);
  return s;
}

// Makes those of the wanted lanes that are missing; inside connecting.
result<void> engine::make_lanes(peer& p, std::uint8_t wanted) noexcept {
  for (unsigned l = 0; l < lane_count; ++l) {
    if ((wanted >> l & 1) == 0 || (p.made >> l & 1) != 0) continue;
    if (auto r = make_lane(p, l); !r) return r;
    p.made |= static_cast<std::uint8_t>(1u << l);
  }
  return {};
}

void engine::say_hello(peer& p, bool want) noexcept {
  hello h;
  h.from = rank_;
  h.job = job_secret_;
  h.made = p.made;
  h.bound = p.bound;
  h.want = want;
  h.domain = static_cast<std::uint8_t>(p.home->index);
  if (!direct_) {
    h.reply_base = p.home->queues->request_chunks->base();
    h.reply_rkey = p.home->queues->request_chunks->keys().rkey;
  }
  for (unsigned l = 0; l < lane_count; ++l)
    if (p.lanes[l].qp != nullptr) {
      h.qpn[l] = p.lanes[l].qp->qp_num;
      h.psn[l] = p.lanes[l].first_psn;
    }
  p.hello_at_ns = now_ns();
  datagram_port_->send(p.rank, p.address, p.datagram_qp, &h, sizeof h);
}

unsigned engine::poll_datagrams() noexcept {
  unsigned n = 0;
  std::byte bytes[datagrams::max_bytes];
  std::size_t size = 0;
  const std::uint32_t tag = thread_tag();
  const unsigned limit = settings_.sys_limit == 0 ? ~0u : settings_.sys_limit;
  while (n < limit && datagram_port_->receive(bytes, size)) {
    ++n;
    hello h;
    if (size != sizeof h) continue;
    std::memcpy(&h, bytes, sizeof h);
    if (h.magic != hello_magic || h.job != job_secret_ || h.from >= size_ || h.from == rank_ ||
        (h.made & ~all_lanes) != 0 || h.domain >= domain_count_)
      continue;
    peer& p = domains_[h.domain].peers[h.from];
    if (!p.connecting.try_enter(tag)) continue;  // it will be said again
    // Mostly because its process has just died, which the launcher knows better.
    if (auto r = heard_hello(p, h); !r) peer_failed(p, r.error().message().c_str());
    p.connecting.leave(tag);
  }
  return n;
}

// Inside connecting.
result<void> engine::heard_hello(peer& p, const hello& h) noexcept {
  if (auto r = make_lanes(p, h.made); !r) return r;
  if (p.bound == 0) {  // no request can come before the lanes are bound, so nobody reads them yet
    p.reply_base = h.reply_base;
    p.reply_rkey = h.reply_rkey;
    told_peer(&p.reply_base);  // -> write_reply (verbs.cpp)
  }
  const auto fresh = static_cast<std::uint8_t>(h.made & ~p.bound);
  for (unsigned l = 0; l < lane_count; ++l)
    if ((fresh >> l & 1) != 0)
      if (auto r = bind_lane(p, l, h.qpn[l], h.psn[l]); !r) return r;
  p.bound |= fresh;
  constexpr std::uint8_t basic = 1u << lane_request | 1u << lane_reply;
  if ((fresh & basic) != 0 && (p.bound & basic) == basic) attach_peer(p);
  // R2 ready  release p.ready  -> A2 (request paths): the lanes' queue pairs and rings are there
  const auto ready = static_cast<std::uint8_t>(p.bound & h.bound);
  if (direct_ && (ready >> lane_request & 1) != 0 && p.segment_bytes != 0 &&
      p.segment_here == nullptr)
    (void)map_segment(p);
  p.ready.store(static_cast<std::uint8_t>(p.ready.load(std::memory_order_relaxed) | ready),
                std::memory_order_release);
  // R3 ready  release p.stream  -> A3 (direct.cpp)
  if (direct_ && (ready >> lane_request & 1) != 0)
    p.stream.store(p.request_tx, std::memory_order_release);
  if (h.want != 0 || fresh != 0) say_hello(p, false);
  return {};
}

// A queue pair connected to itself, for atomics on own words that the device does for others.
status engine::connect_self() noexcept {
  peer& p = channel(rank_);
  const std::uint32_t tag = thread_tag();
  if (!p.connecting.try_enter(tag)) return status::busy;
  status s = status::ok;
  if (p.made == 0) {
    auto r = make_lanes(p, 1u << lane_rma);
    if (r) r = bind_lane(p, lane_rma, p.lanes[lane_rma].qp->qp_num, p.lanes[lane_rma].first_psn);
    if (!r) {
      log(log_level::error, "no queue pair to itself: %s", r.error().message().c_str());
      s = status::device_error;
    } else {
      // R2 ready  release p.ready  -> A2 (rma.cpp)
      p.ready.store(1u << lane_rma, std::memory_order_release);
    }
  }
  p.connecting.leave(tag);
  return s == status::ok ? status::not_ready : s;
}

// A process shows its memory only to a queue pair that it has bound: not before its hello has said
// so, or a message of it has come. Any thread; the device gives all the same address.
std::byte* engine::map_segment(peer& p) noexcept {
  auto* const here = static_cast<std::byte*>(nic::shm::map_remote(
      p.lanes[lane_request].qp, reinterpret_cast<std::uintptr_t>(p.segment_base), p.segment_bytes,
      p.segment_rkey));
  if (here == nullptr)  // mostly because its process has just died, which the launcher knows better
    peer_failed(p, "its segment cannot be mapped; is its process alive, is there address space?");
  std::atomic_ref(p.segment_here).store(here, std::memory_order_relaxed);
  return here;
}

// Both basic lanes are bound: messages may arrive from now on. Inside connecting; once for each
// peer.
void engine::attach_peer(peer& p) noexcept {
  if (direct_) {
    p.request_tx = nic::shm::direct_tx(p.lanes[lane_request].qp);
    p.request_rx = nic::shm::direct_rx(p.lanes[lane_request].qp);
    p.reply_tx = nic::shm::direct_tx(p.lanes[lane_reply].qp);
    p.reply_rx = nic::shm::direct_rx(p.lanes[lane_reply].qp);
  }
  // Two threads may connect two peers at once: each claims a place, then the count is moved past
  // both.
  domain& d = *p.home;
  const std::uint32_t place = d.placed.fetch_add(1, std::memory_order_relaxed);
  d.order[place] = &p;
  // R1 peer  release connected  -> A1 (poll.cpp)
  while (true) {
    std::uint32_t expected = place;
    if (d.connected.compare_exchange_weak(expected, place + 1, std::memory_order_release,
                                          std::memory_order_relaxed))
      break;
  }
}

result<void> engine::make_lane(peer& p, unsigned l) noexcept {
  ibv_qp_init_attr init{};
  init.qp_context = &p;
  init.qp_type = IBV_QPT_RC;
  init.cap.max_send_sge = 1;
  if (direct_) {
    init.send_cq = init.recv_cq = unused_cq_;
    init.srq = unused_srq_;
    init.cap.max_send_wr = 1;
  } else if (l == lane_rma) {
    transfers_.describe_queue(p, init);
  } else {
    p.home->queues->describe(l == lane_reply  ? queues::reply_side
                             : l == lane_bulk ? queues::bulk_side
                                              : queues::small_side,
                             init);
  }
  ibv_qp* qp = device_.verbs->create_qp(pd_, &init);
  if (qp == nullptr)
    return failure{"ibv_create_qp (lane " + std::to_string(l) + ") on " + device_.name, errno,
                   "fewer processes a host, or a smaller PENSTOCK_OP_OUST_PP"};
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_INIT;
  a.port_num = device_.self.port;
  a.pkey_index = device_.paths.pkey_index;
  a.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                      IBV_ACCESS_REMOTE_ATOMIC;
  if (const int e = device_.verbs->modify_qp(
          qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
      e != 0)
    return failure{"ibv_modify_qp to INIT on " + device_.name, e, what_to_raise(e)};
  p.lanes[l].open(qp, init.cap.max_send_wr, static_cast<std::uint32_t>(ticks()) & 0xffffff);
  if (l == lane_rma)
    transfers_.attach(p);
  else if (!direct_)
    p.home->queues->announce(qp, identity(p.rank, l));
  return {};
}

result<void> engine::bind_lane(peer& p, unsigned l, std::uint32_t qpn, std::uint32_t psn) noexcept {
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_RTR;
  a.path_mtu =
      static_cast<ibv_mtu>(p.address.mtu < device_.self.mtu ? p.address.mtu : device_.self.mtu);
  a.dest_qp_num = qpn;
  a.rq_psn = psn;
  a.max_dest_rd_atomic = transfers_.reads_here();
  a.min_rnr_timer = static_cast<std::uint8_t>(settings_.rnr_timer);
  a.ah_attr = device_.path_to(p.address, nic::flow_of(p.lanes[l].qp->qp_num, qpn));
  if (const int e = device_.verbs->modify_qp(p.lanes[l].qp, &a,
                                             IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
                                                 IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                                 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
      e != 0)
    return failure{"ibv_modify_qp to RTR on " + device_.name, e, what_to_raise(e)};
  a.qp_state = IBV_QPS_RTS;
  a.sq_psn = p.lanes[l].first_psn;
  a.timeout = static_cast<std::uint8_t>(settings_.qp_timeout);
  a.retry_cnt = static_cast<std::uint8_t>(settings_.retry_count);
  a.rnr_retry = static_cast<std::uint8_t>(settings_.rnr_retry);
  a.max_rd_atomic = std::min(transfers_.reads_here(), p.reads);
  if (const int e = device_.verbs->modify_qp(p.lanes[l].qp, &a,
                                             IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
                                                 IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                                 IBV_QP_MAX_QP_RD_ATOMIC);
      e != 0)
    return failure{"ibv_modify_qp to RTS on " + device_.name, e, what_to_raise(e)};
  return {};
}

}  // namespace penstock::conduit::PENSTOCK_ABI
