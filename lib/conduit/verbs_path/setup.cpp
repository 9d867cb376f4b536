// The queues of this path: their number and sizes, how they are opened and connected, and how the
// code finds out that one is empty or its peer unreachable.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "lib/base/clock.hpp"
#include "lib/conduit/verbs_path/verbs_path_inl.hpp"

namespace penstock::conduit::PENSTOCK_ABI {
queues::dimensions verbs_path::dimensions_for(std::uint32_t ranks, bool bell,
                                              credit::room room) const {
  const settings& s = c_.settings_;
  queues::dimensions d;
  d.peers = ranks - 1;
  const auto planned = credit::plan(ranks, 0, credit_settings(s, c_.domain_count_, room));
  if (c_.shares_memory_)
    d.near =
        std::min<std::uint32_t>(static_cast<std::uint32_t>(c_.neighbours_.size()) - 1, ranks - 1);
  const credit::config& shares = planned ? *planned : c_.credit_config_;
  if (planned) d.loan = shares.credits_per_peer;
  d.credits = std::max(shares.total_credits(), 1u);
  d.full_bytes = wire::full_bytes(max_eager);
  d.full_cost = shares.highest_cost;
  d.chunk_bytes = wire::full_bytes(max_eager);
  if (!shares.dynamic) d.words = 0;
  // A request holds a chunk until it is answered, and a reply until it has been sent. The limits
  // are the process's, which its domains share.
  const auto part = [&](std::uint32_t of, std::uint32_t otherwise) {
    return of == 0 ? otherwise : std::max(of / c_.domain_count_, 1u);
  };
  const std::uint32_t most = part(s.msg_limit, 1);
  d.spares = part(s.am_spares, concurrent(build_mode) ? 4 : 2);
  d.request_chunks = std::min({part(s.sb_chunks, 256), part(s.am_oust_limit, most), most});
  d.reply_chunks = std::min(part(s.rpl_chunks, 128), most);
  if (!room.moves) d = d.lean(part(s.am_spares, 1));
  // The progress thread has a reply chunk and a spare buffer of its own.
  if (bell) ++d.spares, ++d.reply_chunks;
  d.depth = s.op_oust_pp;
  d.max_inline = std::min(c_.device_.max_inline, static_cast<std::uint32_t>(s.inline_limit));
  return d.bounded(c_.device_.limits);
}

// First as many credits as the queues have room for. Where these could not move, the fewest buffers
// and receives, and fixed loans; but not in a large job that runs as long as some of its ranks are
// not connected.
result<credit::room> verbs_path::room_for(std::uint32_t ranks, bool bell) const {
  const ibv_device_attr& limits = c_.device_.limits;
  const queues::dimensions wanted = dimensions_for(ranks, bell, {});
  if (!credit_settings(c_.settings_, c_.domain_count_).by_table() || wanted.fit(limits, ""))
    return credit::room{};
  const auto room_if = [&](bool moves) -> result<credit::room> {
    queues::dimensions d = dimensions_for(ranks, bell, {moves});
    const credit::room room{moves, d.most_credits(limits)};
    d.credits = 1;
    if (const auto others = d.fit(limits, c_.device_.name, c_.device_.cqe_set); !others)
      return others.error();
    const auto planned =
        credit::plan(ranks, 0, credit_settings(c_.settings_, c_.domain_count_, room));
    if (!planned) return planned.error();
    return room;
  };
  if (auto moving = room_if(true)) return moving;
  if (wanted.for_peers(wanted.peers_at_start()).fit(limits, "")) return credit::room{};
  return room_if(false);
}

result<void> verbs_path::open(ibv_comp_channel* bell) {
  const settings& s = c_.settings_;
  for (const auto& [name, most] :
       {std::pair("MSG_LIMIT", s.msg_limit), std::pair("AM_OUST_LIMIT", s.am_oust_limit),
        std::pair("SB_CHUNKS", s.sb_chunks), std::pair("RPL_CHUNKS", s.rpl_chunks),
        std::pair("LONG_DEPTH", s.long_depth), std::pair("AM_SPARES", s.am_spares)})
    if (most != 0 && most < c_.domain_count_)
      return failure{std::string("PENSTOCK_") + name + "=" + std::to_string(most) +
                         " is below PENSTOCK_DOMAIN_COUNT=" + std::to_string(c_.domain_count_) +
                         ", and each domain sends messages",
                     0, "raise the first or lower the second"};
  long_depth_ = s.long_depth / c_.domain_count_;
  max_inline_ =
      std::min(c_.device_.max_inline, static_cast<std::uint32_t>(c_.settings_.inline_limit));
  short_inline_ = std::min(max_inline_, wire::credit_bytes);
  const queues::dimensions size = dimensions_for(c_.size_, bell != nullptr, c_.credit_room_);
  const std::uint32_t most = size.most_peers(c_.device_.limits);
  if (c_.rank_ == 0 && most < size.peers && most >= size.peers_at_start())
    log(log_level::warning,
        "the queues of %s have room for %u of the %u other ranks; requests to more fail: lower "
        "PENSTOCK_CRED_PER_NODE",
        c_.device_.name.c_str(), most, size.peers);
  fetches_ = std::make_unique<fetches[]>(c_.domain_count_);
  for (std::uint32_t i = 0; i < c_.domain_count_; ++i) {
    domain& d = c_.domains_[i];
    if (long_depth_ != 0) d.longs = zero_array<domain::longs_out>(c_.size_);
    auto q = queues::message_queues::open(c_.device_, c_.pd_, c_.account_->messages(), size, bell);
    if (!q) {
      failure f = q.error();
      if (f.code == ENOMEM)
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
  for (std::uint32_t i = 0; i < c_.domain_count_; ++i) c_.domains_[i].queues.reset();
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
  c_.stop_parting(p);
  for (const unsigned l : {lane_request, lane_bulk, lane_reply})
    if (channels::is_ready(p, l))
      (void)c_.device_.verbs->modify_qp(p.lanes[l].qp, &a, IBV_QP_STATE);
  // An adapter's queue pair takes nothing more from here on. On shm0 a poll still takes what has
  // come before, and then raises an event, unless it has done so before.
  if (!c_.device_.shared_memory || p.cut.load(std::memory_order_relaxed)) note_end(p);
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
// retries. Each second it asks at most 64 peers, in turn.
void verbs_path::probe_peers() noexcept {
  constexpr std::uint64_t pause_ns = 1'000'000'000;
  constexpr std::uint32_t most = 64;
  if (c_.device_.shared_memory) return;
  const std::uint32_t tag = my_tag();
  domain& d = c_.my_domain(tag);
  poller& mine = c_.my_poller(tag, d);
  const std::uint64_t now = now_ns();
  if (now - mine.probed_ns < pause_ns) return;
  mine.probed_ns = now;
  const std::uint32_t all = d.verbs.count();
  for (std::uint32_t i = 0; i < std::min(all, most); ++i) {
    mine.turn = mine.turn + 1 < all ? mine.turn + 1 : 0;
    peer& p = d.verbs[mine.turn];
    if (!channels::is_ready(p, lane_request) || !p.request_out.try_enter(tag)) continue;
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.wr.rdma.remote_addr = p.buffers_base;
    wr.wr.rdma.rkey = p.buffers_rkey;
    queues::lane& lane = p.lanes[lane_request];
    const bool may = !channels::closed_meanwhile(p, lane_request) &&
                     d.queues->admits(lane, true, queues::room_share::requests);
    if (const int e = may ? lane.post(wr, identity(p.rank, lane_request), {}, true) : 0; e != 0)
      c_.peer_failed(p, std::strerror(e));
    p.request_out.leave(tag);
    if (p.request_out.asked()) p.request_out.heard();  // a poll sends what was handed over
  }
}

}  // namespace penstock::conduit::PENSTOCK_ABI
