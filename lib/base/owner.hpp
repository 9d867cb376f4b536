// Try-ownership: the thread inside an owner may touch the private side of a queue. A thread that
// does not get inside goes elsewhere or polls; no thread sleeps on an owner. While one thread alone
// uses a queue, entering costs no RMW.
//
//   bias_: tag of the thread that enters by plain stores, and its slot; 0: all threads use lock_.
//   busy_[slot]: 1 while that thread is inside.    lock_: tag of the thread inside by lock, or 0.
//
// Who with whom: any threads; each object is entered by one at a time, and not twice by the same.
// Invariants: (O-a) the biased thread is inside only if it saw bias_ unchanged after its busy_ = 1;
//   (O-b) only the holder of lock_ writes bias_, and after clearing it passes a fence on every
//   thread; (O-c) a thread inside by lock has then seen bias_ == 0 and busy_ == 0 in the last
//   bias's slot; (O-d) a slot goes to another thread only when the one that had it has been inside
//   by lock since.
// So two threads cannot both be inside: the biased one either saw bias_ cleared, or its busy_ was
// seen. (O-d) is for a thread that read bias_ long ago and writes its busy_ now: no other thread's
// state is in that slot. Cost of an entry: three plain accesses of a private line with the bias,
// one RMW by lock, which also waits for all stores before it to leave the core. To take a bias away
// costs one membarrier (a few µs). That becomes rarer, since each time doubles the number of
// entries after which a thread gets a bias, up to 128. A stalled owner holds up the other threads
// for this one queue. A thread that ends is outside.
//
//   asked_: 1 while something was left for the thread inside that no thread has seen to yet.
//
// A thread that need not wait leaves its object (hand_over.hpp) and asks; the thread that leaves
// the owner looks whether another has asked. (O-e) When try_enter_or_ask() answers false, a thread
// that leaves later hears of it: its exit comes after the fence of O3, and so does its look. A
// thread that failed to enter, but held lock_ meanwhile, looks once more, so that no asker mistakes
// it for a thread inside. Where the kernel has no such fence, no thread surely hears, and polls
// have to find what was left.
//
// Another thread may take the place of the one inside (relief.hpp). It is then inside as that one
// was: by lock_, which it makes its own, or by busy_ of the last bias. (O-f) The thread that is
// outside then gives its bias up before it enters again, so it does not mistake that busy_ for its
// own.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

#include "lib/base/mode.hpp"

namespace penstock {

/// Makes every thread of the process pass a full fence. False where the kernel cannot.
bool fence_all_threads() noexcept;

/// Alone: the number of entries by lock in a row after which a thread gets the first bias.
template <thread_mode M, template <class> class Atomic = std::atomic,
          bool (*FenceAll)() noexcept = fence_all_threads, std::uint32_t Alone = 4>
class owner {
 public:
  /// True: the caller is inside until leave(). tag: its thread_tag().
  [[nodiscard]] bool try_enter(std::uint32_t tag) noexcept {
    return try_enter_biased(tag) || try_enter_slow(tag);
  }

  /// try_enter(), but false wherever it would take more than plain stores: no call.
  [[nodiscard]] bool try_enter_biased(std::uint32_t tag) noexcept {
    if constexpr (!concurrent(M)) return true;
    const std::uint32_t bias = bias_.load(std::memory_order_relaxed);
    if ((bias & tag_mask) == tag) {
      auto& busy = busy_[bias >> slot_shift];
      busy.store(1, std::memory_order_relaxed);
      // O1 enter  store busy_, then load bias_  <-> O2: the compiler keeps the order here, the
      // membarrier of O2 makes the processor have kept it.
      std::atomic_signal_fence(std::memory_order_seq_cst);
      if (bias_.load(std::memory_order_relaxed) == bias) [[likely]]
        return true;
      // O5 outside  seq_cst busy_, then lock_ (O6)  <-> O7: see there
      // R3 outside  release busy_  -> A2
      busy.store(0, std::memory_order_seq_cst);
    }
    return false;
  }

  /// Ends what try_enter began, on the same thread.
  void leave([[maybe_unused]] std::uint32_t tag) noexcept {
    if constexpr (concurrent(M)) {
      // R1 leave  store-release busy_ or lock_  -> A1, A2: what was written inside is visible
      if (lock_.load(std::memory_order_relaxed) == tag)
        lock_.store(0, std::memory_order_release);
      else
        busy_[slot_].store(0, std::memory_order_release);
    }
  }

  /// True: the caller is inside until leave(), instead of another thread. try_take(tag, before)
  /// is to take the place of the thread with that tag if it lends its place inside this owner, and
  /// calls before() when that thread cannot leave any more, should the answer be true.
  template <class TryTake>
  [[nodiscard]] bool try_relieve(std::uint32_t tag, TryTake&& try_take) noexcept {
    if constexpr (!concurrent(M)) return false;
    // relaxed: all three are hints; try_take knows who is inside
    for (const std::uint32_t who :
         {relieved_by_.load(std::memory_order_relaxed), lock_.load(std::memory_order_relaxed),
          bias_.load(std::memory_order_relaxed) & tag_mask}) {
      bool by_lock = false;
      if (who == 0 || who == tag ||
          !try_take(who, [&] { by_lock = lock_.load(std::memory_order_relaxed) == who; }))
        continue;
      if (by_lock) lock_.store(tag, std::memory_order_relaxed);
      relieved_by_.store(tag, std::memory_order_relaxed);
      return true;
    }
    return false;
  }
  /// Whether the thread of that tag is inside, for assertions: it may ask about itself alone.
  [[nodiscard]] bool held_by(std::uint32_t tag) const noexcept {
    if constexpr (!concurrent(M)) return true;
    // relaxed: a thread that is inside sees its own stores, or those of the one that it relieved
    return lock_.load(std::memory_order_relaxed) == tag ||
           (busy_[slot_].load(std::memory_order_relaxed) != 0 &&
            (tenant_[slot_] == tag || relieved_by_.load(std::memory_order_relaxed) == tag));
  }
  /// For a thread whose place another one has taken, before it enters again (O-f).
  void give_bias_up(std::uint32_t tag) noexcept {
    std::uint32_t bias = bias_.load(std::memory_order_relaxed);
    if ((bias & tag_mask) == tag)
      bias_.compare_exchange_strong(bias, 0, std::memory_order_relaxed, std::memory_order_relaxed);
  }

