// How a job's receive space is shared out at the start: the settings of the credit system, checked
// once, the same in every process, and computed with no communication. Used at start-up only.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>

#include "credit/cost.hpp"
#include "lib/base/result.hpp"

namespace penstock::credit {

/// From this number of processes on, a bank has to serve many peers that ask at once, and start
/// loans are small.
inline constexpr std::uint32_t large_job = 64;

/// How statistics fade at the end of an epoch.
enum class decay : std::uint8_t {
  shift,      ///< value >> 2
  last_curr,  ///< two states: last = last/4 + 3·curr/4, curr = 0
};

/// Which side counts the credits that a borrower gave back in this epoch.
enum class revoked_at : std::uint8_t {
  borrower,  ///< answers 0 when it has given back enough
  lender,    ///< does not even ask
};

/// What the queues of a device leave of the table, where nobody has set the credits. A lesser room
/// is one in which the processes of a job with more room can also live.
struct room {
  static constexpr std::uint32_t unlimited = ~0u;

  /// False: loans are fixed, nothing is banked, and the largest message costs min_credits, since
  /// its buffers are as many as such messages.
  bool moves = true;
  std::uint32_t credits = unlimited;  ///< most, lent and banked together
  friend constexpr auto operator<=>(const room&, const room&) = default;
};

/// Immutable after plan(). All counts in credits.
struct config {
  std::uint32_t ranks = 1;              ///< processes in the job
  std::uint32_t me = 0;                 ///< own rank; the one field that differs among processes
  std::uint32_t credits_per_peer = 0;   ///< lent to each other process at start
  std::uint32_t bank = 0;               ///< kept for later demand
  std::uint32_t max_per_peer = 400;     ///< most lent to one peer, at start and on demand
  std::uint32_t lender_limit = 400;     ///< most lent to one peer within an epoch
  std::uint32_t revoke_limit = 64;      ///< most taken back from one peer within an epoch
  std::uint32_t epoch_requests = 1024;  ///< requests received in an epoch
  std::uint32_t num_scavenge = 4;       ///< most peers asked at a time to give credits back
  std::uint32_t low_water = 0;          ///< a bank below this scavenges when there is demand
  bool flow_control = true;             ///< false: every try_take succeeds, and nothing is counted
  bool dynamic = true;                  ///< false: loans stay as they were at the start
  std::uint32_t highest_cost = max_cost;  ///< of a message by queue pairs
  decay fade = decay::shift;
  revoked_at revoked = revoked_at::borrower;

  /// True if a loan of that many credits may grow.
  [[nodiscard]] constexpr bool may_grow(std::uint32_t loan) const noexcept {
    return flow_control && dynamic && loan < max_per_peer;
  }
  /// The same of a start loan.
  [[nodiscard]] constexpr bool start_may_grow() const noexcept {
    return may_grow(credits_per_peer);
  }
  /// Credits of this process's receive space: lent to all others, and banked.
  [[nodiscard]] constexpr std::uint32_t total_credits() const noexcept {
    return credits_per_peer * (ranks - 1) + bank;
  }
  /// Equal in every process of a job: exchange it at start and compare.
  [[nodiscard]] std::uint64_t fingerprint() const noexcept;
};

/// The user's settings; `from_table` (the settings' own 0) takes the table's value.
struct overrides {
  static constexpr std::int64_t from_table = 0;

  std::int64_t credits_per_peer = from_table;
  std::int64_t bank = from_table;           ///< empty_bank asks for none
  std::int64_t receive_bytes = from_table;  ///< whole receive space; loans leave the bank
  std::int64_t max_per_peer = 400;
  std::int64_t lender_limit = 400;
  std::int64_t revoke_limit = 64;
  std::int64_t epoch_requests = 1024;
  std::int64_t num_scavenge = from_table;
  std::int64_t low_water = from_table;
  /// The space comes in buffers of this size; the rest is banked.
  std::uint32_t buffer_bytes = unit_bytes;
  bool empty_bank = false;  ///< start with nothing in the bank
  bool flow_control = true;
  bool dynamic = true;
  decay fade = decay::shift;
  revoked_at revoked = revoked_at::borrower;
  credit::room room = {};  ///< bounds what comes from the table

  /// True if the credits come from the table.
  [[nodiscard]] constexpr bool by_table() const noexcept {
    return credits_per_peer == from_table && bank == from_table && receive_bytes == from_table &&
           !empty_bank;
  }
};

/// The settings of process `me` of `ranks`: what the user set, else a table interpolated over the
/// job's size and cut to the room. Fails with one line that names both values when they are out of
/// range or contradict each other. Pure: every process computes the same but for `me`. Cost: a few
/// divisions.
result<config> plan(std::uint32_t ranks, std::uint32_t me, const overrides& set = {});

/// Credits that suffice to keep a path busy: bandwidth × round trip, in units, and one message
/// more (credit note, "Bandwidth-Delay product").
[[nodiscard]] constexpr std::uint32_t bandwidth_delay_credits(
    std::uint64_t bytes_per_second, std::uint64_t round_trip_ns) noexcept {
  const std::uint64_t bytes = bytes_per_second / 1000 * round_trip_ns / 1000000;
  const std::uint64_t credits = bytes / unit_bytes + max_cost;
  return credits < counter_max ? static_cast<std::uint32_t>(credits) : counter_max;
}

/// The credits that a borrower in need asks for at once, unless it holds more already: those of a
/// path of 100 Gbit/s with a round trip of 1 µs. With smaller demands a burst to a new peer would
/// be met only after several round trips; larger ones would lend credits that are never used.
inline constexpr std::uint32_t stream_credits = bandwidth_delay_credits(12'500'000'000, 1'000);

/// The same for a stream of messages that cost n each: no less than 32 of them need, up to twice
/// stream_credits.
[[nodiscard]] constexpr std::uint32_t stream_credits_of(std::uint32_t n) noexcept {
  return std::clamp(32 * n, stream_credits, 2 * stream_credits);
}

// A Medium that is short of credits goes by rendezvous, for one credit: it is offered, and waits at
// its sender until the target fetches it. So a burst that costs more than the loan keeps its sender
// from nothing else. Constant memory at each process serves for that:

/// Most offers of a process that have not been taken yet.
inline constexpr std::uint32_t most_offers = 32;
/// Most offers that a process has fetched and not handled, or is fetching.
inline constexpr std::uint32_t most_fetched_offers = 64;
/// Credits that are left to offers: a message that could be offered is not sent at once if fewer
/// would remain.
inline constexpr std::uint32_t offer_reserve = 4;

}  // namespace penstock::credit
