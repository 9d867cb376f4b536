// When a client's poll (gasnet_AMPoll, which clients call in loops of their own) gives the core
// away. Where processes and their threads fit the cores it never does, and such a poll makes no
// system call. Where they do not fit, it does so for a caller that only polls, since another
// process may wait for the core, and ever more rarely while nobody takes the core. Each thread has
// one object. Used by messages.cpp.
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
  /// A poll found nothing. True once in a while: then the caller asks may_yield(). Two
  /// instructions.
  bool found_nothing() noexcept { return --left_ == 0; }
  /// A poll found something.
  void found_something() noexcept { left_ = window_; }

  /// After found_nothing() said true. crowded: somebody may want this core. now: clock.hpp's ticks;
  /// a_loop: how many of them a window of nothing but polls takes at most, for each poll. True: the
  /// caller looks at every peer, and if there is nothing, yields and says yielded().
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
  /// The core was given away. taken: somebody else ran meanwhile.
  void yielded(bool taken, std::uint64_t now) noexcept {
    window_ = taken ? shortest : window_ < longest ? window_ * 2 : longest;
    left_ = window_;
    since_ = now;
  }

  static constexpr std::uint32_t shortest = 8, longest = 1024;  ///< polls between two yields
  /// Between two looks at whether there are more threads than cores by now.
  static constexpr std::uint32_t polls_uncrowded = 4096;

 private:
  std::uint32_t left_ = shortest, window_ = shortest;
  std::uint64_t since_ = 0;  // when the window began; 0: unknown
};

}  // namespace penstock::gasnet
