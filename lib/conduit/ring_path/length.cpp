// How rings grow with their loans, and shrink when they are not used: length.hpp has the rule.
#include "lib/conduit/ring_path/length.hpp"

#include "lib/base/assert.hpp"

#include <algorithm>

namespace penstock::conduit::PENSTOCK_ABI {

// Makes the request ring long enough for that many credits; while the ring
// allows no message (ring_tx::allow).
void ring_path::lengthen_request_ring(inside<end_of::request_out> in, peer& p,
                                      std::uint32_t credits) noexcept {
  const bool counted = p.home->ledger->settings().flow_control;
  const bool first = p.request_tx[in]->position() == 0;
  if (!p.request_tx[in]->lengthen(length_for(counted ? credits : most_unanswered))) return;
  PENSTOCK_ASSERT(credits, >, p.ring_credits[in]);
  p.ring_credits[in] = credits;
  p.request_tx[in]->ready_data();
  if (first) nic::shm::map_first_data(p.reply_rx.seen()->memory());  // which does not change
}

// Called once an epoch: shortens rings that were not used during the last one, or whose loan has
// shrunk, and gives their pages back to the system.
void ring_path::tidy(domain& d, std::uint32_t tag) noexcept {
  const std::uint32_t all = d.rings.count();
  for (std::uint32_t i = 0; i < all; ++i) {
    peer& p = d.rings[i];
    if (const auto in = p.request_out.try_enter(tag)) {
      tidy_requests(*in, p);
      p.request_out.leave(tag);
    }
    if (const auto in = p.request_in.try_enter(tag)) {
      tidy_replies(*in, p);
      p.request_in.leave(tag);
    }
  }
}

// Shortens the request ring to p, if it may.
void ring_path::tidy_requests(inside<end_of::request_out> in, peer& p) noexcept {
  const std::uint64_t now = p.request_tx[in]->position();
  const bool unused = now == p.request_seen[in];
  p.request_seen[in] = now;
  const std::uint32_t wanted =
      unused ? 0 : std::min(p.home->ledger->send_credits(p.rank), p.ring_credits[in]);
  const nic::shm::ring_length have = p.request_tx[in]->length(), want = length_for(wanted);
  if (!unused && !p.home->ledger->settings().flow_control) return;
  if (want.slots >= have.slots && want.data >= have.data) return;
  p.credits.lease[in] += p.request_tx[in]->recall();
  if (!p.request_tx[in]->shorten(want)) return;
  PENSTOCK_ASSERT(wanted, <=, p.ring_credits[in]);
  p.ring_credits[in] = wanted;
  p.request_seen[in] = p.request_tx[in]->position();
}

// Shortens the reply ring to p, if it may. No handler of p's requests runs meanwhile
// but those that were relieved, and no room is set aside for a reply but theirs.
void ring_path::tidy_replies(inside<end_of::request_in> in, peer& p) noexcept {
  const std::uint64_t now = p.reply_tx[in]->position();
  const bool unused = now == p.reply_seen[in];
  p.reply_seen[in] = now;
  const nic::shm::ring_length none = length_for(0);
  if (p.replies_kept.load(std::memory_order_relaxed) != 0) return;
  if (!unused || p.reply_tx[in]->length().slots == none.slots || p.request_rx.seen()->ready_hint())
    return;
  if (!p.reply_tx[in]->shorten(none)) return;
  p.reply_room[in] = 0;
  p.reply_seen[in] = p.reply_tx[in]->position();
}

// Finds out how many requests of p may be taken now (claim 16): for each of them the reply ring has
// room for the longest reply, and for messages of the engine's own. False: none may be.
bool ring_path::find_reply_room(inside<end_of::request_in> in, peer& p) noexcept {
  if (!c_.large().may_reply(p.rank)) [[unlikely]]
    return false;
  const auto there_is = [&p, in](std::uint32_t replies) {
    replies += p.replies_kept.load(std::memory_order_relaxed);
    return p.reply_tx[in]->has_room_for(reply_slots + replies,
                                        nic::shm::ring_tx::worst(replies, reply_data));
  };
  // When no request has come for an epoch, the reply ring is short; it is longer once p has seen
  // the mark that lengthen() leaves (R-d of ring.hpp).
  if (p.reply_tx[in]->length().data == 0) [[unlikely]] {
    if (p.reply_tx[in]->position() == 0) nic::shm::map_first_data(p.request_rx.seen()->memory());
    if (p.reply_tx[in]->lengthen(nic::shm::ring_length::all())) p.reply_tx[in]->ready_data();
  }
  constexpr std::uint32_t many = 12;
  p.reply_room[in] = there_is(many) ? many : there_is(1) ? 1 : 0;
  return p.reply_room[in] != 0;
}

}  // namespace penstock::conduit::PENSTOCK_ABI
