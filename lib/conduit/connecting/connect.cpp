// Connections are made when they are first needed: both sides say which queue pairs they have, in a
// datagram (hello) over a UD queue pair that every process has. A hello says all that its sender
// knows, so it may be lost or doubled, or cross another one. A side that still waits for the other
// repeats its hello, with `want` set.
//
//   X: make lanes, hello(want) ->        Y: make lanes, if possible those that X does not need yet;
//                                           bind them to X's
//   X: bind to Y's, ready      <- hello(bound)
//   X: hello(bound)            ->        Y: ready
//
// A lane is ready here when it is bound here (RTS) and known to be bound there (RTR): then the
// other end can receive a message and answer it.
//
// The connector's thread (connector.hpp) alone runs all of this.
#include <algorithm>
#include <cerrno>
#include <span>
#include <utility>

#include "lib/base/assert.hpp"
#include "lib/base/clock.hpp"
#include "lib/base/cross_process.hpp"
#include "lib/base/log.hpp"
#include "lib/base/probes.hpp"
#include "lib/base/shortage.hpp"
#include "lib/conduit/connecting/connections.hpp"
#include "lib/conduit/connecting/hello.hpp"
#include "nic/shm/direct.hpp"

namespace penstock::conduit::PENSTOCK_ABI {
namespace {

std::uint64_t secret_of(const std::string& name) noexcept {
  std::uint64_t h = 14695981039346656037ull;
  for (const char c : name) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  return h;
}

}  // namespace

connections::connections(core& c) noexcept
    : core_(c), job_secret_(secret_of(c.membership().name())) {}

result<void> connections::open() {
  nic::device& dev = core_.device();
  arrivals_ = dev.verbs->create_comp_channel(dev.context);
  if (arrivals_ == nullptr)
    return failure{"ibv_create_comp_channel for connections on " + dev.name, errno,
                   what_to_raise(errno)};
  // Datagrams of all other processes may come at once; one that is lost is sent again.
  const auto most = static_cast<std::uint32_t>(
      std::clamp(std::min(dev.limits.max_qp_wr, dev.limits.max_cqe), 16, 1024));
  auto port = datagrams::open(
      dev, core_.pd(), std::clamp(core_.size() * 2 * core_.domain_count(), 16u, most), arrivals_);
  if (!port) return port.error();
  datagram_port_ = std::move(*port);
  if (gets_thread_domain(core_.domain_count()))
    for (domain& d : std::span(core_.domains(), core_.domain_count()))
      d.alone = nic::thread_domain(dev, core_.pd());
  return {};
}

result<void> connections::start(bool parts) {
  parts_ = parts;
  auto c = connector::start(*this, core_, arrivals_);
  if (!c) return c.error();
  connector_ = std::move(*c);
  return {};
}

void connections::close() noexcept {
  stop();
  for (peer& p : core_.all_begun())
    for (unsigned l = 0; l < lane_count; ++l)
      if (p.lanes[l].qp != nullptr) core_.device_of(p, l).verbs->destroy_qp(p.lanes[l].qp);
  datagram_port_.reset();
  if (arrivals_ != nullptr) core_.device().verbs->destroy_comp_channel(arrivals_);
}

// By queue pairs a start loan by which a Medium of full size goes at once would else meet no lane
// for it; where loans are smaller, such a Medium is offered. And the device has enough queue pairs
// even if all processes of the host have all lanes to all ranks.
std::uint8_t connections::later_lanes(const peer& p, bool foreseen) const noexcept {
  const credit::config& c = core_.credit_config();
  const std::uint32_t left = c.start_may_grow() ? credit::offer_reserve : 0;
  const bool plenty = std::uint64_t{core_.size()} * lane_count * core_.membership().host_size() <=
                      static_cast<std::uint64_t>(core_.device().limits.max_qp);
  const bool bulk = p.posts() && plenty && p.home->queues->size.space == 0 &&
                    (foreseen || !c.flow_control || c.credits_per_peer >= c.highest_cost + left);
  return bulk ? 1u << lane_bulk : 0;
}

// Makes those of the wanted lanes that are missing.
result<void> connections::make_lanes(connecting, peer& p, std::uint8_t wanted) noexcept {
  const std::uint8_t before = p.made.load(std::memory_order_relaxed);
  if (before == 0 && p.rank != core_.rank())
    if (auto r = p.home->met.meet(p.rank, core_.room_for_loan(*p.home, p.rank)); !r) return r;
  if (p.posts() && p.rank != core_.rank() && p.placed == nullptr) {
    auto placed = placed_messages::begin(*p.home->queues);
    if (!placed) return placed.error();
    p.placed = std::move(*placed);
  }
  result<void> made;
  for (unsigned l = 0; l < lane_count; ++l) {
    const auto bit = static_cast<std::uint8_t>(1u << l);
    if ((wanted & bit) == 0 || (p.made.load(std::memory_order_relaxed) & bit) != 0) continue;
    if (made = make_lane(p, l); !made) break;
    // R7 made  release p.made  -> A7 (setup.cpp, rma_queue.cpp): the lane is there
    p.made.store(static_cast<std::uint8_t>(p.made.load(std::memory_order_relaxed) | bit),
                 std::memory_order_release);
  }
  // The table of queue pairs comes last: a thread that finds a message's queue pair there also
  // finds the lane for its reply made.
  const auto fresh = static_cast<std::uint8_t>(p.made.load(std::memory_order_relaxed) & ~before);
  for (unsigned l = 0; l < lane_rma && p.posts(); ++l)
    if ((fresh >> l & 1) != 0) p.home->queues->announce(p.lanes[l].qp, identity(p.rank, l));
  return made;
}

// Destroys p's queue pairs, on which nothing is under way; those of messages may be known by
// number.
void connections::unmake_lanes(peer& p) noexcept {
  PENSTOCK_ASSERT(p.ready.load(std::memory_order_relaxed), ==, 0);
  p.made.store(0, std::memory_order_relaxed);
  for (unsigned l = 0; l < lane_count; ++l)
    if (ibv_qp* const qp = p.lanes[l].qp; qp != nullptr) {
      core_.device_of(p, l).verbs->destroy_qp(qp);
      p.lanes[l].close();
    }
}

void connections::say_hello(connecting in, peer& p, bool want, bool please) noexcept {
  PENSTOCK_ASSERT(core_.has_begun(p), ==, true);
  PENSTOCK_ASSERT(p.rank, !=, core_.rank());
  hello h;
  h.from = core_.rank();
  h.job = job_secret_;
  h.made = p.made.load(std::memory_order_relaxed);
  h.needed = p.side[in].needed;
  h.bound = p.side[in].bound;
  h.want = want;
  h.domain = static_cast<std::uint8_t>(p.home->index);
  h.generation = p.side[in].generation;
  h.ask = ask_to_say(in, p);
  h.answer = vote_on(in, p);
  h.lowered = p.home->met.was_lowered(p.rank);
  h.please = please;
  if (p.posts()) {
    h.buffers_base = p.home->queues->request_chunks->base();
    h.buffers_rkey = p.home->queues->request_chunks->keys().rkey;
    if (p.placed != nullptr) {
      h.block_base = reinterpret_cast<std::uintptr_t>(p.placed->block);
      h.block_rkey = p.home->queues->blocks_rkey();
      h.space_bytes = p.home->queues->size.space;
    }
  } else {
    core_.large().where(h.buffers_base, h.buffers_rkey);
  }
  for (unsigned l = 0; l < lane_count; ++l)
    if (p.lanes[l].qp != nullptr) {
      h.qpn[l] = p.lanes[l].qp->qp_num;
      h.psn[l] = p.lanes[l].first_psn;
    }
  p.side[in].hello_at_ns = now_ns();
  datagram_port_->send(p.rank, p.address, p.datagram_qp, &h, sizeof h);
}

// Takes a datagram, which anybody may have sent: it is dropped unless every field can be.
void connections::hear_datagram(connecting in, const connector& by, const std::byte* bytes,
                                std::size_t size) noexcept {
  const auto h =
      hello_in(bytes, size, {job_secret_, core_.rank(), core_.size(), core_.domain_count()});
  if (!h) return;
  peer& p = core_.begun(core_.domains()[h->domain].peers[h->from]);
  const auto heard = heard_hello(in, p, *h);
  // A time-out means that the peer was stopped while its device was asked something. It is alive,
  // and when it goes on, one of the two says hello again.
  if (heard || heard.error().code == ETIMEDOUT || by.hushed()) return;
  // Its process has ended. Where the launcher tells of no death, the peer has left, and this
  // process could not be told, since it was stopped, or did not run, at that time.
  const int e = heard.error().code;
  const bool near = core_.device_of(p, lane_request).shared_memory;
  const bool gone = near && nic::shm::means_gone(e) && !core_.ends_soon();
  if (gone || core_.membership().has_left(p.rank)) return core_.up().note_gone(core_.self(), p);
  // Refused calls, and shortages that have lasted, are this process's own.
  if (near && !nic::shm::means_gone(e))
    fatal(1, "no connection to rank %u: %s", p.rank, heard.error().message().c_str());
  core_.peer_failed(p, heard.error().message().c_str());
}

result<void> connections::heard_hello(connecting in, peer& p, const hello& h) noexcept {
  if (p.posts() && !hear_parting(in, p, h)) return {};
  const auto needed = static_cast<std::uint8_t>(h.made & (h.needed | basic_lanes));
  if (auto r = make_lanes(in, p, needed); !r) return r;
  if (auto r = make_lanes(in, p, h.made); !r)
    log(log_level::debug, "no queue pair for full-size messages of rank %u: %s", p.rank,
        r.error().message().c_str());
  if (p.side[in].bound ==
      0) {  // no request can come before a lane is bound, so no thread reads these yet
    p.buffers_base = h.buffers_base;
    p.buffers_rkey = h.buffers_rkey;
    if (p.placed != nullptr) p.placed->heard(h.block_base, h.block_rkey, h.space_bytes);
    tsan_tell_peer(&p.buffers_base);  // -> write_reply (verbs_path/reply.cpp)
  }
  const auto fresh = static_cast<std::uint8_t>(h.made & p.made.load(std::memory_order_relaxed) &
                                               ~p.side[in].bound);
  for (unsigned l = 0; l < lane_count; ++l)
    if ((fresh >> l & 1) != 0) {
      if (auto r = bind_lane(p, l, h.qpn[l], h.psn[l]); !r) return r;
      PENSTOCK_ASSERT(p.side[in].bound >> l & 1, ==, 0);
      p.side[in].bound |= static_cast<std::uint8_t>(1u << l);
    }
  if (!p.side[in].connected && (p.side[in].bound & basic_lanes) == basic_lanes) {
    p.side[in].connected = true;
    if (p.posts()) {
      // relaxed, both: only this thread and reports read them
      connections_.fetch_add(1, std::memory_order_relaxed);
      connections_made_.fetch_add(1, std::memory_order_relaxed);
      p.side[in].used_ns = now_ns();
    }
    if (!std::exchange(p.side[in].attached, true)) {
      // relaxed: the release of R2 carries it
      if (h.lowered != 0) p.lowered.store(true, std::memory_order_relaxed);
      core_.up().attached(core_.self(), p);
    }
  }
  // Bound are lanes that are made; those of messages that are known by number, too.
  PENSTOCK_ASSERT(p.side[in].bound & ~p.made.load(std::memory_order_relaxed), ==, 0);
  const auto ready = static_cast<std::uint8_t>(p.side[in].bound & h.bound);
  if ((ready >> lane_request & 1) != 0)
    if (auto r = core_.up().reached(core_.self(), p); !r) return r;
  const auto fresh_ready =
      static_cast<std::uint8_t>(ready & ~p.ready.load(std::memory_order_relaxed));
  // R2 ready  release p.ready  -> A2 (connections.hpp, connector.cpp, peer.hpp, rma_queue.cpp): the
  // lanes' queue pairs and rings are there
  p.ready.store(static_cast<std::uint8_t>(p.ready.load(std::memory_order_relaxed) | ready),
                std::memory_order_release);
  if (fresh_ready != 0) PENSTOCK_PROBE(connection, p.rank, h.domain, fresh_ready);
  if (fresh_ready != 0 && core_.drawn() != nullptr)
    core_.drawn()->apart("connection", p.rank, p.side[in].awaited != 0 ? p.side[in].since_ns : 0);
  if (h.want != 0 || fresh != 0) say_hello(in, p, false);
  return {};
}

// Connects a queue pair to itself, for this process's atomics on words of its own segment: the
// device must do them, since it does those of the other processes.
result<void> connections::connect_self(connecting in, peer& p) noexcept {
  if (auto r = make_lanes(in, p, 1u << lane_rma); !r) return r;
  if (auto r = bind_lane(p, lane_rma, p.lanes[lane_rma].qp->qp_num, p.lanes[lane_rma].first_psn);
      !r)
    return r;
  // R2 ready  release p.ready  -> A2 (rma_queue.cpp)
  p.ready.store(1u << lane_rma, std::memory_order_release);
  return {};
}

result<void> connections::make_lane(peer& p, unsigned l) noexcept {
  ibv_qp_init_attr init{};
  init.qp_context = &p;
  init.qp_type = IBV_QPT_RC;
  init.cap.max_send_sge = 1;
  core_.up().describe_lane(core_.self(), p, l, init);
  nic::device& dev = core_.device_of(p, l);
  ibv_pd* const pd = core_.pd_of(p, l);
  // A device may grant more; completion queues are made for what was asked for.
  const std::uint32_t depth = init.cap.max_send_wr;
  ibv_qp* qp = dev.verbs->create_qp(pd, &init);
  if (qp == nullptr)
    return failure{"ibv_create_qp (lane " + std::to_string(l) + ") on " + dev.name, errno,
                   "fewer processes a host, or a smaller PENSTOCK_OP_OUST_PP"};
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_INIT;
  a.port_num = dev.self.port;
  a.pkey_index = dev.paths.pkey_index;
  a.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                      IBV_ACCESS_REMOTE_ATOMIC;
  if (const int e = dev.verbs->modify_qp(
          qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
      e != 0)
    return failure{"ibv_modify_qp to INIT on " + dev.name, e, what_to_raise(e)};
  PENSTOCK_ASSERT(p.lanes[l].qp == nullptr, ==, true);
  p.lanes[l].open(qp, std::min(depth, init.cap.max_send_wr),
                  static_cast<std::uint32_t>(ticks()) & 0xffffff, p.lanes[l].posted(),
                  p.posts() && p.home->queues->signals_all(),
                  p.home->alone.lock_free() && !core_.is_near(p, l) ? &p.home->posting : nullptr);
  core_.up().lane_made(core_.self(), p, l);
  return {};
}

result<void> connections::bind_lane(peer& p, unsigned l, std::uint32_t qpn,
                                    std::uint32_t psn) noexcept {
  nic::device& dev = core_.device_of(p, l);
  const nic::address& there = core_.is_near(p, l) ? p.near_address : p.address;
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_RTR;
  a.path_mtu = static_cast<ibv_mtu>(std::min(there.mtu, dev.self.mtu));
  a.dest_qp_num = qpn;
  a.rq_psn = psn;
  a.max_dest_rd_atomic = core_.reads();
  a.min_rnr_timer = static_cast<std::uint8_t>(core_.options().rnr_timer);
  a.ah_attr = dev.path_to(there, nic::flow_of(p.lanes[l].qp->qp_num, qpn));
  if (const int e = dev.verbs->modify_qp(p.lanes[l].qp, &a,
                                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
                                             IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                             IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
      e != 0)
    return failure{"ibv_modify_qp to RTR on " + dev.name, e, what_to_raise(e)};
  a.qp_state = IBV_QPS_RTS;
  a.sq_psn = p.lanes[l].first_psn;
  a.timeout = static_cast<std::uint8_t>(core_.options().qp_timeout);
  a.retry_cnt = static_cast<std::uint8_t>(core_.options().retry_count);
  // Without credits a receiver is not ready whenever it does not poll: that is no fault of its.
  constexpr std::uint8_t for_ever = 7;
  a.rnr_retry = core_.options().flow_control ? static_cast<std::uint8_t>(core_.options().rnr_retry)
                                             : for_ever;
  a.max_rd_atomic = std::min(core_.reads(), p.reads);
  if (const int e =
          dev.verbs->modify_qp(p.lanes[l].qp, &a,
                               IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                   IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
      e != 0)
    return failure{"ibv_modify_qp to RTS on " + dev.name, e, what_to_raise(e)};
  return {};
}

}  // namespace penstock::conduit::PENSTOCK_ABI
