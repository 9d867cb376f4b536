// What is left of large transfers that found no room: the progress thread posts it, while the
// program computes, as completions make room. Words and functions, without the engine; transfers
// (rma.hpp) uses it where there is a progress thread.
//
//   state   free -> taken -> waiting <-> taken -> free
//
// Who with whom: any thread hands a rest over, and any thread takes a step: the progress thread,
// and threads that wait for transfers. (HR-a) A rest is touched by the thread alone that has made
// its state `taken`. Nothing waits, and nothing allocates.
#pragma once

#include <atomic>
#include <cstdint>

#include "penstock/mode.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

template <class Rest>
class handed_rest {
 public:
  /// Keeps rest until a step has ended it. False: there is no place now.
  [[nodiscard]] bool begin(const Rest& rest) noexcept {
    for (place& p : places_) {
      if (!p.is_taken_from(free)) continue;
      p.rest = rest;
      // relaxed: a hint for has_any()
      count_.fetch_add(1, std::memory_order_relaxed);
      // HR2 leave  release state  -> HR1: the rest
      p.state.store(waiting, std::memory_order_release);
      return true;
    }
    return false;
  }
  /// Has go_on(rest) go on with those that wait, each once: it answers whether the rest has ended.
  /// Returns how many have.
  template <class GoOn>
  unsigned step(GoOn&& go_on) noexcept {
    unsigned ended = 0;
    for (place& p : places_) {
      if (!p.is_taken_from(waiting)) continue;
      const bool end = go_on(p.rest);
      if (end) count_.fetch_sub(1, std::memory_order_relaxed), ++ended;
      // HR2 leave  release state  -> HR1: the rest
      p.state.store(end ? free : waiting, std::memory_order_release);
    }
    return ended;
  }
  /// Whether there are some. A hint.
  [[nodiscard]] bool has_any() const noexcept {
    return count_.load(std::memory_order_relaxed) != 0;
  }

 private:
  static constexpr std::uint32_t free = 0, taken = 1, waiting = 2;
  struct place {
    std::atomic<std::uint32_t> state{free};
    Rest rest{};
    bool is_taken_from(std::uint32_t s) noexcept {
      // HR1 take  cas acquire state  <- HR2
      return state.load(std::memory_order_relaxed) == s &&
             state.compare_exchange_strong(s, taken, std::memory_order_acquire,
                                           std::memory_order_relaxed);
    }
  };
  std::atomic<std::uint32_t> count_{0};
  place places_[4];
};

}  // namespace penstock::conduit::PENSTOCK_ABI
