// How the ledger's lender takes credits back: the walk over those who hold most. Included by
// ledger.hpp alone.
#pragma once

#include <algorithm>
#include <span>

#include "credit/ledger.hpp"

namespace penstock::credit {

template <thread_mode M, template <class> class Atomic, template <class> class Store>
std::uint32_t ledger<M, Atomic, Store>::pop_listed() noexcept {
  // The list starts as "all peers, from the next rank on", kept as a number until it is used up.
  if (fresh_.load(std::memory_order_relaxed) + 1 < cfg_.ranks) {
    const std::uint32_t k = fresh_.fetch_add(1, std::memory_order_relaxed);
    if (k + 1 < cfg_.ranks) {
      const std::uint32_t p = cfg_.me + 1 + k;
      return p < cfg_.ranks ? p : p - cfg_.ranks;
    }
    fresh_.store(cfg_.ranks, std::memory_order_relaxed);
  }
  return lent_most_.pop(scavenge_links());
}

template <thread_mode M, template <class> class Atomic, template <class> class Store>
auto ledger<M, Atomic, Store>::look_at(std::uint32_t peer, bool urgent, revoke_intent& out) noexcept
    -> visit {
  state& s = begun(peer);
  catch_up(s);
  const auto cold = fields<lent_fields>(s.lent.load(std::memory_order_relaxed));
  const std::uint32_t gone = std::uint32_t{cold.revoked} + cold.revoked_last;
  const bool limited = cfg_.revoked == revoked_at::lender && !urgent;
  const std::uint32_t most = recall_above();
  std::uint32_t above = 0;  // of its loan: asked back whatever its statistics say
  visit v = visit::keep;
  change_loan(s, [&](loan_fields& f) {
    v = visit::keep;
    if (f.loan <= min_credits) {
      v = visit::drop;
      f.flags = static_cast<std::uint8_t>(f.flags & ~flag_listed);
      return true;
    }
    if ((f.flags & flag_sys_in_flight) != 0) return false;
    const bool asked_lately = f.requested != 0 || cold.requested_last != 0;
    above = asked_lately && !urgent && f.loan > most ? f.loan - most : 0;
    if (!urgent && above == 0 && (asked_lately || (f.flags & flag_zero_reply) != 0)) return false;
    if (limited && gone >= cfg_.revoke_limit) return false;
    v = visit::ask;
    out.end_epoch = (f.flags & flag_reached_epoch) != 0;
    f.flags = static_cast<std::uint8_t>((f.flags & ~flag_reached_epoch) | flag_sys_in_flight);
    return true;
  });
  out.peer = peer;
  out.urgent = urgent || above != 0;
  out.at_most =
      saturated(limited ? cfg_.revoke_limit - std::min(gone, cfg_.revoke_limit) : counter_max);
  if (above != 0) out.at_most = saturated(std::min<std::uint32_t>(above, out.at_most));
  return v;
}

/// Takes a peer that was never met off the list; `lower`: with the minimum left of its loan.
template <thread_mode M, template <class> class Atomic, template <class> class Store>
void ledger<M, Atomic, Store>::pass_over(std::uint32_t peer, bool lower) noexcept {
  std::uint32_t back = 0;
  const conserved at_end{*this};
  change_loan(begun(peer), [&](loan_fields& f) {
    back = lower && f.loan > min_credits ? f.loan - min_credits : 0;
    f.loan = static_cast<std::uint16_t>(f.loan - back);
    PENSTOCK_ASSERT(back == 0 || f.loan == min_credits, ==, true);  // (C-4)
    f.flags = static_cast<std::uint8_t>(f.flags & ~flag_listed);
    return true;
  });
  fill_bank(back);  // between the cas above and here, this thread holds them
}

/// Looks along the list for peers to ask; those asked are added to out behind the first `filled`.
template <thread_mode M, template <class> class Atomic, template <class> class Store>
template <class How>
std::uint32_t ledger<M, Atomic, Store>::walk(bool urgent, std::span<revoke_intent> out,
                                             std::uint32_t filled, How& how) noexcept {
  std::uint32_t first_kept = no_peer;
  // A peer that leaves the list is not counted as a visit. Else a walk might see only such peers
  // and ask none, and with nothing under way there would be no other walk. Each such peer has
  // joined the list by a loan, which pays for this.
  for (std::uint32_t visits = 0; visits < max_visits && filled < out.size();) {
    const std::uint32_t p = pop_listed();
    if (p == no_peer) break;
    if (p == first_kept) {  // the walk has gone once round
      lent_most_.push_front(p, scavenge_links());
      break;
    }
    if (const reach r = loan(p) > min_credits ? how(p) : reach::ask; r != reach::ask) {
      pass_over(p, r == reach::take);
      if (r == reach::take && (urgent ? bank() >= max_wish : !bank_low())) break;
      continue;
    }
    const visit v = look_at(p, urgent, out[filled]);
    if (v == visit::drop) continue;
    ++visits;
    if (v == visit::ask) ++filled;
    if (first_kept == no_peer) first_kept = p;
    lent_most_.push(p, scavenge_links());
  }
  PENSTOCK_ASSERT(filled, <=, out.size());
  return filled;
}

template <thread_mode M, template <class> class Atomic, template <class> class Store>
template <class How>
std::uint32_t ledger<M, Atomic, Store>::next_revoke(std::span<revoke_intent> out,
                                                    How&& how) noexcept {
  out = out.first(std::min<std::size_t>(out.size(), cfg_.num_scavenge));
  std::uint32_t filled = 0;
  if (waiting_count_.load(std::memory_order_relaxed) == 0) {
    if (!demanded()) return 0;
    demand_.store(rare_asks(), std::memory_order_relaxed);  // one more, and it is looked again
    if (!bank_low()) return 0;
    filled = walk(false, out, 0, how);
    // R4 waiting  add of 0, acq_rel, waiting count  <-> R3 (on_want): either who began to wait is
    //             seen here, or his thread finds on the list whom this one had in hand.
    if (waiting_count_.fetch_add(0, std::memory_order_acq_rel) == 0) return filled;
  }
  // A peer waits. If the bank has enough for any peer that waits, next_grant finds it, unless what
  // it wishes and its loan together exceed the most that a peer may have.
  while (bank() < max_wish) {
    // R6 returned  load acquire returns  <- R5 (on_return): whose RETURN was counted is asked
    //              below; <- R7: behind its own R5 this thread finds whom another has put back
    const std::uint32_t seen = returns_.load(std::memory_order_acquire);
    const std::uint32_t n = walk(true, out, filled, how);
    // R7 returned  add of 0, release, returns  -> R6 behind R5: either a RETURN of a peer that
    //              this thread had in hand, and took for asked, is seen here, or its thread finds
    //              that peer.
    if (n != 0 || returns_.fetch_add(0, std::memory_order_release) == seen) return n;
  }
  // R8 returned  add of 0, acq_rel, returns  <- R5, <-> R8 behind R5: the same of the first that
  //              waits, which next_grant had in hand, and of a RETURN of nothing, which R1 leaves
  //              out.
  returns_.fetch_add(0, std::memory_order_acq_rel);
  return filled < out.size() && ask_first(out[filled]) ? filled + 1 : filled;
}

/// Asks the first peer that waits for what its loan has too much (claim 9). A thread that has that
/// peer in hand calls this when it has put it back, so one that finds none leaves it to the other.
template <thread_mode M, template <class> class Atomic, template <class> class Store>
bool ledger<M, Atomic, Store>::ask_first(revoke_intent& out) noexcept {
  const std::uint32_t p = wait_list_.first();
  if (p == no_peer) return false;
  const std::uint32_t wish = wish_of(p);
  PENSTOCK_ASSERT(wish, <=, max_wish);
  return change_loan(store_[p], [&](loan_fields& f) {
    if ((f.flags & (flag_waiting | flag_gone | flag_sys_in_flight)) != flag_waiting) return false;
    if (fits(f, wish)) return false;
    out = {p, saturated(f.loan + wish - cfg_.max_per_peer), (f.flags & flag_reached_epoch) != 0,
           true};
    f.flags = static_cast<std::uint8_t>((f.flags & ~flag_reached_epoch) | flag_sys_in_flight);
    return true;
  });
}

}  // namespace penstock::credit
