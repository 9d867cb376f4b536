// The lock of the generic verbs path. One thread of the program usually does all the work of a
// queue. Once the lock has seen that, it favours this thread, which then enters by plain stores.
// Other threads must then make every thread pass a fence (membarrier, a few microseconds) and wait
// until the favoured one is outside. If they come often, the lock becomes an ordinary word that
// every thread takes by one locked instruction. A waiting thread spins briefly, then yields the
// core, since threads may outnumber cores. The lock is held for tens of nanoseconds. The direct
// path takes none.
//
//   favoured_: mark of the thread that enters by busy_ alone; 0: none yet;
//              abolished: none any more.   busy_: it is inside.   held_: another thread is.
//
// Invariants: (K-a) only the holder of held_ writes favoured_, and a thread gets the favour once in
// the life of a lock; (K-b) the favoured thread is inside only if it saw favoured_ its own and
// held_ false after its busy_ = true; (K-c) another is inside only if, after it had held_, every
// thread has passed a fence and busy_ was false; or no thread was favoured.
// So two cannot be inside: the favoured thread saw held_, or its busy_ was seen. A mark that comes
// back belongs to a thread that began when the former one had ended, outside.
//
// Order in which they may be nested: completion_queue::poll, queue_pair::sending,
// receive_queue::lock, completion_queue::queue_lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <type_traits>

#include "lib/base/assert.hpp"
#include "lib/base/backoff.hpp"
#include "lib/base/owner.hpp"

namespace penstock::nic::shm {

/// Its address is a thread's mark: no other thread that is alive has it. Defined in fence.cpp. Its
/// value: 1 in the device's own threads, which come seldom, are never favoured and end no favour.
extern thread_local constinit char thread_mark __attribute__((tls_model("initial-exec")));

/// FenceAll: as in lib/base/owner.hpp. Enough: entries in a row after which a thread is favoured.
/// TooMany: entries of others after which it no longer is.
template <template <class> class Atomic = std::atomic,
          bool (*FenceAll)() noexcept = fence_all_threads, std::uint32_t Enough = 64,
          std::uint32_t TooMany = 256>
class favouring_lock {
 public:
  [[nodiscard]] bool try_lock() noexcept { return try_lock_as(this_thread()); }
  void lock() noexcept {
    const std::uintptr_t me = this_thread();
    if (try_lock_favoured(me)) [[likely]]
      return;
    backoff wait(32);
    while (!try_lock_as(me)) {
      cpu_relax();
      wait.idle();
    }
  }
  void unlock() noexcept {
    holder_ = 0;
    // K2 leave  store-release busy_ or held_  -> K1, K4
    if (by_favour_)
      busy_.store(false, std::memory_order_release);
    else
      held_.store(false, std::memory_order_release);
  }

  /// For assertions, in builds that have them: whether the calling thread is inside.
  [[nodiscard]] bool is_mine() const noexcept {
    if constexpr (assertions) return holder_ == this_thread();
    return true;
  }

  /// try_lock() by the thread of that number, which is not 0 or 1.
  [[nodiscard]] bool try_lock_as(std::uintptr_t me) noexcept {
    return try_lock_favoured(me) || try_lock_slow(me);
  }

 private:
  static std::uintptr_t this_thread() noexcept {
    return reinterpret_cast<std::uintptr_t>(&thread_mark);
  }

  [[nodiscard]] bool try_lock_favoured(std::uintptr_t me) noexcept {
    if (favoured_.load(std::memory_order_relaxed) != me) return false;
    busy_.store(true, std::memory_order_relaxed);
    // K3 enter  store busy_, then load held_, favoured_  <-> K4: the compiler keeps the order here,
    // the membarrier of K4 makes the processor have kept it.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    // K1 enter  load-acquire held_  <- K2
    if (!held_.load(std::memory_order_acquire) && favoured_.load(std::memory_order_relaxed) == me)
        [[likely]] {
      by_favour_ = true;
      holder_ = me;
      return true;
    }
    busy_.store(false, std::memory_order_release);  // release: as K2, to the thread at K4
    return false;
  }

  [[gnu::noinline]] bool try_lock_slow(std::uintptr_t me) noexcept {
    // K1 enter  acquire held_  <- K2
    if (held_.load(std::memory_order_relaxed) || held_.exchange(true, std::memory_order_acquire))
      return false;
    const std::uintptr_t favoured = favoured_.load(std::memory_order_relaxed);
    if (favoured == abolished) {
      by_favour_ = false;
      holder_ = me;
      return true;
    }
    if (favoured == me) {  // another was inside until now; the next try is short
      held_.store(false,
                  std::memory_order_release);  // release: what the last holder did is passed on
      return false;
    }
    if (favoured != 0) {
      FenceAll();
      // K4 outside  after the fence, load-acquire busy_  <- K2, <-> K3
      if (busy_.load(std::memory_order_acquire)) {
        held_.store(false, std::memory_order_release);
        return false;
      }
      if (thread_mark == 0 && ++foreign_ >= TooMany)
        favoured_.store(abolished, std::memory_order_relaxed);
    } else if (thread_mark == 0) {
      find_favourite(me);
    }
    by_favour_ = false;
    holder_ = me;
    return true;
  }

  // Called inside, while no thread is favoured: favours a thread that has entered often enough
  // alone. Without the fence a favoured thread could not be kept out, so then none is favoured.
  void find_favourite(std::uintptr_t me) noexcept {
    if (last_ != me) {
      last_ = me;
      alone_ = 0;
    } else if (++alone_ == Enough) {
      favoured_.store(FenceAll() ? me : abolished, std::memory_order_relaxed);
    }
  }

  static constexpr std::uintptr_t abolished = 1;
  struct nothing {
    void operator=(std::uintptr_t) noexcept {}
  };

  Atomic<std::uintptr_t> favoured_{0};
  Atomic<bool> busy_{false}, held_{false};
  // Touched inside only.
  bool by_favour_ = false;
  std::uint32_t alone_ = 0, foreign_ = 0;
  std::uintptr_t last_ = 0;
  [[no_unique_address]] std::conditional_t<assertions, std::uintptr_t, nothing> holder_{};
};

using spin_lock = favouring_lock<>;

/// Holds a lock for a scope.
class hold {
 public:
  explicit hold(spin_lock& l) noexcept : lock_(l) { lock_.lock(); }
  ~hold() { lock_.unlock(); }
  hold(const hold&) = delete;
  hold& operator=(const hold&) = delete;

 private:
  spin_lock& lock_;
};

}  // namespace penstock::nic::shm
