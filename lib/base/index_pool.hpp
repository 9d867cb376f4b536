// A pool of small numbers (of buffers, chunks, records), which any thread takes and gives back,
// last in, first out, so that warm memory is used again.
//
//   top_: tag << 32 | index+1 of the first free one (0: none)     next_[i]: index+1 behind i
//
// Who with whom: any threads take and give. Effect: the compare-and-swap on top_. The tag grows
// with every change, so that a thread that slept through a take and a give of the same index cannot
// succeed (2^32 changes would have to pass in between). No memory is freed before the pool is, so a
// stalled thread holds up no other one. When no number is free, take() answers none. Cost: one RMW
// each way in PAR, none in SEQ.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "lib/base/mode.hpp"

namespace penstock {

template <thread_mode M, template <class> class Atomic = std::atomic>
class index_pool {
 public:
  /// A pool of the numbers 0 … n-1. Those from first_free on are free at the start, and are taken
  /// in ascending order.
  explicit index_pool(std::uint32_t n, std::uint32_t first_free = 0)
      : next_(std::make_unique<Atomic<std::uint32_t>[]>(n)) {
    for (std::uint32_t i = n; i-- > first_free;) give(i);
  }

  [[nodiscard]] std::optional<std::uint32_t> take() noexcept {
    // A1 take  acquire top_  <- R1: next_ and what the giver left in the buffer are visible
    std::uint64_t top = top_.load(std::memory_order_acquire);
    while (static_cast<std::uint32_t>(top) != 0) {
      const std::uint32_t i = static_cast<std::uint32_t>(top) - 1;
      const std::uint64_t below = next_[i].load(std::memory_order_relaxed);
      // relaxed where it succeeds: the load that has read this top was an acquire (A1); acquire
      // where it fails: it is A1 for the next try
      if (top_.compare_exchange_weak(top, tagged(top, below), std::memory_order_relaxed,
                                     std::memory_order_acquire))
        return i;
    }
    return std::nullopt;
  }

  void give(std::uint32_t i) noexcept {
    std::uint64_t top = top_.load(std::memory_order_relaxed);
    do {
      next_[i].store(static_cast<std::uint32_t>(top), std::memory_order_relaxed);
      // R1 give  release top_  -> A1
    } while (!top_.compare_exchange_weak(top, tagged(top, i + 1), std::memory_order_release,
                                         std::memory_order_relaxed));
  }

  /// True when no number is free at this moment.
  [[nodiscard]] bool empty() const noexcept {
    return static_cast<std::uint32_t>(top_.load(std::memory_order_relaxed)) == 0;
  }

 private:
  static std::uint64_t tagged(std::uint64_t old, std::uint64_t index_plus_one) noexcept {
    return ((old >> 32) + 1) << 32 | index_plus_one;
  }
  std::unique_ptr<Atomic<std::uint32_t>[]> next_;
  alignas(cache_line) word<M, std::uint64_t, Atomic> top_{0};
};

}  // namespace penstock
