// The secret that all processes of a job share, and how two of them show each other that they have
// it: a keyed hash (SipHash-2-4) of both sides' numbers, which are new for each connection, so that
// what was heard once serves nobody again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace penstock::nic::tcp {

/// A key of 128 bits.
struct secret {
  std::uint64_t high = 0, low = 0;
  /// From a text of any length; the same text gives the same key. An empty text gives a key that
  /// nobody else has: this process's own.
  static secret of(std::string_view text) noexcept;
};

/// SipHash-2-4 of the bytes.
std::uint64_t hash(const secret& key, const void* bytes, std::size_t n) noexcept;

/// 128 bits of a keyed hash; `side` tells the two ends' proofs apart.
struct proof {
  std::uint64_t high = 0, low = 0;
  static proof of(const secret& key, std::uint64_t side, const void* bytes, std::size_t n) noexcept;
  /// In a time that does not tell where two differ.
  [[nodiscard]] bool same(const proof& o) const noexcept {
    return ((high ^ o.high) | (low ^ o.low)) == 0;
  }
};

}  // namespace penstock::nic::tcp
