// What barriers of all shapes have in common: votes, the words that carry them, and the slots in
// which words are received. dissemination.hpp, tree.hpp and staged.hpp use it.
//
// A word carries its phase, so no slot has to be cleared. There are two sets of slots, one for each
// parity of the phase; each shape argues why a word for phase p + 2 cannot arrive before the one
// for p has been read.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "lib/base/mode.hpp"

namespace penstock::conduit {

/// What a process says when it arrives at a barrier, or what all processes said together.
struct barrier_vote {
  std::uint32_t value = 0;  ///< the name; only if named
  bool named = false;
  bool mismatch = false;  ///< a process asked for a mismatch, or two names differ

  friend bool operator==(const barrier_vote&, const barrier_vote&) = default;
};

/// The vote of two processes together. It is associative, commutative and idempotent.
constexpr barrier_vote combine(const barrier_vote& a, const barrier_vote& b) noexcept {
  if (a.mismatch || b.mismatch || (a.named && b.named && a.value != b.value))
    return {.value = 0, .named = false, .mismatch = true};
  return a.named ? a : b;
}

// A word: phase 30 bits, mismatch 1, named 1, value 32. Phases start at 1; 0 is an unwritten
// slot.
inline constexpr std::uint32_t phase_mask = (1u << 30) - 1;
constexpr std::uint64_t pack_word(std::uint32_t phase, const barrier_vote& v) noexcept {
  return std::uint64_t{phase} << 34 | std::uint64_t{v.mismatch} << 33 |
         std::uint64_t{v.named} << 32 | v.value;
}
constexpr std::uint32_t phase_of(std::uint64_t w) noexcept {
  return static_cast<std::uint32_t>(w >> 34);
}
constexpr barrier_vote vote_of(std::uint64_t w) noexcept {
  return {.value = static_cast<std::uint32_t>(w),
          .named = (w >> 32 & 1) != 0,
          .mismatch = (w >> 33 & 1) != 0};
}

/// The seal that stands beside a word. Each of its bits depends on the whole word, so that no
/// mixture of the bytes of two words and their seals passes for a word, but for once in 2^64. The
/// seal of 0 is 0.
constexpr std::uint64_t seal_of(std::uint64_t w) noexcept {
  w = (w ^ w >> 32) * 0x9e3779b97f4a7c15;
  w = (w ^ w >> 29) * 0xbf58476d1ce4e5b9;
  return w ^ w >> 32;
}

/// A slot at the receiver. It has one writer at a time (the sender, the handler that acts for it,
/// or the device) and one reader. Each slot has a cache line, since each has another writer. A
/// device may write byte by byte, in any order, so a word counts only when its seal is there, too.
struct alignas(cache_line) barrier_slot {
  std::atomic<std::uint64_t> word{0};
  std::atomic<std::uint64_t> seal{0};

  void write(std::uint64_t w) noexcept {
    seal.store(seal_of(w), std::memory_order_relaxed);
    // B2 arrive  store-release word  -> B1: the seal too
    word.store(w, std::memory_order_release);
  }
  /// True if the word of that phase is there and whole; w is then the word.
  [[nodiscard]] bool read(std::uint32_t phase, std::uint64_t& w) const noexcept {
    // B1 arrive  load-acquire word  <- B2: what the sender did before is visible
    w = word.load(std::memory_order_acquire);
    return phase_of(w) == phase && seal.load(std::memory_order_relaxed) == seal_of(w);
  }
  /// What stands here, one way or the other; to be compared with a later look.
  struct content {
    std::uint64_t word = 0, seal = 0;
    friend bool operator==(const content&, const content&) = default;
  };
  /// False if what stands here, as of `now`, cannot be while a word of that phase is awaited: it is
  /// neither that word nor the one two phases ago, of which 0 is the first. A device may be writing
  /// the word, so it has been written over only if it stays so.
  [[nodiscard]] bool credible(std::uint32_t phase, content& now) const noexcept {
    now = {word.load(std::memory_order_relaxed), seal.load(std::memory_order_relaxed)};
    if (now.seal != seal_of(now.word)) return false;
    const std::uint32_t has = phase_of(now.word);
    return has == phase || has == ((phase - 2) & phase_mask) || (phase <= 2 && now.word == 0);
  }
};
static_assert(sizeof(barrier_slot) == cache_line);

/// The number of steps that 2^32 processes need.
inline constexpr unsigned barrier_steps_max = 32;

/// The slots of a process, by parity of the phase and then by step. One page.
struct barrier_slots {
  barrier_slot at[2][barrier_steps_max];
};
static_assert(sizeof(barrier_slots) == 4096);

}  // namespace penstock::conduit
