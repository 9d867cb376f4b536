// Requests that are handed over (message/handed_over.hpp): a thread that finds the sending end to a
// peer held, and its holder not leaving, leaves a copy behind and goes on. Whoever leaves the end
// sends it (owner's asked()); what lacks credits or room then waits for polls.
#include "lib/conduit/collective/departure.hpp"
#include "lib/conduit/large.hpp"
#include "lib/conduit/one_sided/rma.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

// found_held: how often this call has found it so, a poll each. True: m has been handed over.
bool engine::hand_over(rank_id to, const outgoing& m, unsigned found_held) noexcept {
  constexpr unsigned polls_of_patience = 64;  // longer than anybody stays who runs
  peer& p = channel(to, my_tag());
  if (found_held <= polls_of_patience && !p.request_out.asked()) return false;
  if (transfers_->must_settle() || !p.handed.accept(m, handed_)) return false;
  if (m.written != nullptr && m.written->chunk != draft::no_chunk)
    by_path(*this, p, [&](auto& path) { path.cancel(p, *m.written); });
  if (p.request_out.try_enter_or_ask(my_tag())) {
    p.request_out.leave(my_tag());
    (void)send_handed(p);
  }
  return true;
}

// Sends what was handed over, as far as it goes; by a thread that holds no end. Answers ok.
status engine::send_handed(peer& p) noexcept {
  const std::uint32_t tag = my_tag();
  do {
    p.request_out.heard();
    bool held = false;
    p.handed.send_all(handed_, [&](handed_message& h) {
      if (held || transfers_->must_settle()) return false;
      const status s =
          h.m.is_large() ? large_mediums::try_request(*this, p, h.m)
                         : by_path(*this, p, [&](auto& path) { return path.try_request(p, h.m); });
      held = s == status::busy;
      if (s == status::no_credit) stall(p, cost_of(p, h.m), !std::exchange(h.stalled, true));
      if (is_short(s) && !(departure_->news() && departure_->is_gone(p.rank))) return false;
      if (h.stalled) p.home->ledger->end_stall(p.rank);
      if (s != status::ok && h.m.is_large()) large_->give(h.m.buffer);
      return true;
    });
    // Somebody is inside again, and sees to it when it has left; or has left meanwhile.
    if (!held || !p.request_out.try_enter_or_ask(tag)) return status::ok;
    p.request_out.leave(tag);
  } while (true);
}

// By a poll: what lacked credits or room. What somebody has been asked to send is left to it, but
// for a look now and then.
void engine::send_all_handed() noexcept {
  constexpr std::uint32_t looks_between = 256;
  if (running != nullptr) return;
  const bool all = handed_looks_.fetch_add(1, std::memory_order_relaxed) % looks_between == 0;
  for (peer& p : peers_)
    if (p.handed.any() && (all || !p.request_out.asked())) (void)send_handed(p);
}

}  // namespace penstock::conduit::PENSTOCK_ABI
