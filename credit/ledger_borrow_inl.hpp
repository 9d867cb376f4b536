// The ledger's borrower half: spending what peers have lent us. Included by ledger.hpp alone.
#pragma once

#include <algorithm>

#include "credit/ledger.hpp"

namespace penstock::credit {

// ---- records that nobody has touched

template <thread_mode M, template <class> class Atomic, template <class> class Store>
send_fields ledger<M, Atomic, Store>::start_send(const config& c) noexcept {
  return {saturated(c.credits_per_peer), 0, 0, 0};
}

template <thread_mode M, template <class> class Atomic, template <class> class Store>
loan_fields ledger<M, Atomic, Store>::start_loan(const config& c) noexcept {
  const std::uint8_t listed = c.credits_per_peer > min_credits ? flag_listed : 0;
  return {saturated(c.credits_per_peer), 0, 0, 0, static_cast<std::uint8_t>(flag_begun | listed)};
}

template <thread_mode M, template <class> class Atomic, template <class> class Store>
void ledger<M, Atomic, Store>::start(state& s, std::uint32_t peer, const config& c) noexcept {
  if (peer == c.me) return;  // a process lends nothing to itself: all fields stay 0
  std::uint64_t untouched = 0;
  // X1 begin  cas relaxed send, loan: counts. Neither is zero again: a borrower keeps the minimum
  // (C-4), and a loan its flag.
  while (!s.send.compare_exchange_weak(untouched, bits(start_send(c)), std::memory_order_relaxed,
                                       std::memory_order_relaxed) &&
         untouched == 0) {
  }
  untouched = 0;
  while (!s.loan.compare_exchange_weak(untouched, bits(start_loan(c)), std::memory_order_relaxed,
                                       std::memory_order_relaxed) &&
         untouched == 0) {
  }
}

template <thread_mode M, template <class> class Atomic, template <class> class Store>
void ledger<M, Atomic, Store>::begin(state& s, std::uint32_t peer) noexcept {
  start(s, peer, cfg_);
}

template <thread_mode M, template <class> class Atomic, template <class> class Store>
auto ledger<M, Atomic, Store>::begun(std::uint32_t peer) noexcept -> state& {
  state& s = store_[peer];
  if (s.send.load(std::memory_order_relaxed) == 0 || s.loan.load(std::memory_order_relaxed) == 0)
      [[unlikely]]
    begin(s, peer);
  return s;
}

template <thread_mode M, template <class> class Atomic, template <class> class Store>
send_fields ledger<M, Atomic, Store>::send_of(std::uint32_t peer) const noexcept {
  const std::uint64_t w = store_[peer].send.load(std::memory_order_relaxed);
  return untouched(w, peer) ? start_send(cfg_) : fields<send_fields>(w);
}

template <thread_mode M, template <class> class Atomic, template <class> class Store>
loan_fields ledger<M, Atomic, Store>::loan_of(std::uint32_t peer) const noexcept {
  const std::uint64_t w = store_[peer].loan.load(std::memory_order_relaxed);
  return untouched(w, peer) ? start_loan(cfg_) : fields<loan_fields>(w);
}

// ---- credits

template <thread_mode M, template <class> class Atomic, template <class> class Store>
std::uint32_t ledger<M, Atomic, Store>::take_up_to(std::uint32_t peer, std::uint32_t min,
                                                   std::uint32_t want,
                                                   std::uint32_t left) noexcept {
  if (!cfg_.flow_control) [[unlikely]]
    return want;
  auto& w = store_[peer].send;
  std::uint64_t old = w.load(std::memory_order_relaxed);
  for (;;) {
    // send_fields by hand: this is the hot path.
    const auto credits = static_cast<std::uint32_t>(old & 0xffff);
    const auto used = static_cast<std::uint32_t>(old >> 16 & 0xffff);
    const auto most = static_cast<std::uint32_t>(old >> 32 & 0xffff);
    if (used + min + left > credits) {
      if (!untouched(old, peer)) return 0;
      begin(store_[peer], peer);
      old = w.load(std::memory_order_relaxed);
      continue;
    }
    const std::uint32_t n = std::min(want, credits - used - left);
    PENSTOCK_ASSERT(n, >=, min);
    std::uint64_t now = old + (std::uint64_t{n} << 16);
    if (used + n > most) now += std::uint64_t{used + n - most} << 32;
    check(fields<send_fields>(now));
    // X1 take  cas relaxed send: claims a count, no memory depends on it
    if (w.compare_exchange_weak(old, now, std::memory_order_relaxed, std::memory_order_relaxed))
        [[likely]]
      return n;
  }
}

template <thread_mode M, template <class> class Atomic, template <class> class Store>
void ledger<M, Atomic, Store>::give_back(std::uint32_t peer, std::uint32_t n) noexcept {
  if (cfg_.flow_control) static_cast<void>(add_credits(peer, n, 0));
}

template <thread_mode M, template <class> class Atomic, template <class> class Store>
[[gnu::always_inline]] inline status ledger<M, Atomic, Store>::add_credits(
    std::uint32_t peer, std::uint32_t returned, std::uint32_t granted) noexcept {
  auto& w = store_[peer].send;
  std::uint64_t old = w.load(std::memory_order_relaxed);
  for (;;) {
    const auto credits = static_cast<std::uint32_t>(old & 0xffff);
    const auto used = static_cast<std::uint32_t>(old >> 16 & 0xffff);
    const auto owed = static_cast<std::uint32_t>(old >> 48);
    if (untouched(old, peer)) [[unlikely]] {
      begin(store_[peer], peer);
      old = w.load(std::memory_order_relaxed);
      continue;
    }
    if (returned > used || granted > counter_max - credits - owed) [[unlikely]]
      return status::bad_arguments;
    std::uint64_t now = old - (std::uint64_t{returned} << 16) + granted;
    if (owed != 0 && granted != 0 && returned != 0) [[unlikely]]
      now = (now & ~(std::uint64_t{0xffff} << 48)) + owed;  // no request waits now: see ledger.hpp
    check(fields<send_fields>(now));
    // X1 return  cas relaxed send: a count
    if (w.compare_exchange_weak(old, now, std::memory_order_relaxed, std::memory_order_relaxed))
        [[likely]]
      return status::ok;
  }
}

template <thread_mode M, template <class> class Atomic, template <class> class Store>
status ledger<M, Atomic, Store>::on_credits(std::uint32_t peer, std::uint32_t returned,
                                            std::uint32_t granted, bool end_epoch) noexcept {
  if (!is_peer(peer)) [[unlikely]]
    return status::bad_rank;
  if (!cfg_.flow_control) [[unlikely]]
    return status::ok;
  if (end_epoch) [[unlikely]]
    fade_send(begun(peer));
  return add_credits(peer, returned, granted);
}

template <thread_mode M, template <class> class Atomic, template <class> class Store>
template <class Change>
past_fields ledger<M, Atomic, Store>::change_past(state& s, Change&& change) noexcept {
  std::uint64_t old = s.past.load(std::memory_order_relaxed);
  for (;;) {
    past_fields f = fields<past_fields>(old);
    change(f);
    // X1 past  cas relaxed past: statistics
    if (bits(f) == old || s.past.compare_exchange_weak(old, bits(f), std::memory_order_relaxed,
                                                       std::memory_order_relaxed))
      return fields<past_fields>(old);
  }
}

template <thread_mode M, template <class> class Atomic, template <class> class Store>
std::uint32_t ledger<M, Atomic, Store>::note_stall(std::uint32_t peer, std::uint32_t n) noexcept {
  state& s = begun(peer);
  const auto f = fields<send_fields>(s.send.load(std::memory_order_relaxed));
  const std::uint32_t free = f.credits - std::min(f.credits, f.in_use);
  change_past(s, [](past_fields& p) { p.stalls = saturated8(p.stalls + 1U); });
  if (f.credits < stream_credits) small_stall_.store(1, std::memory_order_relaxed);
  return n - std::min(n, free);
}

template <thread_mode M, template <class> class Atomic, template <class> class Store>
bool ledger<M, Atomic, Store>::mark_want(state& s, want_state now) noexcept {
  // A grant that turned out too small may be asked to grow, so `granted` is no obstacle.
  const auto in_flight = [](const past_fields& f) {
    return want_of(f) == want_state::asked || want_of(f) == want_state::hinted;
  };
  return !in_flight(change_past(s, [&](past_fields& f) {
    if (!in_flight(f)) f.stalls_last_want = stalls_last_want(stalls_last_of(f), now);
  }));
}

template <thread_mode M, template <class> class Atomic, template <class> class Store>
std::uint32_t ledger<M, Atomic, Store>::begin_want(std::uint32_t peer, std::uint32_t n) noexcept {
  state& s = begun(peer);
  const auto f = fields<send_fields>(s.send.load(std::memory_order_relaxed));
  if (n <= f.credits || !cfg_.dynamic || !cfg_.flow_control) return 0;
  // Not n - credits: a REVOKE under way may take the credits above the minimum, and its RETURN may
  // reach the lender before this WANT does. The minimum stays, so this is enough in either case.
  return mark_want(s, want_state::asked) ? n - std::min(n, min_credits) : 0;
}

template <thread_mode M, template <class> class Atomic, template <class> class Store>
want ledger<M, Atomic, Store>::next_want(std::uint32_t peer, std::uint32_t n, stall& waiting,
                                         bool blocked) noexcept {
  if (blocked)
    if (const std::uint32_t urgent = begin_want(peer, n); urgent != 0) return {urgent, true};
  if (waiting.asks == most_asks) return {0, false};
  const std::uint32_t held = send_credits(peer);
  const want w{hint(peer, held + std::max(held, stream_credits_of(n))), false};
  if (w.count != 0) ++waiting.asks;
  return w;
}

template <thread_mode M, template <class> class Atomic, template <class> class Store>
std::uint32_t ledger<M, Atomic, Store>::early_want(std::uint32_t peer, std::uint32_t n) noexcept {
  // relaxed: a guess at what will be needed; to ask once more or less does no harm
  if (small_stall_.load(std::memory_order_relaxed) == 0) return 0;
  const std::uint32_t held = send_credits(peer);
  if (held >= stream_credits) return 0;
  const std::uint32_t wanted = hint(peer, held + stream_credits_of(n));
  if (wanted != 0) small_stall_.store(0, std::memory_order_relaxed);
  return wanted;
}

template <thread_mode M, template <class> class Atomic, template <class> class Store>
void ledger<M, Atomic, Store>::end_stall(std::uint32_t peer) noexcept {
  change_past(store_[peer], [](past_fields& f) {
    // Granted credits are no longer kept, and those still to be granted will not be.
    const want_state w = want_of(f);
    const want_state now = w == want_state::granted ? want_state::none
                           : w == want_state::asked ? want_state::hinted
                                                    : w;
    f.stalls_last_want = stalls_last_want(stalls_last_of(f), now);
  });
}

template <thread_mode M, template <class> class Atomic, template <class> class Store>
std::uint32_t ledger<M, Atomic, Store>::hint(std::uint32_t peer, std::uint32_t wanted) noexcept {
  if (!is_peer(peer) || !cfg_.dynamic || !cfg_.flow_control) return 0;
  state& s = begun(peer);
  const auto f = fields<send_fields>(s.send.load(std::memory_order_relaxed));
  wanted = std::min(wanted, cfg_.max_per_peer);
  if (wanted <= f.credits) return 0;
  return mark_want(s, want_state::hinted) ? wanted - f.credits : 0;
}

template <thread_mode M, template <class> class Atomic, template <class> class Store>
status ledger<M, Atomic, Store>::on_grant(std::uint32_t peer, std::uint32_t count,
                                          bool end_epoch) noexcept {
  if (!is_peer(peer)) return status::bad_rank;
  if (!cfg_.flow_control) return status::ok;
  state& s = begun(peer);
  if (end_epoch) fade_send(s);
  const want_state before = want_of(fields<past_fields>(s.past.load(std::memory_order_relaxed)));
  if (before != want_state::asked && before != want_state::hinted) return status::bad_arguments;
  const status added = add_credits(peer, 0, count);
  if (added != status::ok) return added;
  change_past(s, [count](past_fields& f) {
    // By now the request that waited may have its credits: end_stall has made it a hint then.
    const bool keep = want_of(f) == want_state::asked && count != 0;
    f.stalls_last_want =
        stalls_last_want(stalls_last_of(f), keep ? want_state::granted : want_state::none);
  });
  return status::ok;
}

template <thread_mode M, template <class> class Atomic, template <class> class Store>
void ledger<M, Atomic, Store>::fade_send(state& s) noexcept {
  const bool shift = cfg_.fade == decay::shift;
  std::uint64_t old = s.send.load(std::memory_order_relaxed);
  send_fields f;
  do {
    f = fields<send_fields>(old);
    f.most = std::max<std::uint16_t>(f.in_use, shift ? faded(f.most) : 0);
    PENSTOCK_ASSERT(f.most, >=, f.in_use);
    // X1 fade  cas relaxed send: counts
  } while (!s.send.compare_exchange_weak(old, bits(f), std::memory_order_relaxed,
                                         std::memory_order_relaxed));
  const std::uint16_t most = fields<send_fields>(old).most;
  change_past(s, [shift, most](past_fields& p) {
    std::uint32_t last = 0;
    if (shift) {
      // A number of credits that was in use at the peak of a whole epoch is needed again, though
      // little of the present epoch has passed. Without this, a REVOKE that comes just now would
      // find only the faded number.
      p.most_last = most;
      p.revoked = faded(p.revoked);
      p.stalls = static_cast<std::uint8_t>(p.stalls >> 2);
    } else {
      p.revoked_last = blended(p.revoked_last, p.revoked);
      p.most_last = blended(p.most_last, most);
      last = blended(stalls_last_of(p), p.stalls);
      p.revoked = 0;
      p.stalls = 0;
    }
    p.stalls_last_want = stalls_last_want(last, want_of(p));
  });
}

template <thread_mode M, template <class> class Atomic, template <class> class Store>
revoke_answer ledger<M, Atomic, Store>::on_revoke(std::uint32_t peer, bool end_epoch, bool urgent,
                                                  std::uint32_t at_most) noexcept {
  if (!is_peer(peer)) return {0, false};
  state& s = begun(peer);
  if (end_epoch) fade_send(s);
  const auto p = fields<past_fields>(s.past.load(std::memory_order_relaxed));
  // What the statistics allow to give back: nothing after a stall, at most revoke_limit in an
  // epoch.
  std::uint32_t allowed = 0;
  if (p.stalls == 0 && stalls_last_of(p) == 0) {
    const std::uint32_t gone = std::uint32_t{p.revoked} + p.revoked_last;
    allowed = cfg_.revoked == revoked_at::lender ? at_most
              : gone < cfg_.revoke_limit         ? cfg_.revoke_limit - gone
                                                 : 0;
  }
  if (want_of(p) == want_state::granted) {  // kept for the request that waits
    urgent = false;
    allowed = 0;
  }

  std::uint64_t old = s.send.load(std::memory_order_relaxed);
  std::uint32_t count = 0;
  send_fields f;
  do {
    f = fields<send_fields>(old);
    const std::uint32_t held = std::uint32_t{f.credits} + f.owed;
    const std::uint32_t idle =
        held - std::min<std::uint32_t>(held, std::max<std::uint32_t>(f.in_use, min_credits));
    if (urgent) {
      const std::uint32_t recalled =
          std::max<std::uint32_t>(f.owed, std::min(at_most, held - std::min(held, min_credits)));
      count = std::min({recalled, idle, at_most});
      f.credits = static_cast<std::uint16_t>(held - recalled);
      f.owed = static_cast<std::uint16_t>(recalled - count);
    } else if (f.owed != 0) {
      count = std::min({std::uint32_t{f.owed}, idle, at_most});
      f.owed = static_cast<std::uint16_t>(f.owed - count);
    } else {
      const std::uint32_t keep = std::max({std::uint32_t{f.most}, std::uint32_t{p.most_last},
                                           std::uint32_t{f.in_use}, min_credits});
      const std::uint32_t spare = held - std::min(held, keep);
      count = std::min({spare, allowed, at_most});
      f.credits = static_cast<std::uint16_t>(f.credits - count);
    }
    check(f);  // what is in use is not given back
    PENSTOCK_ASSERT(std::uint32_t{f.credits} + f.owed + count, ==, held);
    PENSTOCK_ASSERT(count, <=, at_most);
    // X1 give up  cas relaxed send: from here on the credits are in the RETURN
  } while (!s.send.compare_exchange_weak(old, bits(f), std::memory_order_relaxed,
                                         std::memory_order_relaxed));
  if (count != 0)
    change_past(s, [count](past_fields& q) { q.revoked = saturated(q.revoked + count); });
  return {static_cast<std::uint16_t>(count), take_epoch_mark(peer)};
}

template <thread_mode M, template <class> class Atomic, template <class> class Store>
void ledger<M, Atomic, Store>::on_lowered(std::uint32_t peer) noexcept {
  if (!is_peer(peer) || cfg_.credits_per_peer <= min_credits) return;
  auto& w = begun(peer).send;
  PENSTOCK_ASSERT(send_of(peer).credits, >=, cfg_.credits_per_peer);
  // X1 lower  sub relaxed send: a count; none of them is in use, and no REVOKE has come
  w.fetch_sub(cfg_.credits_per_peer - min_credits, std::memory_order_relaxed);
}

template <thread_mode M, template <class> class Atomic, template <class> class Store>
std::uint32_t ledger<M, Atomic, Store>::send_credits(std::uint32_t peer) const noexcept {
  const send_fields f = send_of(peer);
  return std::uint32_t{f.credits} + f.owed;
}

template <thread_mode M, template <class> class Atomic, template <class> class Store>
std::uint32_t ledger<M, Atomic, Store>::in_use(std::uint32_t peer) const noexcept {
  return fields<send_fields>(store_[peer].send.load(std::memory_order_relaxed)).in_use;
}

}  // namespace penstock::credit
