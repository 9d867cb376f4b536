// The ledger's lender half: loans, epochs, and taking credits back. Included by ledger.hpp alone.
#pragma once

#include <algorithm>
#include <utility>

#include "credit/ledger.hpp"

namespace penstock::credit {

// ---- the bank

template <thread_mode M, template <class> class Atomic, template <class> class Store>
std::uint32_t ledger<M, Atomic, Store>::take_bank(std::uint32_t least,
                                                  std::uint32_t most) noexcept {
  std::uint32_t have = bank_.load(std::memory_order_relaxed);
  for (;;) {
    PENSTOCK_ASSERT(have, <=, cfg_.total_credits());
    const std::uint32_t n = std::min(have, most);
    if (n < least || n == 0) return 0;
    // X1 bank  cas relaxed bank: a count
    if (bank_.compare_exchange_weak(have, have - n, std::memory_order_relaxed,
                                    std::memory_order_relaxed))
      return n;
  }
}

template <thread_mode M, template <class> class Atomic, template <class> class Store>
void ledger<M, Atomic, Store>::fill_bank(std::uint32_t n) noexcept {
  // R1 bank  add acq_rel bank  <-> R2 (next_grant): who comes second there sees what the first did
  //          before. A count; cannot overflow, since n was taken from the same total.
  if (n == 0) return;
  [[maybe_unused]] const std::uint32_t had = bank_.fetch_add(n, std::memory_order_acq_rel);
  PENSTOCK_ASSERT(had + n, <=, cfg_.total_credits());
}

// ---- epochs: one counter; each peer's record catches up when it is next touched

template <thread_mode M, template <class> class Atomic, template <class> class Store>
void ledger<M, Atomic, Store>::count_requests(std::uint32_t k) noexcept {
  // X1 epoch  sub relaxed left: exactly one thread takes it from above zero to zero or below
  const std::int64_t before = epoch_left_.fetch_sub(k, std::memory_order_relaxed);
  if (before > k || before <= 0) [[likely]]
    return;
  demand_.store(0, std::memory_order_relaxed);  // an ask that is lost here is repeated
  // X2 epoch  add relaxed left: that one fills it until it is above zero again, as k, or what
  // others counted meanwhile, may be more than an epoch, and nobody else does
  const std::int64_t length = cfg_.epoch_requests;
  do epoch_.fetch_add(1, std::memory_order_relaxed);
  while (epoch_left_.fetch_add(length, std::memory_order_relaxed) + length <= 0);
}

template <thread_mode M, template <class> class Atomic, template <class> class Store>
loan_fields ledger<M, Atomic, Store>::synced(loan_fields f, std::uint16_t now) const noexcept {
  const std::uint16_t passed = epochs_since(f.stamp, now);
  if (passed == 0) return f;
  const bool gone = cfg_.fade == decay::last_curr || passed >= 8;
  f.given = gone ? 0 : static_cast<std::uint16_t>(f.given >> 2 * passed);
  f.requested = gone ? 0 : static_cast<std::uint8_t>(f.requested >> 2 * passed);
  f.stamp = now;
  f.flags = static_cast<std::uint8_t>((f.flags & ~flag_zero_reply) | flag_reached_epoch);
  return f;
}

template <thread_mode M, template <class> class Atomic, template <class> class Store>
template <class Change>
void ledger<M, Atomic, Store>::change_lent(state& s, Change&& change) noexcept {
  std::uint64_t old = s.lent.load(std::memory_order_relaxed);
  for (;;) {
    lent_fields f = fields<lent_fields>(old);
    change(f);
    // X1 lent  cas relaxed lent: statistics, and the wish of a peer that waits
    if (bits(f) == old || s.lent.compare_exchange_weak(old, bits(f), std::memory_order_relaxed,
                                                       std::memory_order_relaxed))
      return;
  }
}

template <thread_mode M, template <class> class Atomic, template <class> class Store>
void ledger<M, Atomic, Store>::fade_lent(state& s, loan_fields before,
                                         std::uint16_t epochs) noexcept {
  const bool shift = cfg_.fade == decay::shift;
  if (shift && cfg_.revoked == revoked_at::borrower) return;  // nothing of it is used
  change_lent(s, [&](lent_fields& f) {
    std::uint32_t given = before.given, requested = before.requested;
    for (std::uint32_t i = 0; i < std::min<std::uint32_t>(epochs, 16); ++i) {
      if (shift) {
        f.revoked = faded(f.revoked);
        continue;
      }
      f.given_last = blended(f.given_last, given);
      f.requested_last = saturated8(blended(f.requested_last, requested));
      f.revoked_last = blended(f.revoked_last, f.revoked);
      f.revoked = 0;
      given = requested = 0;
    }
  });
}

/// Applies change(f) to the up-to-date fields; change answers whether to store them. True if
/// stored.
template <thread_mode M, template <class> class Atomic, template <class> class Store>
template <class Change>
bool ledger<M, Atomic, Store>::change_loan(state& s, Change&& change) noexcept {
  std::uint64_t old = s.loan.load(std::memory_order_relaxed);
  for (;;) {
    const loan_fields before = fields<loan_fields>(old);
    const auto now = static_cast<std::uint16_t>(epoch_.load(std::memory_order_relaxed));
    loan_fields f = synced(before, now);
    if (!change(f)) return false;
    // X1 loan  cas relaxed loan: counts and flags
    if (!s.loan.compare_exchange_weak(old, bits(f), std::memory_order_relaxed,
                                      std::memory_order_relaxed))
      continue;
    // Only the thread whose cas moved the stamp is here with a difference: once per epoch.
    if (const std::uint16_t passed = epochs_since(before.stamp, now); passed != 0)
      fade_lent(s, before, passed);
    return true;
  }
}

/// Brings both words of the record to this epoch, for a caller that is about to read the colder
/// one.
template <thread_mode M, template <class> class Atomic, template <class> class Store>
void ledger<M, Atomic, Store>::catch_up(state& s) noexcept {
  const auto now = static_cast<std::uint16_t>(epoch_.load(std::memory_order_relaxed));
  const auto seen = fields<loan_fields>(s.loan.load(std::memory_order_relaxed));
  if (epochs_since(seen.stamp, now) != 0) change_loan(s, [](loan_fields&) { return true; });
}

template <thread_mode M, template <class> class Atomic, template <class> class Store>
bool ledger<M, Atomic, Store>::clear_epoch_mark(std::uint32_t peer) noexcept {
  return change_loan(begun(peer), [](loan_fields& g) {
    if ((g.flags & flag_reached_epoch) == 0) return false;
    g.flags = static_cast<std::uint8_t>(g.flags & ~flag_reached_epoch);
    return true;
  });
}

// ---- loans

/// How much more this peer may be lent now.
template <thread_mode M, template <class> class Atomic, template <class> class Store>
std::uint32_t ledger<M, Atomic, Store>::allowance(const loan_fields& f,
                                                  const state& s) const noexcept {
  if (gone(f)) return 0;
  std::uint32_t given = f.given;
  if (cfg_.fade == decay::last_curr)
    given += fields<lent_fields>(s.lent.load(std::memory_order_relaxed)).given_last;
  const std::uint32_t in_epoch = given < cfg_.lender_limit ? cfg_.lender_limit - given : 0;
  const std::uint32_t in_all = f.loan < cfg_.max_per_peer ? cfg_.max_per_peer - f.loan : 0;
  return std::min(in_epoch, in_all);
}

template <thread_mode M, template <class> class Atomic, template <class> class Store>
std::uint32_t ledger<M, Atomic, Store>::lend(std::uint32_t peer, std::uint32_t n) noexcept {
  state& s = begun(peer);
  catch_up(s);
  const bool reserved = waiting_count_.load(std::memory_order_relaxed) != 0;
  const auto seen = fields<loan_fields>(s.loan.load(std::memory_order_relaxed));
  const std::uint32_t most = ceiling();
  const std::uint32_t below = most - std::min<std::uint32_t>(most, seen.loan);
  const std::uint32_t ask = std::min({n, allowance(seen, s), portion(), below});
  // Out of the bank first: until it is in the loan, this thread holds it.
  const std::uint32_t got = reserved || ask == 0 ? 0 : take_bank(1, ask);
  std::uint32_t lent = 0;
  bool newly_listed = false;
  change_loan(s, [&](loan_fields& f) {
    lent = std::min(got, allowance(f, s));
    PENSTOCK_ASSERT(f.loan + lent, <=, std::max<std::uint32_t>(f.loan, cfg_.max_per_peer));
    f.loan = static_cast<std::uint16_t>(f.loan + lent);
    f.given = static_cast<std::uint16_t>(f.given + lent);
    f.requested = saturated8(f.requested + 1U);
    newly_listed = f.loan > min_credits && (f.flags & flag_listed) == 0;
    if (newly_listed) f.flags |= flag_listed;
    return true;
  });
  fill_bank(got - lent);
  if (newly_listed) lent_most_.push(peer, scavenge_links());
  if (got < ask || bank_low()) demand_.fetch_add(1, std::memory_order_relaxed);
  return lent;
}

template <thread_mode M, template <class> class Atomic, template <class> class Store>
std::uint32_t ledger<M, Atomic, Store>::on_need(std::uint32_t peer, std::uint32_t need,
                                                bool end_epoch) noexcept {
  if (!is_peer(peer)) [[unlikely]]
    return 0;
  if (end_epoch) fade_send(begun(peer));
  if (need == 0 || !cfg_.dynamic || !cfg_.flow_control) return 0;
  const conserved at_end{*this};
  return lend(peer, need);
}

template <thread_mode M, template <class> class Atomic, template <class> class Store>
bool ledger<M, Atomic, Store>::lend_in_full(std::uint32_t peer, std::uint32_t n) noexcept {
  bool newly_listed = false;
  std::uint32_t lent = 0;
  const bool fitted = change_loan(begun(peer), [&](loan_fields& f) {
    newly_listed = false, lent = 0;
    if (!fits(f, n)) return false;
    lent = gone(f) ? 0 : n;
    PENSTOCK_ASSERT(f.loan + lent, <=, cfg_.max_per_peer);
    f.loan = static_cast<std::uint16_t>(f.loan + lent);
    f.given = saturated(f.given + lent);
    f.requested = saturated8(f.requested + 1U);
    f.flags = static_cast<std::uint8_t>(f.flags & ~flag_waiting);
    newly_listed = f.loan > min_credits && (f.flags & flag_listed) == 0;
    if (newly_listed) f.flags |= flag_listed;
    return true;
  });
  fill_bank(n - lent);
  if (newly_listed) lent_most_.push(peer, scavenge_links());
  return fitted;
}

// ---- peers that cannot send at all without more

template <thread_mode M, template <class> class Atomic, template <class> class Store>
want_answer ledger<M, Atomic, Store>::on_want(std::uint32_t peer, std::uint32_t count, bool urgent,
                                              bool end_epoch) noexcept {
  if (!is_peer(peer) || is_gone(peer)) return {false, {peer, 0, false}};
  state& s = begun(peer);
  const conserved at_end{*this};
  if (end_epoch) fade_send(s);
  if (!urgent || count == 0 || max_wish == 0 || !cfg_.dynamic) {
    const std::uint32_t n = count != 0 && cfg_.dynamic ? lend(peer, count) : 0;
    return {true, {peer, static_cast<std::uint16_t>(n), take_epoch_mark(peer)}};
  }
  // It holds at least the minimum, so the largest message lacks no more than this.
  count = std::min(count, max_wish);
  if (waiting_count_.load(std::memory_order_relaxed) == 0 && take_bank(count, count) != 0 &&
      lend_in_full(peer, count))
    return {true, {peer, static_cast<std::uint16_t>(count), take_epoch_mark(peer)}};
  const bool waits = change_loan(s, [](loan_fields& f) {
    // It waits already, and this is one WANT too many; or it has gone.
    if ((f.flags & (flag_waiting | flag_gone)) != 0) return false;
    f.flags |= flag_waiting;
    return true;
  });
  if (!waits) return {false, {peer, 0, false}};
  change_lent(s, [count](lent_fields& f) { f.wish = static_cast<std::uint8_t>(count); });
  // R3 waiting  add acq_rel waiting count  <-> R4 (next_revoke)
  waiting_count_.fetch_add(1, std::memory_order_acq_rel);
  wait_list_.push(peer, waiting_links());
  return {false, {peer, 0, false}};
}

template <thread_mode M, template <class> class Atomic, template <class> class Store>
bool ledger<M, Atomic, Store>::next_grant(grant& out) noexcept {
  const conserved at_end{*this};
  while (waiting_count_.load(std::memory_order_relaxed) != 0) {
    const std::uint32_t p = wait_list_.pop(waiting_links());
    if (p == no_peer) return false;
    if (is_gone(p)) {
      (void)lend_in_full(p, 0);  // it waits no more
      waiting_count_.fetch_sub(1, std::memory_order_relaxed);
      continue;
    }
    const std::uint32_t wish = wish_of(p);
    if (fits(loan_of(p), wish) && take_bank(wish, wish) != 0 && lend_in_full(p, wish)) {
      waiting_count_.fetch_sub(1, std::memory_order_relaxed);
      PENSTOCK_ASSERT(wish, !=, 0u);  // it would wait on
      out = {p, static_cast<std::uint16_t>(wish), take_epoch_mark(p)};
      return true;
    }
    wait_list_.push_front(p, waiting_links());  // claim 11
    // R2 bank  add of 0, acq_rel, bank  <-> R1 (fill_bank): either these credits are seen here, or
    //          who brought them finds p on the list. While p was in hand he found nobody. He has
    //          taken them off a loan before, so what is read of p's loan here is as new.
    if (bank_.fetch_add(0, std::memory_order_acq_rel) < wish || !fits(loan_of(p), wish))
      return false;
  }
  return false;
}

template <thread_mode M, template <class> class Atomic, template <class> class Store>
status ledger<M, Atomic, Store>::on_return(std::uint32_t peer, std::uint32_t count,
                                           bool end_epoch) noexcept {
  if (!is_peer(peer)) return status::bad_rank;
  state& s = begun(peer);
  const conserved at_end{*this};
  if (end_epoch) fade_send(s);
  bool known = false;
  const bool accepted = change_loan(s, [&](loan_fields& f) {
    if (known = gone(f); known) return false;
    if ((f.flags & flag_sys_in_flight) == 0 || count > f.loan) return false;
    f.loan = static_cast<std::uint16_t>(f.loan - count);
    f.flags = static_cast<std::uint8_t>(f.flags & ~flag_sys_in_flight);
    if (count == 0) f.flags |= flag_zero_reply;
    return true;
  });
  if (!accepted) return known ? status::ok : status::bad_arguments;
  if (cfg_.revoked == revoked_at::lender)
    change_lent(s, [count](lent_fields& f) { f.revoked = saturated(f.revoked + count); });
  // R5 returned  add release returns  -> R6, R8 (next_revoke): of others, or this thread's own next
  returns_.fetch_add(1, std::memory_order_release);
  fill_bank(count);  // between the cas above and here, this thread holds them
  return status::ok;
}

template <thread_mode M, template <class> class Atomic, template <class> class Store>
std::uint32_t ledger<M, Atomic, Store>::on_gone(std::uint32_t peer) noexcept {
  if (!is_peer(peer)) return 0;
  std::uint32_t back = 0;
  const conserved at_end{*this};
  const bool news = change_loan(begun(peer), [&](loan_fields& f) {
    if (gone(f)) return false;
    back = std::exchange(f.loan, std::uint16_t{0});
    f.flags =
        static_cast<std::uint8_t>((f.flags & ~(flag_sys_in_flight | flag_zero_reply)) | flag_gone);
    return true;
  });
  if (!news) return 0;
  fill_bank(back);  // between the cas above and here, this thread holds them
  return back;
}

// ---- figures

template <thread_mode M, template <class> class Atomic, template <class> class Store>
bool ledger<M, Atomic, Store>::adds_up() const noexcept {
  std::uint64_t sum = bank();
  for (std::uint32_t p = 0; p < cfg_.ranks; ++p) sum += loan(p);
  return sum == cfg_.total_credits();
}

template <thread_mode M, template <class> class Atomic, template <class> class Store>
std::uint32_t ledger<M, Atomic, Store>::loan(std::uint32_t peer) const noexcept {
  if (!is_peer(peer)) return 0;
  return loan_of(peer).loan;
}

template <thread_mode M, template <class> class Atomic, template <class> class Store>
peer_figures ledger<M, Atomic, Store>::figures(std::uint32_t peer) const noexcept {
  const state& s = store_[peer];
  const loan_fields l = loan_of(peer);
  const send_fields b = send_of(peer);
  const auto p = fields<past_fields>(s.past.load(std::memory_order_relaxed));
  peer_figures out{};
  out.loan = l.loan;
  out.given = l.given;
  out.requested = l.requested;
  out.send = std::uint32_t{b.credits} + b.owed;
  out.in_use = b.in_use;
  out.most = std::max(b.most, p.most_last);
  out.owed = b.owed;
  out.stalls = std::uint32_t{p.stalls} + stalls_last_of(p);
  out.revoked = std::uint32_t{p.revoked} + p.revoked_last;
  out.listed = (l.flags & flag_listed) != 0;
  out.waiting = (l.flags & flag_waiting) != 0;
  out.sys_in_flight = (l.flags & flag_sys_in_flight) != 0;
  return out;
}

template <thread_mode M, template <class> class Atomic, template <class> class Store>
bool ledger<M, Atomic, Store>::is_idle(std::uint32_t peer) const noexcept {
  const want_state w =
      want_of(fields<past_fields>(store_[peer].past.load(std::memory_order_relaxed)));
  return send_of(peer).in_use == 0 && w != want_state::asked && w != want_state::hinted &&
         (loan_of(peer).flags & flag_sys_in_flight) == 0;
}

}  // namespace penstock::credit
