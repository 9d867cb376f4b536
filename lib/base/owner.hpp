// Try-ownership: who may touch the private side of a queue. A thread that does not get it goes
// elsewhere or polls; nobody ever sleeps on it. While one thread alone uses a queue, entering costs
// no RMW.
//
//   bias_: tag of the thread that enters by plain stores, or 0: then everybody uses lock_.
//   busy_: 1 while the biased thread is inside.    lock_: tag of the thread inside by lock, or 0.
//
// Who with whom: any threads; each object is entered by one at a time, and not twice by the same.
// Invariants: (O-a) the biased thread is inside only if it saw bias_ == itself after busy_ = 1;
//   (O-b) only the holder of lock_ writes bias_, and after clearing it passes a fence on every
//   thread; (O-c) a thread inside by lock has then seen bias_ == 0 and busy_ == 0.
// So two threads cannot both be inside: the biased one either saw bias_ cleared, or its busy_ was
// seen. Cost: biased: three plain accesses of a private line. By lock: one RMW. Taking a bias away:
// one
//   membarrier (a few µs), ever more rarely, as each time doubles what a thread needs to get one.
// A stalled owner holds up the others for this one queue. A thread that ends is outside.
#pragma once

#include <atomic>
#include <cstdint>

#include "lib/base/mode.hpp"

namespace penstock {

/// Makes every thread of the process pass a full fence. False where the kernel cannot.
bool fence_all_threads() noexcept;

template <thread_mode M, template <class> class Atomic = std::atomic,
          bool (*FenceAll)() noexcept = fence_all_threads>
class owner {
 public:
  /// True: the caller is inside until leave(). tag: its thread_tag().
  [[nodiscard]] bool try_enter(std::uint32_t tag) noexcept {
    if constexpr (!concurrent(M)) return true;
    if (bias_.load(std::memory_order_relaxed) == tag) {
      busy_.store(1, std::memory_order_relaxed);
      // O1 enter  store busy_, then load bias_  <-> O2: the compiler keeps the order here, the
      // membarrier of O2 makes the processor have kept it.
      std::atomic_signal_fence(std::memory_order_seq_cst);
      if (bias_.load(std::memory_order_relaxed) == tag) [[likely]]
        return true;
      busy_.store(0, std::memory_order_release);
    }
    return try_enter_slow(tag);
  }

  /// Ends what try_enter began, on the same thread.
  void leave([[maybe_unused]] std::uint32_t tag) noexcept {
    if constexpr (concurrent(M)) {
      // R1 leave  store-release busy_ or lock_  -> A1: what was written inside is visible
      if (lock_.load(std::memory_order_relaxed) == tag)
        lock_.store(0, std::memory_order_release);
      else
        busy_.store(0, std::memory_order_release);
    }
  }

 private:
  bool try_enter_slow(std::uint32_t tag) noexcept {
    std::uint32_t free = 0;
    // A1 enter  acquire lock_  <- R1
    if (!lock_.compare_exchange_strong(free, tag, std::memory_order_acquire,
                                       std::memory_order_relaxed))
      return false;
    // bias_ is written only by the holder of lock_, so nothing changes it from here on.
    if (bias_.load(std::memory_order_relaxed) != 0 && busy_.load(std::memory_order_relaxed) == 0) {
      // O2 revoke  store bias_, fence everywhere, load busy_  <-> O1
      bias_.store(0, std::memory_order_relaxed);
      if (needed_ < 1u << 24) needed_ *= 2;
      FenceAll();
    }
    // A2 outside  acquire busy_  <- R1 of the thread that had the bias
    if (bias_.load(std::memory_order_relaxed) != 0 || busy_.load(std::memory_order_acquire) != 0) {
      lock_.store(0, std::memory_order_release);
      return false;
    }
    settle(tag);
    return true;
  }

  // Inside by lock: a thread that came alone often enough gets the bias from its next entry on.
  void settle(std::uint32_t tag) noexcept {
    if (last_ != tag) {
      last_ = tag;
      alone_ = 0;
    } else if (++alone_ >= needed_) {
      alone_ = 0;
      // Without the fence no bias could be taken back: then entering costs one RMW for ever.
      if (FenceAll())
        bias_.store(tag, std::memory_order_relaxed);  // published by lock_'s release in leave()
    }
  }

  Atomic<std::uint32_t> bias_{0}, busy_{0}, lock_{0};
  std::uint32_t last_ = 0, alone_ = 0, needed_ = 4;  // touched inside by lock only
};

}  // namespace penstock
