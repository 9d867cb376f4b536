// The program's side of a parting (connecting/parting.cpp): a poll looks whether a connection is
// idle, and closes its lanes.
#include <cstring>

#include "lib/conduit/verbs_path/verbs_path_inl.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

// Looks at the peers that the connector has asked about.
void verbs_path::see_to_partings() noexcept {
  const std::uint32_t tag = my_tag();
  for (peer& p : c_.all_begun()) {
    // P2 part  acq_rel p.parting  <-> P1 (connecting/parting.cpp)
    parting_state s = p.parting.load(std::memory_order_relaxed);
    if (s != parting_state::asked && s != parting_state::again) continue;
    if (!p.parting.compare_exchange_strong(s, parting_state::looking, std::memory_order_acq_rel,
                                           std::memory_order_relaxed))
      continue;
    const auto found = close_if_idle(p, tag);
    if (found == idleness::later) {
      p.parting.store(s, std::memory_order_release);  // P2
      continue;
    }
    [[maybe_unused]] const auto before = c_.deferred().fetch_sub(1, std::memory_order_relaxed);
    PENSTOCK_ASSERT(before, !=, 0u);
    p.parting.store(found == idleness::busy     ? parting_state::busy
                    : s == parting_state::asked ? parting_state::closed
                                                : parting_state::sealed,
                    std::memory_order_release);  // P2
    connections_.looked();
  }
}

// Closes p's lanes if nothing that this process has sent to p is under way (claim 23).
verbs_path::idleness verbs_path::close_if_idle(peer& p, std::uint32_t tag) noexcept {
  domain& d = *p.home;
  bool left = p.handed.any() || p.answers.any() || p.ends.any() ||
              p.credits_put_off.load(std::memory_order_relaxed) ||
              p.lost.load(std::memory_order_relaxed) != nullptr ||
              p.ended.load(std::memory_order_relaxed) || fetches_[d.index].waiting() ||
              p.counts.waiters.load(std::memory_order_relaxed) != 0 || c_.has_left(p.rank) ||
              c_.closing();
  for (const auto& word : p.deferred) left |= word.load(std::memory_order_relaxed) != 0;
  if (left) return idleness::busy;
  (void)reap_sends(d);
  queue_owner* const ends[] = {&p.request_out, &p.reply_out, &p.request_in, &p.reply_in,
                               &p.transfer_out};
  unsigned inside = 0;
  while (inside < std::size(ends) && ends[inside]->try_enter(tag)) ++inside;
  auto found = idleness::later;
  if (inside == std::size(ends)) found = close_inside(p, tag);
  while (inside-- != 0) {
    ends[inside]->leave(tag);
    if (ends[inside] == &p.request_out && p.request_out.asked()) p.request_out.heard();
    if (ends[inside] == &p.reply_out && p.reply_out.asked()) see_to_answers(p, tag);
  }
  return found;
}

// The same inside all ends of p.
verbs_path::idleness verbs_path::close_inside(peer& p, std::uint32_t tag) noexcept {
  domain& d = *p.home;
  const auto out = p.request_out.inside_owner(tag);
  if (const std::uint32_t lease = std::exchange(p.credits.lease[out], 0); lease != 0) {
    p.marks[out].gave_back(lease);
    d.ledger->give_back(p.rank, lease);
  }
  credits_.tell_returned(p.reply_in.inside_owner(tag), p);
  const bool transfers = p.transfers && !p.transfers->empty();
  if (!d.ledger->is_idle(p.rank) || p.unanswered[p.request_in.inside_owner(tag)].count != 0 ||
      transfers)
    return idleness::busy;
  // Work requests without a completion of their own complete with the next that has one.
  const std::uint8_t made = p.made.load(std::memory_order_relaxed);
  bool over = true;
  for (unsigned l = 0; l < lane_rma; ++l) {
    queues::lane& lane = p.lanes[l];
    if ((made >> l & 1) == 0 || lane.empty()) continue;
    over = false;
    if (lane.posted() == p.flushed[l] || !d.queues->admits(lane, true, queues::room_share::all))
      continue;
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.wr.rdma.remote_addr = p.buffers_base;
    wr.wr.rdma.rkey = p.buffers_rkey;
    if (const int e = lane.post(wr, identity(p.rank, l), {}, true); e != 0) c_.post_refused(p, e);
    p.flushed[l] = lane.posted();
  }
  if (!over) return idleness::later;
  PENSTOCK_ASSERT(p.credits.lease[out], ==, 0u);
  PENSTOCK_ASSERT(p.credits.due(), ==, 0u);  // what is not given back would be lost with the lanes
  // Whoever wants a lane from here on says so (connector::want).
  p.wanted.fetch_and(in_wishes, std::memory_order_relaxed);
  // R12 closed  release p.ready  -> A12 (connecting/parting.cpp)
  p.ready.store(0, std::memory_order_release);
  return idleness::idle;
}

}  // namespace penstock::conduit::PENSTOCK_ABI
