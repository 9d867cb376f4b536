// When a client's poll (gasnet_AMPoll, which clients call in loops of their own) yields the core.
// Where processes and their threads do not outnumber the cores it never does, and a poll makes no
// system call. Where they do, another process may wait for the core, so a thread that only polls
// yields now and then; the less often, the longer no other thread takes the core. Each thread has
// one object. messages.cpp uses it.
#pragma once

#include <cstdint>
#include <utility>

namespace penstock::gasnet {

/// What gasnet_set_waitmode() has asked for.
enum class idle_mode : std::uint8_t {
  where_crowded,  ///< nothing, or GASNET_WAIT_SPINBLOCK
  never,          ///< GASNET_WAIT_SPIN
  always,         ///< GASNET_WAIT_BLOCK
};

class idle_polls {
 public:
  /// Called when a poll found no message. True, once in a while: the caller asks may_yield(). Costs
  /// two instructions.
  bool found_nothing() noexcept { return --left_ == 0; }
  /// Called when a poll found a message.
  void found_something() noexcept { left_ = window_; }

  /// Called after found_nothing() was true. crowded: another thread may want this core. now: the
  /// time in clock.hpp's ticks. quick: a window whose polls took no more ticks each has nothing but
  /// polls in it. Where they took more, one_poll() polls once and returns the ticks of that poll
  /// alone, or 0 if it found a message: it tells slow polls from a client that computes between
  /// them. True: the caller looks at every peer and, if no message has come, yields and calls
  /// yielded().
  template <class Poll>
  bool may_yield(bool crowded, std::uint64_t now, std::uint64_t quick, Poll&& one_poll) {
    left_ = crowded ? window_ : polls_uncrowded;
    if (!crowded) window_ = shortest;
    const std::uint64_t began = std::exchange(since_, crowded ? now : 0);
    if (!crowded || began == 0) return false;
    const std::uint64_t each = (now - began) / window_;
    return each <= quick || each / most_of_a_poll <= one_poll();
  }
  /// Called after the core was yielded. taken: another thread ran meanwhile.
  void yielded(bool taken, std::uint64_t now) noexcept {
    window_ = taken ? shortest : window_ < longest ? window_ * 2 : longest;
    left_ = window_;
    since_ = now;
  }

  static constexpr std::uint32_t shortest = 8, longest = 1024;  ///< polls between two yields
  /// Polls between two looks whether there are more threads than cores by now.
  static constexpr std::uint32_t polls_uncrowded = 4096;
  static constexpr std::uint64_t most_of_a_poll = 4;  ///< times a poll's own ticks, in a mere loop

 private:
  std::uint32_t left_ = shortest, window_ = shortest;
  std::uint64_t since_ = 0;  // when the window began; 0: unknown
};

}  // namespace penstock::gasnet
