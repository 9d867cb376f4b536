// When a client's poll (gasnet_AMPoll, which clients call in loops of their own) yields the core.
// Where processes and their threads do not outnumber the cores it never does, and a poll makes no
// system call. Where they do, another process may wait for the core, so a thread that only polls
// yields now and then; the less often, the longer no other thread takes the core. Each thread has
// one object. messages.cpp uses it.
#pragma once

#include <cstdint>

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
  /// time in clock.hpp's ticks. a_loop: the most ticks that each poll takes in a loop that only
  /// polls. True: the caller looks at every peer and, if no message has come, yields and calls
  /// yielded().
  bool may_yield(bool crowded, std::uint64_t now, std::uint64_t a_loop) noexcept {
    if (!crowded) {
      window_ = shortest;
      left_ = polls_uncrowded;
      since_ = 0;
      return false;
    }
    const bool nothing_else = since_ != 0 && now - since_ <= a_loop * window_;
    left_ = window_;
    since_ = now;
    return nothing_else;
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

 private:
  std::uint32_t left_ = shortest, window_ = shortest;
  std::uint64_t since_ = 0;  // when the window began; 0: unknown
};

}  // namespace penstock::gasnet
