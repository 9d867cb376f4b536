// A flag that any thread raises when it has told something, and any thread takes down to see to
// what was told. All of it is visible to the thread that takes the flag down, whoever raised it.
//
// Raising is an exchange: a store would hide what an earlier thread has told, as a release sequence
// of C++20 ends with it. Cost: one RMW each; a look that finds the flag down is a load.
#pragma once

#include <atomic>

namespace penstock {

class raised_flag {
 public:
  constexpr explicit raised_flag(bool up = false) noexcept : up_(up) {}

  void raise() noexcept {
    // F1 raise  exchange release up_  -> F2
    up_.exchange(true, std::memory_order_release);
  }
  /// A hint: a thread that misses it sees it later.
  [[nodiscard]] bool is_up() const noexcept { return up_.load(std::memory_order_relaxed); }
  /// True if it was up.
  [[nodiscard]] bool take_down() noexcept {
    // F2 take down  exchange acquire up_  <- F1: what was told before
    return is_up() && up_.exchange(false, std::memory_order_acquire);
  }

 private:
  std::atomic<bool> up_;
};

}  // namespace penstock
