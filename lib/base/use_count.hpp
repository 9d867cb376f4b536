// How many others use an object, which is destroyed only when nobody does: a queue whose queue
// pairs are counted, a region whose windows are.
#pragma once

#include <atomic>
#include <cstdint>

#include "lib/base/assert.hpp"

namespace penstock {

class use_count {
 public:
  /// One more uses the object. Any thread that may use it may call this.
  void begin() noexcept {
    n_.fetch_add(1, std::memory_order_relaxed);
  }  // relaxed: it reads nothing
  /// One of them uses it no more; from here on it may go.
  void end() noexcept {
    // U1 end  release n_  -> U2
    [[maybe_unused]] const std::uint32_t before = n_.fetch_sub(1, std::memory_order_release);
    PENSTOCK_ASSERT(before, !=, 0u);
  }
  /// True if nobody uses it, and what the users did lies behind the caller.
  [[nodiscard]] bool none() const noexcept {
    return n_.load(std::memory_order_acquire) == 0;  // U2 none  acquire n_  <- U1
  }

 private:
  std::atomic<std::uint32_t> n_{0};
};

}  // namespace penstock
