// The queues of this path: how they are opened and connected, and how the code finds out that one
// is empty or its peer unreachable.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "lib/base/clock.hpp"
#include "lib/conduit/verbs_path/verbs_path_inl.hpp"

namespace penstock::conduit::PENSTOCK_ABI {
result<void> verbs_path::open(ibv_comp_channel* bell) {
  const settings& s = c_.options();
  for (const auto& [name, most] :
       {std::pair("MSG_LIMIT", s.msg_limit), std::pair("AM_OUST_LIMIT", s.am_oust_limit),
        std::pair("SB_CHUNKS", s.sb_chunks), std::pair("RPL_CHUNKS", s.rpl_chunks),
        std::pair("LONG_DEPTH", s.long_depth), std::pair("AM_SPARES", s.am_spares)})
    if (most != 0 && most < c_.domain_count())
      return failure{std::string("PENSTOCK_") + name + "=" + std::to_string(most) +
                         " is below PENSTOCK_DOMAIN_COUNT=" + std::to_string(c_.domain_count()) +
                         ", and each domain needs one at least",
                     0, "raise the first or lower the second"};
  long_depth_ = s.long_depth / c_.domain_count();
  max_inline_ = c_.max_inline();
  short_inline_ = std::min(max_inline_, wire::credit_bytes);
  const queues::dimensions size = c_.queue_dimensions(c_.size(), bell != nullptr, c_.credit_room());
  const std::uint32_t most = size.most_peers(c_.device().limits);
  if (c_.rank() == 0 && most < size.peers && most >= size.peers_at_start())
    log(log_level::warning,
        "the queues of %s have room for %u of the %u other ranks; requests to more fail: lower "
        "PENSTOCK_CRED_PER_NODE",
        c_.device().name.c_str(), most, size.peers);
  fetches_ = std::make_unique<fetches[]>(c_.domain_count());
  for (std::uint32_t i = 0; i < c_.domain_count(); ++i) {
    domain& d = c_.domains()[i];
    if (long_depth_ != 0) d.longs = decltype(d.longs)(c_.size());
    auto q =
        queues::message_queues::open(c_.device(), c_.pd(), c_.account().messages(), size, bell);
    if (!q) {
      failure f = q.error();
      if (f.code == ENOMEM && f.hint.find(", or lower ") == f.hint.npos)
        f.hint += ", or lower PENSTOCK_AM_SPARES, the chunks or the credits of queues";
      return f;
    }
    d.queues = std::move(*q);
  }
  unanswered_limit_ = std::clamp(size.request_chunks / 4, 1u, max_unanswered);
  return {};
}

void verbs_path::close() noexcept {
  free_left();
  for (std::uint32_t i = 0; i < c_.domain_count(); ++i) c_.domains()[i].queues.reset();
}

void verbs_path::describe_lane(peer& p, unsigned l, ibv_qp_init_attr& init) noexcept {
  p.home->queues->describe(l == lane_reply  ? queues::reply_side
                           : l == lane_bulk ? queues::bulk_side
                                            : queues::small_side,
                           init);
}

void verbs_path::attached(peer& p) noexcept { p.home->verbs.add(p); }

bool verbs_path::sent_all(const peer& p) noexcept {
  // A7 made  acquire p.made  <- R7 (connect.cpp): the connector may just be making a lane
  const std::uint8_t made = p.made.load(std::memory_order_acquire);
  for (unsigned l = 0; l < lane_count; ++l)
    if ((made >> l & 1) != 0 && !p.lanes[l].drained()) return false;
  return true;
}

void verbs_path::shut(peer& p) noexcept {
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_ERR;
  connections_.stop_parting(p);
  for (const unsigned l : {lane_request, lane_bulk, lane_reply})
    if (connections::is_ready(p, l))
      (void)c_.device().verbs->modify_qp(p.lanes[l].qp, &a, IBV_QP_STATE);
  // An adapter's queue pair takes nothing more from here on. On shm0 a poll still takes what has
  // come before, and then raises an event, unless it has done so before.
  if (!c_.device().shared_memory || p.cut.load(std::memory_order_relaxed)) note_end(p);
}

void verbs_path::note_end(peer& p) noexcept {
  if (p.ended.load(std::memory_order_relaxed)) return;
  // The answers that have come are handled first.
  const std::uint32_t tag = my_tag();
  for (std::uint32_t left = p.home->queues->request_chunks->chunks(); running == nullptr;) {
    const unsigned n = poll_replies(*p.home, tag);
    if (n == 0 || n >= left) break;
    left -= n;
  }
  // E1 ended  release ended  -> E2 (take_chunks_back)
  p.ended.store(true, std::memory_order_release);
}

// Called in a wait that has lasted. A process that has no work request under way gets no error from
// the device, and would wait for ever for a peer on another host that is cut off. So this posts
// RDMA writes of no bytes: if the peer does not acknowledge one, the queue pair fails after its
// retries. Each second it asks at most 64 peers, in turn. Not every device does that where its own
// port is down (soft-RoCE may stay silent): whom it acknowledges nothing then counts as lost after
// longest_down_ns.
void verbs_path::probe_peers() noexcept {
  constexpr std::uint64_t pause_ns = 1'000'000'000, longest_down_ns = 30 * pause_ns;
  constexpr std::uint32_t most = 64;
  if (c_.device().shared_memory) return;
  const std::uint32_t tag = my_tag();
  domain& d = c_.my_domain(tag);
  poller& mine = c_.my_poller(tag, d);
  const std::uint64_t now = now_ns();
  if (now - mine.probed_ns < pause_ns) return;
  const bool waits_on = now - mine.probed_ns < 20 * pause_ns;
  mine.probed_ns = now;
  if (!c_.device().port_is_down())
    mine.port_down_ns = 0;
  else if (mine.port_down_ns == 0 || !waits_on)
    mine.port_down_ns = now;
  const bool cut_off = mine.port_down_ns != 0 && now - mine.port_down_ns >= longest_down_ns;
  const std::uint32_t all = d.verbs.count();
  for (std::uint32_t i = 0; i < std::min(all, most); ++i) {
    mine.turn = mine.turn + 1 < all ? mine.turn + 1 : 0;
    peer& p = d.verbs[mine.turn];
    if (!connections::is_ready(p, lane_request) || !p.request_out.try_enter(tag)) continue;
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.wr.rdma.remote_addr = p.buffers_base;
    wr.wr.rdma.rkey = p.buffers_rkey;
    queues::lane& lane = p.lanes[lane_request];
    if (cut_off && !lane.empty()) c_.lost_contact(p, "this process's port is down");
    const bool may = !connections::closed_meanwhile(p, lane_request) &&
                     d.queues->admits(lane, true, queues::room_share::requests);
    if (const int e = may ? lane.post(wr, identity(p.rank, lane_request), {}, true) : 0; e != 0)
      c_.post_refused(p, e);
    p.request_out.leave(tag);
    if (p.request_out.asked()) p.request_out.heard();  // a poll sends what was handed over
  }
}

// Takes back the chunks of requests to peers that have ended. A request by the short way to such a
// peer takes a chunk as any other one does, so each thread that finds no chunk looks here.
void verbs_path::take_chunks_back(domain& d) noexcept {
  if (!c_.some_gone()) return;
  queues::chunk_pool& chunks = *d.queues->request_chunks;
  for (std::uint32_t c = 0; c < chunks.chunks(); ++c) {
    const std::uint32_t r = chunks.lent_to(c);
    if (r == queues::chunk_pool::nobody) continue;
    // E2 ended  acquire ended  <- E1 (note_end): r's device has written its last answer
    if (!d.peers[r].ended.load(std::memory_order_acquire)) {
      if (c_.is_gone(r)) c_.lost_contact(d.peers[r], "has left");  // the next poll shuts its lanes
    } else if (chunks.settle(c, r)) {
      chunks.give(c);
    }
  }
}

}  // namespace penstock::conduit::PENSTOCK_ABI
