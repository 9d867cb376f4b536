// The logic of a split-phase barrier that counts arrivals in memory that all processes share: an
// arrival is one compare-and-swap, and a look is one load. barrier.hpp and meeting.hpp use it where
// processes outnumber cores (host_page.hpp has the memory). There the cost of a barrier is the
// number of context switches: dissemination needs one for each step, and a count needs one in all.
//
//   word[p & 1]   phase 16 bits | count 14 | mismatch 1 | named 1 | name 32
//   came[r]       the last phase that rank r has arrived at, its low 8 bits; written after the word
//
// (C1) No rank arrives at p + 2 before all have passed p: it has passed p + 1, at which all arrived
// after they had passed p. So the word of a parity is either "p, with a count of 1 to N" or, for
// the first rank to arrive, "p - 2, complete". Any other word has been written over.
//
// (C2) A rank writes came[r] = p after it has counted itself. So if came[r] is p or p + 1 for all
// ranks, the word is complete, or has been written over.
//
// An arrival needs no other rank (claim 13). No rank trusts what others have written: by C1 and C2
// some rank finds every wrong word when it arrives or while it waits. The only exception is a word
// that says "complete" too early, which the next rank to arrive finds.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "lib/conduit/collective/barrier_words.hpp"

namespace penstock::conduit {

/// The memory that the processes share, all zero at first. The words and the first 48 ranks' bytes
/// are in one cache line, which a rank that arrives has just fetched.
struct alignas(cache_line) counting_words {
  static constexpr std::uint32_t most_ranks = 1968;
  std::atomic<std::uint64_t> word[2]{};
  std::atomic<std::uint8_t> came[most_ranks]{};
};
static_assert(sizeof(counting_words) == 1984);

/// One process's side. One thread at a time calls its functions.
class counting {
 public:
  enum class look : std::uint8_t { waiting, complete, broken };

  /// passed: the number of barriers that all processes have passed before. size: at most
  /// most_ranks.
  counting(counting_words& at, std::uint32_t rank, std::uint32_t size,
           std::uint32_t passed = 0) noexcept
      : at_(at), rank_(rank), size_(size), phase_(static_cast<std::uint16_t>(passed)) {}

  /// Arrives; does not wait. False: the word has been written over.
  [[nodiscard]] bool arrive(const barrier_vote& own) noexcept {
    ++phase_;
    looks_ = 0;
    std::atomic<std::uint64_t>& word = at_.word[phase_ & 1];
    std::uint64_t now = word.load(std::memory_order_relaxed);
    std::uint64_t next;
    do {
      if (is_joined(now))
        next = pack(count_of(now) + 1, combine(vote_of(now), own));
      else if (heading(now) == heading_of(static_cast<std::uint16_t>(phase_ - 2), size_) ||
               (now == 0 && fresh_ != 0))
        next = pack(1, own);
      else
        return false;
      // E1 arrive  release word  -> E2: what all that have arrived did before is visible, as each
      // compare-and-swap goes on with what the one before it has released
    } while (!word.compare_exchange_weak(now, next, std::memory_order_release,
                                         std::memory_order_relaxed));
    if (fresh_ != 0) --fresh_;
    // E3 came  release came  -> E4: it is counted (C2)
    at_.came[rank_].store(static_cast<std::uint8_t>(phase_), std::memory_order_release);
    return true;
  }

  /// Looks whether all have arrived; to be called after arrive() until it does not answer waiting.
  /// complete: outcome is the combined vote. broken: the word has been written over.
  [[nodiscard]] look see(barrier_vote& outcome) noexcept {
    // E2 look  acquire word  <- E1
    const std::uint64_t now = at_.word[phase_ & 1].load(std::memory_order_acquire);
    if (heading(now) == heading_of(phase_, size_)) {
      outcome = vote_of(now);
      return look::complete;
    }
    if (!is_joined(now)) return look::broken;
    constexpr std::uint32_t looks_a_check = 1024;
    if (++looks_ % looks_a_check == 0 && !is_credible()) return look::broken;
    return look::waiting;
  }

 private:
  static constexpr unsigned count_bits = 14;
  static_assert(counting_words::most_ranks < 1u << count_bits);

  /// Phase and count, in the bits where barrier_words.hpp has the phase.
  static std::uint32_t heading(std::uint64_t w) noexcept { return phase_of(w); }
  static std::uint32_t heading_of(std::uint16_t phase, std::uint32_t count) noexcept {
    return std::uint32_t{phase} << count_bits | count;
  }
  static std::uint32_t count_of(std::uint64_t w) noexcept {
    return heading(w) & ((1u << count_bits) - 1);
  }
  [[nodiscard]] std::uint64_t pack(std::uint32_t count, const barrier_vote& v) const noexcept {
    return pack_word(heading_of(phase_, count), v);
  }
  /// True if some ranks have arrived at this phase, and not all.
  [[nodiscard]] bool is_joined(std::uint64_t w) const noexcept {
    return heading(w) > heading_of(phase_, 0) && heading(w) < heading_of(phase_, size_);
  }
  /// Called now and then while not all are counted. False: all have arrived, but a count is
  /// missing, so the word has been written over (C2).
  [[nodiscard]] bool is_credible() const noexcept {
    const auto mine = static_cast<std::uint8_t>(phase_);
    // relaxed: this process wrote it
    if (at_.came[rank_].load(std::memory_order_relaxed) != mine) return false;
    for (std::uint32_t r = 0; r < size_; ++r) {
      // E4 came  acquire came  <- E3. A rank that has passed may have arrived at the next one.
      const std::uint8_t his = at_.came[r].load(std::memory_order_acquire);
      if (his != mine && his != static_cast<std::uint8_t>(mine + 1)) return true;
    }
    // relaxed: E3 lies behind each rank's count, so what E4 has seen has them all; nothing is read
    // by this word
    return heading(at_.word[phase_ & 1].load(std::memory_order_relaxed)) ==
           heading_of(phase_, size_);
  }

  counting_words& at_;
  const std::uint32_t rank_, size_;
  std::uint16_t phase_;
  std::uint8_t fresh_ = 2;  ///< arrivals that may still find their word 0, as it was made
  std::uint32_t looks_ = 0;
};

}  // namespace penstock::conduit
