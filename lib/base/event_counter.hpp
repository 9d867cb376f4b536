// A counter that one thread at a time adds to, and any thread may read; what it reads may be a
// moment old. It costs what a plain number costs.
#pragma once

#include <atomic>
#include <cstdint>

namespace penstock {

class event_counter {
 public:
  /// Adds n. The caller excludes other threads that call add().
  void add(std::uint64_t n) noexcept {
    // relaxed: the count orders nothing
    count_.store(count_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  /// Adds n by a read-modify-write; several threads may call it at once.
  void add_shared(std::uint64_t n) noexcept { count_.fetch_add(n, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t read() const noexcept {
    return count_.load(std::memory_order_relaxed);
  }

 private:
  std::atomic<std::uint64_t> count_{0};
};

}  // namespace penstock
