// When a thread that waits naps instead of yielding its core. A process that computes keeps the
// core for its whole time slice, some milliseconds, after every yield of this one; but a thread
// that wakes from a nap gets the core at once. So after a long yield the next waits nap. poll.cpp
// uses it.
//
// One long yield says little: a process was just starting, or somebody copied a megabyte. It makes
// one wait nap, and each further one twice as many, up to the number at which the naps take about
// three times as long as the yield that finds out whether the core is still wanted. After many
// short yields in a row a long one counts as the first again; and after two naps in a row that
// ended late, since naps are no better than yields then: the core is kept by somebody who is not
// preempted either, such as a peer that polls all the time.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace penstock::conduit {

/// The object is the process's, since the whole host is crowded. Threads: any. All accesses are
/// relaxed: a nap more or less does not matter.
class naps {
 public:
  /// True: the wait naps, and does not yield.
  [[nodiscard]] bool is_due() noexcept {
    const std::uint32_t left = left_.load(std::memory_order_relaxed);
    if (left != 0) left_.store(left - 1, std::memory_order_relaxed);
    return left != 0;
  }
  /// Notes that a yield took so long.
  void yielded(std::uint64_t took_ns) noexcept {
    std::uint32_t next = next_.load(std::memory_order_relaxed);
    if (took_ns > long_ns) {
      left_.store(next, std::memory_order_relaxed);
      next = std::min(2 * next, most);
      short_.store(0, std::memory_order_relaxed);
    } else if (next == first) [[likely]] {
      return;
    } else {
      const std::uint32_t in_a_row = short_.load(std::memory_order_relaxed) + 1;
      short_.store(in_a_row, std::memory_order_relaxed);
      if (in_a_row < calm) return;
      next = first;
    }
    next_.store(next, std::memory_order_relaxed);
  }

  /// Notes that a nap took so long.
  void napped(std::uint64_t took_ns) noexcept {
    const bool late = took_ns > long_ns, again = late_.load(std::memory_order_relaxed);
    if (late != again) late_.store(late, std::memory_order_relaxed);
    if (!late || !again) return;
    left_.store(0, std::memory_order_relaxed);
    next_.store(first, std::memory_order_relaxed);
    short_.store(0, std::memory_order_relaxed);
  }

  static constexpr std::uint64_t long_ns = 1'000'000;    ///< a nap of 50 us takes 0.1 ms
  static constexpr std::uint32_t first = 1, most = 128;  ///< naps after a long yield
  static constexpr std::uint32_t calm = 32;              ///< short yields in a row

 private:
  std::atomic<std::uint32_t> left_{0}, next_{first}, short_{0};
  std::atomic<bool> late_{false};  // the last nap ended late
};

}  // namespace penstock::conduit
