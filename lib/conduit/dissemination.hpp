// The logic of a split-phase barrier by dissemination, without any communication: which word goes
// to whom in which step, and what all the votes together say. barrier.hpp moves the words.
//
//   step k (0 … ceil(log2 N) - 1): rank r sends what it knows to r + 2^k, waits for the same from r
//   - 2^k.
//
// What a process knows grows from its own vote to all votes: a step is sent when all before it have
// been received. Votes may be counted twice; combine() does not mind.
//
// A word carries its phase, so nothing has to be cleared. Two sets of slots, by the phase's parity:
// (D1) a process sends for phase p + 1 only when it has passed p, thus after all have notified p,
// and (D2) nobody notifies p + 2 before it has passed p + 1, so that when a word for p + 2 arrives,
// the one for p in the same slot has been read. Words of one slot come from one sender, in order of
// phases.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "lib/base/mode.hpp"

namespace penstock::conduit {

/// What a process says when it arrives at a barrier, and what all of them said together.
struct barrier_vote {
  std::uint32_t value = 0;  ///< the name; only if named
  bool named = false;
  bool mismatch = false;  ///< asked for, or two names that differ

  friend bool operator==(const barrier_vote&, const barrier_vote&) = default;
};

/// Associative, commutative, idempotent.
constexpr barrier_vote combine(const barrier_vote& a, const barrier_vote& b) noexcept {
  if (a.mismatch || b.mismatch || (a.named && b.named && a.value != b.value))
    return {.value = 0, .named = false, .mismatch = true};
  return a.named ? a : b;
}

/// A slot of the receiving side. One writer at a time (the sender, or the handler that stands in
/// for it), one reader. A cache line each: every slot has another writer.
struct alignas(cache_line) barrier_slot {
  std::atomic<std::uint64_t> word{0};
};
static_assert(sizeof(barrier_slot) == cache_line);

/// Steps that 2^32 processes need.
inline constexpr unsigned barrier_steps_max = 32;

/// Where a process receives: by parity of the phase, then step. One page.
struct barrier_slots {
  barrier_slot at[2][barrier_steps_max];
};
static_assert(sizeof(barrier_slots) == 4096);

/// One process's side. Every function by one thread at a time; the slots may be written meanwhile.
class dissemination {
 public:
  /// passed: how many barriers lie behind all processes already.
  dissemination(std::uint32_t rank, std::uint32_t size, std::uint32_t passed = 0) noexcept
      : rank_(rank), size_(size), phase_(passed & phase_mask) {
    while (steps_ < barrier_steps_max && (std::uint64_t{1} << steps_) < size_) ++steps_;
  }

  [[nodiscard]] unsigned steps() const noexcept { return steps_; }
  /// To whom step k goes.
  [[nodiscard]] std::uint32_t partner(unsigned step) const noexcept {
    return static_cast<std::uint32_t>((rank_ + (std::uint64_t{1} << step)) % size_);
  }

  /// Arrives. Follow with advance().
  void begin(const barrier_vote& own) noexcept {
    phase_ = (phase_ + 1) & phase_mask;
    known_ = own;
    received_ = sent_ = 0;
  }

  /// Takes what has arrived in `slots`, and sends what that allows: send(partner, parity, step,
  /// word) answers false if it could not, and is asked again next time. True when all have arrived.
  template <class Send>
  bool advance(const barrier_slots& slots, Send&& send) noexcept {
    const unsigned parity = phase_ & 1;
    while (true) {
      if (sent_ == received_ && sent_ < steps_) {
        if (!send(partner(sent_), parity, sent_, pack(phase_, known_))) return false;
        ++sent_;
      }
      if (received_ == steps_) return true;
      // B1 arrive  load-acquire slot  <- B2 (barrier.cpp): what the sender did before is visible
      const std::uint64_t w = slots.at[parity][received_].word.load(std::memory_order_acquire);
      if (phase_of(w) != phase_) return false;
      known_ = combine(known_, vote_of(w));
      ++received_;
    }
  }

  /// True while there are words that this process has still to send, for others to get on.
  [[nodiscard]] bool owes() const noexcept { return sent_ < steps_; }
  /// After advance() said true.
  [[nodiscard]] const barrier_vote& outcome() const noexcept { return known_; }

  // A word: phase 30 bits, mismatch 1, named 1, value 32. Phases start at 1; 0 is an unwritten
  // slot.
  static constexpr std::uint32_t phase_mask = (1u << 30) - 1;
  static constexpr std::uint64_t pack(std::uint32_t phase, const barrier_vote& v) noexcept {
    return std::uint64_t{phase} << 34 | std::uint64_t{v.mismatch} << 33 |
           std::uint64_t{v.named} << 32 | v.value;
  }
  static constexpr std::uint32_t phase_of(std::uint64_t w) noexcept {
    return static_cast<std::uint32_t>(w >> 34);
  }
  static constexpr barrier_vote vote_of(std::uint64_t w) noexcept {
    return {.value = static_cast<std::uint32_t>(w),
            .named = (w >> 32 & 1) != 0,
            .mismatch = (w >> 33 & 1) != 0};
  }

 private:
  const std::uint32_t rank_, size_;
  std::uint32_t phase_;
  unsigned steps_ = 0;
  unsigned sent_ = 0, received_ = 0;
  barrier_vote known_;
};

}  // namespace penstock::conduit
