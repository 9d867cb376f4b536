// Rings grow with their loans, and shrink when nobody uses them: length.hpp has the rule.
#include "lib/conduit/ring_path/length.hpp"

#include <algorithm>

namespace penstock::conduit::PENSTOCK_ABI {

// For as many credits as there are now; inside request_out, with nothing allowed.
void ring_path::lengthen_request_ring(peer& p, std::uint32_t credits) noexcept {
  const bool counted = p.home->ledger->settings().flow_control;
  if (p.request_tx->lengthen(length_for(counted ? credits : most_unanswered)))
    p.ring_credits = credits;
}

// An epoch is over. What is not used any more, or not lent any more, goes back to the system.
void ring_path::tidy(domain& d, std::uint32_t tag) noexcept {
  const std::uint32_t all = d.rings.count();
  for (std::uint32_t i = 0; i < all; ++i) {
    peer& p = d.rings[i];
    if (p.request_out.try_enter(tag)) {
      tidy_requests(p);
      p.request_out.leave(tag);
    }
    if (p.request_in.try_enter(tag)) {
      tidy_replies(p);
      p.request_in.leave(tag);
    }
  }
}

// Inside request_out.
void ring_path::tidy_requests(peer& p) noexcept {
  const std::uint64_t now = p.request_tx->position();
  const bool unused = now == p.request_seen;
  p.request_seen = now;
  const std::uint32_t wanted =
      unused ? 0 : std::min(p.home->ledger->send_credits(p.rank), p.ring_credits);
  const nic::shm::ring_length have = p.request_tx->length(), want = length_for(wanted);
  if (!unused && !p.home->ledger->settings().flow_control) return;
  if (want.slots >= have.slots && want.data >= have.data) return;
  p.credits.lease += p.request_tx->recall();
  if (!p.request_tx->shorten(want)) return;
  p.ring_credits = wanted;
  p.request_seen = p.request_tx->position();
}

// Inside request_in: no handler of p's requests runs, so no room is set aside for a reply.
void ring_path::tidy_replies(peer& p) noexcept {
  const std::uint64_t now = p.reply_tx->position();
  const bool unused = now == p.reply_seen;
  p.reply_seen = now;
  const nic::shm::ring_length none = length_for(0);
  if (!unused || p.reply_tx->length().slots == none.slots || p.request_rx->ready_hint()) return;
  if (!p.reply_tx->shorten(none)) return;
  p.reply_room = 0;
  p.reply_seen = p.reply_tx->position();
}

}  // namespace penstock::conduit::PENSTOCK_ABI
