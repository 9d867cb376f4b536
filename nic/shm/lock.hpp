// The lock of the generic verbs path: a word, spun on briefly, then yielding the core, since
// threads may outnumber cores. Held for tens of nanoseconds. The direct path takes none.
//
// Order in which they may be nested: completion_queue::poll, queue_pair::sending,
// receive_queue::lock, completion_queue::queue_lock.
#pragma once

#include <atomic>

#include "lib/base/backoff.hpp"

namespace penstock::nic::shm {

class spin_lock {
 public:
  [[nodiscard]] bool try_lock() noexcept {
    // K1 lock  acquire held  <- K2
    return !held_.load(std::memory_order_relaxed) &&
           !held_.exchange(true, std::memory_order_acquire);
  }
  void lock() noexcept {
    backoff wait(32);
    while (!try_lock()) {
      cpu_relax();
      wait.idle();
    }
  }
  // K2 unlock  store-release held  -> K1
  void unlock() noexcept { held_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> held_{false};
};

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
