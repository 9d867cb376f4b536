// Requests that are handed over (message/handed_over.hpp): a thread that finds another one inside
// the sending end to a peer, and that does not leave, leaves a copy of its request behind and goes
// on. The thread that leaves the end sends it (owner's asked()). A request that then lacks credits
// or room waits for polls.
#include "lib/conduit/collective/departure.hpp"
#include "lib/conduit/large.hpp"
#include "lib/conduit/one_sided/rma.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

// found_held: how often this call has found the end held, with a poll after each time. True: m has
// been handed over.
bool engine::hand_over(rank_id to, const outgoing& m, unsigned found_held) noexcept {
  constexpr unsigned polls_of_patience = 64;  // more than a thread that runs stays inside
  peer& p = core_.channel(to, my_tag());
  if (found_held <= polls_of_patience && !p.request_out.asked()) return false;
  if (transfers_->must_settle() || !p.handed.accept(m, core_.handed())) return false;
  if (m.written != nullptr && m.written->chunk != draft::no_chunk)
    ways_.of(p, [&](auto& path) { path.cancel(p, *m.written); });
  if (p.request_out.try_enter_or_ask(my_tag())) {
    p.request_out.leave(my_tag());
    (void)send_handed(p);
  }
  return true;
}

// Sends the requests to p that were handed over, as far as credits and room allow. The calling
// thread must be inside no end. Always returns ok.
status engine::send_handed(peer& p) noexcept {
  const std::uint32_t tag = my_tag();
  do {
    p.request_out.heard();
    bool held = false;
    p.handed.send_all(core_.handed(), [&](handed_message& h) {
      if (held || transfers_->must_settle()) return false;
      if (core_.drawn() != nullptr) [[unlikely]]
        core_.trace_sending();
      const status s = h.m.is_large()
                           ? large_mediums::try_request(*this, p, h.m)
                           : ways_.of(p, [&](auto& path) { return path.try_request(p, h.m); });
      held = s == status::busy;
      if (s == status::no_credit) credits_.stall(p, cost_of(p, h.m), h.stalled);
      if (is_short(s) && !(departure_->news() && departure_->is_gone(p.rank))) return false;
      if (h.stalled.noted) p.home->ledger->end_stall(p.rank);
      if (s != status::ok && h.m.is_large()) core_.large().give(h.m.buffer);
      return true;
    });
    // Another thread is inside again, and sends the rest when it leaves, unless it has left
    // meanwhile.
    if (!held || !p.request_out.try_enter_or_ask(tag)) return status::ok;
    p.request_out.leave(tag);
  } while (true);
}

// Called by polls: sends the requests that lacked credits or room. Those that a thread inside an
// end was asked to send are left to it, but for one call in looks_between.
void engine::send_all_handed() noexcept {
  constexpr std::uint32_t looks_between = 256;
  if (running != nullptr) return;
  const bool all = handed_looks_.fetch_add(1, std::memory_order_relaxed) % looks_between == 0;
  for (peer& p : core_.all_begun())
    if (p.handed.any() && (all || !p.request_out.asked())) (void)send_handed(p);
}

}  // namespace penstock::conduit::PENSTOCK_ABI