  /// For a thread that has left an object where the thread inside will find it. True: no thread was
  /// inside, and the caller is now. False: the next thread that leaves is told.
  [[nodiscard]] bool try_enter_or_ask(std::uint32_t tag) noexcept {
    if constexpr (!concurrent(M)) return true;
    // O3 ask  exchange asked_, fence everywhere, load lock_ and busy_  <-> O4
    // R2 left  release asked_  -> A3: what was left behind is visible
    if (asked_.exchange(1, std::memory_order_release) != 0) return false;
    if (!FenceAll())
      while (!try_enter(tag)) std::this_thread::yield();
    else if (!try_enter(tag))
      return false;
    return true;
  }
  /// For a thread that has just left: true if another thread has asked.
  [[nodiscard]] bool asked() const noexcept {
    if constexpr (!concurrent(M)) return false;
    // O4 look  store lock_ or busy_ (leave), then load asked_  <-> O3: as O1
    std::atomic_signal_fence(std::memory_order_seq_cst);
    return asked_.load(std::memory_order_relaxed) != 0;
  }
  /// To be called before the caller takes what was left. Any thread.
  void heard() noexcept {
    // A3 heard  acquire asked_  <- R2
    asked_.exchange(0, std::memory_order_acquire);
  }

 private:
  [[gnu::noinline]] bool try_enter_slow(std::uint32_t tag) noexcept {
    while (true) {
      std::uint32_t free = 0;
      // A1 enter  acquire lock_  <- R1
      // O6 enter  seq_cst lock_, after busy_ (O5)  <-> O7
      if (!lock_.compare_exchange_strong(free, tag, std::memory_order_seq_cst,
                                         std::memory_order_seq_cst))
        return false;
      // Only the holder of lock_ writes bias_, so no other thread changes it from here on.
      auto& busy = busy_[slot_];
      if (bias_.load(std::memory_order_relaxed) != 0 && busy.load(std::memory_order_relaxed) == 0) {
        // O2 revoke  store bias_, fence everywhere, load busy_  <-> O1
        bias_.store(0, std::memory_order_relaxed);
        if ((Alone << doubled_) < most_needed) ++doubled_;
        FenceAll();
      }
      // A2 outside  acquire busy_  <- R1, R3: of the thread that had the bias
      if (bias_.load(std::memory_order_relaxed) == 0 && busy.load(std::memory_order_acquire) == 0)
        break;
      // A thread that was told meanwhile that another is inside may have met this one only, while
      // the thread of busy_ was about to find itself outside (O-e).
      // O7 look again  seq_cst lock_, then busy_  <-> O5, O6: these two stores and two loads have
      // one order, so that one sees lock_ free, or this one sees its busy_ cleared.
      lock_.exchange(0, std::memory_order_seq_cst);
      if (asked_.load(std::memory_order_relaxed) == 0 || busy.load(std::memory_order_seq_cst) != 0)
        return false;
    }
    settle(tag);
    return true;
  }

  // Called inside by lock, when no thread has the bias. A thread that has entered often enough
  // without another gets the bias from its next entry on.
  void settle(std::uint32_t tag) noexcept {
    unsigned free = slots;
    for (unsigned i = 0; i < slots; ++i) {
      if (tenant_[i] == tag) tenant_[i] = 0;
      if (tenant_[i] == 0) free = i;
    }
    if (last_ != tag) {
      last_ = tag;
      alone_ = 0;
    } else if (++alone_ >= Alone << doubled_) {
      alone_ = 0;
      // Without the fence no bias could be taken away again, so none is given, and every entry
      // costs one RMW.
      if (free == slots || !FenceAll()) return;
      tenant_[free] = static_cast<std::uint16_t>(tag);
      slot_ = static_cast<std::uint8_t>(free);
      // published by lock_'s release in leave()
      bias_.store(tag | free << slot_shift, std::memory_order_relaxed);
    }
  }

  // The two membarriers that a bias costs take about as long as this many entries by lock.
  static constexpr std::uint32_t most_needed = 128;
  static constexpr unsigned slots = 4, slot_shift = 16;
  static constexpr std::uint32_t tag_mask = 0xffff;

  Atomic<std::uint32_t> bias_{0}, lock_{0};
  Atomic<std::uint8_t> busy_[slots] = {};
  Atomic<std::uint8_t> asked_{0};
  Atomic<std::uint32_t> relieved_by_{0};  // tag of the last thread that has taken another's place
  // Only a thread inside touches these.
  std::uint8_t slot_ = 0;  // of the last bias
  std::uint16_t tenant_[slots] = {};
  std::uint32_t last_ = 0, alone_ = 0;
  std::uint32_t doubled_ = 0;  // how often Alone has been doubled
};

}  // namespace penstock
