// Which peer a queue pair number belongs to, since completions name only the number. It is written
// when a queue pair is made or has been destroyed, and read at every receive. Open addressing; a
// word that was removed is left behind as `removed` while a number may lie behind it, so that a
// find under way goes on. Threads: one at a time inserts and removes, and any find. Effect: the
// store of a word. Cost of find: one load where numbers do not collide, 2 ns; liburcu's cds_lfht
// takes 20 inside a read lock.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>

#include "lib/base/assert.hpp"
#include "lib/base/zero_pages.hpp"

namespace penstock::queues {

class qp_table {
 public:
  static constexpr std::uint32_t unknown = ~0u;

  /// Room for `entries` queue pairs.
  explicit qp_table(std::uint32_t entries)
      : mask_(std::bit_ceil(entries * 2 + 2) - 1), words_(std::size_t{mask_} + 1) {}

  /// value below 2^32 - 1. At most `entries` are in the table at a time.
  void insert(std::uint32_t qpn, std::uint32_t value) noexcept {
    PENSTOCK_ASSERT(value, !=, unknown);
    std::uint32_t i = qpn;
    while (!is_free(at(i))) ++i;
    PENSTOCK_ASSERT(i - qpn, <=, mask_);  // there was room
    // R1 insert  release word  -> A1
    words_[i & mask_].store(std::uint64_t{qpn} << 32 | (value + 1), std::memory_order_release);
  }
  /// No completion with that number is left. The device may give the number to another queue pair.
  void remove(std::uint32_t qpn) noexcept {
    std::uint32_t i = qpn;
    while (at(i) >> 32 != qpn || is_free(at(i))) ++i;
    PENSTOCK_ASSERT(i - qpn, <=, mask_);  // it was in the table
    const auto set = [this](std::uint32_t place, std::uint64_t w) {
      words_[place & mask_].store(w, std::memory_order_relaxed);  // it says nothing of a peer
    };
    set(i, removed);
    // Removed words at either end of a row of words that are not empty are empty again where no
    // number needs them: so finds stay short, and some words stay empty.
    if (at(i + 1) == 0)
      for (; at(i) == removed; --i) set(i, 0);
    else if (at(i - 1) == 0)
      for (; at(i) == removed && !is_passed(i); ++i) set(i, 0);
  }
  [[nodiscard]] std::uint32_t find(std::uint32_t qpn) const noexcept {
    std::uint32_t i = qpn;
    do {
      // A1 find  acquire word  <- R1: the peer's lane is made
      const std::uint64_t w = words_[i & mask_].load(std::memory_order_acquire);
      if (w == 0) return unknown;
      if (w >> 32 == qpn) return static_cast<std::uint32_t>(w) - 1;
    } while (++i - qpn <= mask_);
    return unknown;
  }

 private:
  static constexpr std::uint64_t removed = std::uint64_t{unknown} << 32;  // value: none
  static constexpr bool is_free(std::uint64_t w) noexcept { return w == 0 || w == removed; }
  // For the thread that inserts and removes.
  [[nodiscard]] std::uint64_t at(std::uint32_t i) const noexcept {
    return words_[i & mask_].load(std::memory_order_relaxed);
  }
  // True if a number that belongs to place i lies behind it.
  [[nodiscard]] bool is_passed(std::uint32_t i) const noexcept {
    for (std::uint32_t j = i + 1; at(j) != 0; ++j)
      if (!is_free(at(j)) && ((at(j) >> 32 ^ i) & mask_) == 0) return true;
    return false;
  }

  std::uint32_t mask_;
  zero_array<std::atomic<std::uint64_t>> words_;  // few are used, mostly next to each other
};

}  // namespace penstock::queues
