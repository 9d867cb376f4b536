// Which peer a queue pair number belongs to, since completions name only the number. It is written
// when a queue pair is made and read at every receive. Open addressing over words that never change
// once set; there is no removal. Threads: any insert and find. Effect: the compare-and-swap of a
// word. Cost of find: one load where numbers do not collide, 2 ns; liburcu's cds_lfht takes 20
// inside a read lock.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>

#include "lib/base/zero_pages.hpp"

namespace penstock::queues {

class qp_table {
 public:
  static constexpr std::uint32_t unknown = ~0u;

  /// Room for `entries` queue pairs.
  explicit qp_table(std::uint32_t entries)
      : mask_(std::bit_ceil(entries * 2 + 2) - 1), words_(std::size_t{mask_} + 1) {}

  /// value below 2^32 - 1. At most `entries` insertions.
  void insert(std::uint32_t qpn, std::uint32_t value) noexcept {
    const std::uint64_t w = std::uint64_t{qpn} << 32 | (value + 1);
    for (std::uint32_t i = qpn;; ++i) {
      std::uint64_t empty = 0;
      // R1 insert  release word  -> A1
      if (words_[i & mask_].compare_exchange_strong(empty, w, std::memory_order_release,
                                                    std::memory_order_relaxed))
        return;
    }
  }
  [[nodiscard]] std::uint32_t find(std::uint32_t qpn) const noexcept {
    for (std::uint32_t i = qpn;; ++i) {
      // A1 find  acquire word  <- R1: the peer's lane is made
      const std::uint64_t w = words_[i & mask_].load(std::memory_order_acquire);
      if (w == 0) return unknown;
      if (w >> 32 == qpn) return static_cast<std::uint32_t>(w) - 1;
    }
  }

 private:
  std::uint32_t mask_;
  zero_array<std::atomic<std::uint64_t>> words_;  // few are used, mostly next to each other
};

}  // namespace penstock::queues
