// Lets another thread go on in the place of one that runs a client's function inside an owner
// (owner.hpp). The thread inside lends its place while the function runs; a second thread that
// finds the owner held again and again may take it. The first one finds out when the function has
// returned, and is outside from then on.
//
//   lent_    the owner inside which this thread runs a function, or null. Only this thread writes.
//   claim_   its low bits: 0 nobody asks, 1 asked, 2 taken; above them the number of the lending
//            that somebody has asked for.
//
// Who with whom: each thread has one place; any other thread calls try_take().
// Invariants: (L-a) asked -> taken is a compare-and-swap by the thread that takes, asked -> nobody
//   one by the thread whose place it is, which raises the number; so one of them wins for each
//   lending. (L-b) A thread that takes has seen lent_ name the owner after a fence on every thread
//   that came behind its asking. So the function was running when it asked, and its end, which
//   reads claim_ after it has cleared lent_, sees the asking.
// Cost of lending and taking back: three plain accesses of a line of this thread's. Taking costs a
// membarrier (a few µs) and three RMWs.
// A thread that stalls anywhere holds up no other one: another asker goes on where it has stopped.
#pragma once

#include <atomic>
#include <cstdint>

#include "lib/base/owner.hpp"

namespace penstock {

template <thread_mode M, template <class> class Atomic = std::atomic,
          bool (*FenceAll)() noexcept = fence_all_threads>
class relief {
 public:
  /// From here on another thread may take this thread's place inside `end`, until back().
  void lend([[maybe_unused]] const void* end) noexcept {
    // L1 lend  release lent_  -> L2: what was written inside is visible
    if constexpr (concurrent(M)) lent_.store(end, std::memory_order_release);
  }
  /// Ends lend(). True: the caller is inside. False, until outside(): another thread has taken its
  /// place, and leaves the owner some time.
  [[nodiscard]] bool back() noexcept {
    if constexpr (!concurrent(M)) return true;
    // L3 back  store lent_, then load claim_  <-> L4: the compiler keeps the order here, the
    // membarrier of L4 makes the processor have kept it.
    lent_.store(nullptr, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (claim_.load(std::memory_order_relaxed) % next == 0) [[likely]]
      return true;
    return back_slow();
  }

  /// To be called when back() has answered false, before the next lend().
  void outside() noexcept {
    const std::uint32_t seen = claim_.load(std::memory_order_relaxed);
    claim_.store(seen - taken + next, std::memory_order_relaxed);
  }

  /// True: the caller is inside `end` instead of the thread whose place this is. before() is called
  /// when it is certain that the thread stays where it is if the answer is true.
  template <class Before>
  [[nodiscard]] bool try_take(const void* end, Before&& before) noexcept {
    if (lent_.load(std::memory_order_relaxed) != end) return false;
    std::uint32_t seen = claim_.load(std::memory_order_relaxed);
    if (seen % next == taken) return false;
    if (seen % next == nobody &&
        !claim_.compare_exchange_strong(seen, seen + asked, std::memory_order_relaxed,
                                        std::memory_order_relaxed))
      return false;
    seen = seen - seen % next + asked;
    // L4 ask  cas claim_, fence everywhere, load lent_  <-> L3
    // L2 lent  acquire lent_  <- L1
    if (!FenceAll() || lent_.load(std::memory_order_acquire) != end) return false;
    before();
    // relaxed, as in back_slow: it settles who is inside (L-a), and carries nothing
    return claim_.compare_exchange_strong(seen, seen - asked + taken, std::memory_order_relaxed,
                                          std::memory_order_relaxed);
  }

 private:
  static constexpr std::uint32_t nobody = 0, asked = 1, taken = 2, next = 4;
  [[gnu::cold, gnu::noinline]] bool back_slow() noexcept {
    std::uint32_t seen = claim_.load(std::memory_order_relaxed);
    if (seen % next == asked &&
        claim_.compare_exchange_strong(seen, seen - asked + next, std::memory_order_relaxed,
                                       std::memory_order_relaxed))
      return true;
    return false;
  }

  Atomic<const void*> lent_{nullptr};
  Atomic<std::uint32_t> claim_{nobody};
};

}  // namespace penstock
