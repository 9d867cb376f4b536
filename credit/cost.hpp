// What a message costs, and the credit byte that travels with it. Used by the engine when it builds
// and reads headers, and by the simulator. Holds no state.
#pragma once

#include <cstdint>

#include "lib/base/limits.hpp"
#include "lib/base/message_kind.hpp"

namespace penstock::credit {

/// Bytes of receive space that one credit stands for.
inline constexpr std::uint32_t unit_bytes = limits::credit_bytes;
/// A loan never falls below this; every peer starts with at least as many.
inline constexpr std::uint32_t min_credits = 4;
/// Most credits one message can cost.
inline constexpr std::uint32_t max_cost = limits::highest_cost;
/// The most credits that a peer which holds the minimum can lack for one message.
inline constexpr std::uint32_t max_wish = max_cost > min_credits ? max_cost - min_credits : 0;
/// Largest value of a per-peer counter.
inline constexpr std::uint32_t counter_max = 0xffff;
/// The most credits that a process may have: 64 GiB. What is counted for each of them, such as
/// entries of completion queues, fits 32 bits.
inline constexpr std::uint32_t max_total = 1U << 28;

/// For how many messages a stream leases credits at a time, by one RMW.
inline constexpr std::uint32_t lease_messages = 16;

/// Credits that are owed to a borrower, without a reply to carry them, are sent by a message of
/// their own at this count: a quarter of the loan, so that a stream never runs dry, and at most 64.
[[nodiscard]] constexpr std::uint32_t return_batch(std::uint32_t loan) noexcept {
  return loan < 4 ? 1 : loan / 4 < 64 ? loan / 4 : 64;
}

using kind = message_kind;

/// Credits that a request needs. bytes: header, arguments and payload as they arrive in one receive
/// buffer (ignored for Short and Long). A two-message Long pays for its header and for the event of
/// its payload. Replies and the engine's own kinds cost none. Source: credit note, "Short is 1
/// credit …".
[[nodiscard]] constexpr std::uint32_t cost(kind k, std::uint32_t bytes) noexcept {
  switch (k) {
    case kind::short_:
      return 1;
    case kind::long_:
      return 2;
    case kind::credits:
    case kind::system:
      return 0;
    case kind::medium:
    case kind::packed_long:
    case kind::large:
      break;
  }
  return bytes <= unit_bytes ? 1 : bytes / unit_bytes + (bytes % unit_bytes != 0 ? 1 : 0);
}

/// The byte E·XXX·NNNN of the note. On a request: E, credits missed, credits used. On a reply: E,
/// credits granted on top, credits returned. Larger counts travel in a 16-bit field beside it.
struct credit_byte {
  static constexpr std::uint8_t need_max = 7;    ///< on a request: "7 or more"
  static constexpr std::uint8_t count_max = 15;  ///< above: use the 16-bit field

  bool end_epoch = false;
  std::uint8_t need = 0;
  std::uint8_t count = 0;

  /// need saturates at 7. count must fit (see fits()); a larger one saturates at 15.
  [[nodiscard]] constexpr std::uint8_t encode() const noexcept {
    const std::uint32_t x = need < need_max ? need : need_max;
    const std::uint32_t n = count < count_max ? count : count_max;
    return static_cast<std::uint8_t>((end_epoch ? 0x80U : 0U) | x << 4 | n);
  }
  [[nodiscard]] static constexpr credit_byte decode(std::uint8_t b) noexcept {
    return {(b & 0x80) != 0, static_cast<std::uint8_t>(b >> 4 & 7),
            static_cast<std::uint8_t>(b & 15)};
  }
  /// True if a count can travel in NNNN.
  [[nodiscard]] static constexpr bool fits(std::uint32_t n) noexcept { return n <= count_max; }
  friend constexpr bool operator==(const credit_byte&, const credit_byte&) = default;
};

}  // namespace penstock::credit
