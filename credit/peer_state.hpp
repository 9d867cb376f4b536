// What a process remembers of one peer: 40 bytes, five words. Fields that must change together
// share a word, so every transition is one compare-and-swap on one word. Used by the ledger only.
// A record that nobody has touched is all zero, and takes no memory; its peer has the start loan.
//
//   send  borrower, hot    credits 16 | in use 16 | most in use 16 | owed 16
//   loan  lender, hot      loan 16    | given 16  | epoch stamp 16 | requested 8 | flags 8
//   past  borrower, cold   revoked 16 | its last 16 | last of most 16 | stalls 8 | last 6, want 2
//   lent  lender, cold     revoked 16 | its last 16 | last of given 16 | last of requested 8 | wish
//   8 links                  scavenge list 32 | waiting list 32
//
// What the peer has lent us is credits + owed (owed: recalled by the lender, and still in use when
// the recall came). "Last" fields serve decay::last_curr alone, but for the last of most: with
// decay::shift it is that of the last whole epoch.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>

#include "credit/config.hpp"
#include "lib/base/mode.hpp"
#include "lib/base/zero_pages.hpp"

namespace penstock::credit {

// The order of members is the order of bits, lowest first, on a little-endian machine.
struct send_fields {
  std::uint16_t credits, in_use, most, owed;
};
struct loan_fields {
  std::uint16_t loan, given, stamp;
  std::uint8_t requested, flags;
};
struct past_fields {
  std::uint16_t revoked, revoked_last, most_last;
  std::uint8_t stalls, stalls_last_want;  // want_state in the two low bits
};
struct lent_fields {
  std::uint16_t revoked, revoked_last, given_last;
  std::uint8_t requested_last, wish;
};
static_assert(max_wish <= 0xff);

/// Bits of loan_fields::flags.
enum loan_flag : std::uint8_t {
  flag_sys_in_flight = 1,  ///< a REVOKE was sent and its RETURN has not come
  flag_zero_reply = 2,     ///< the last RETURN of this epoch was 0
  flag_reached_epoch = 4,  ///< the next message to this peer carries E
  flag_listed = 8,         ///< on the scavenge list, or held by the thread that popped it
  flag_waiting = 16,       ///< on the waiting list, or held by the thread that popped it
  flag_gone = 32,          ///< it has gone: it is lent nothing, and its messages change nothing
  flag_begun = 64,         ///< always set: the word is zero only while nobody has touched it
};

/// The state of our WANT to a peer.
enum class want_state : std::uint8_t {
  none,
  hinted,   ///< a WANT is in flight for which no request waits
  asked,    ///< a WANT is in flight for which a request waits
  granted,  ///< it was granted; kept from REVOKEs until the waiting request has taken it
};
constexpr want_state want_of(const past_fields& f) noexcept {
  return static_cast<want_state>(f.stalls_last_want & 3);
}
constexpr std::uint8_t stalls_last_of(const past_fields& f) noexcept {
  return static_cast<std::uint8_t>(f.stalls_last_want >> 2);
}
constexpr std::uint8_t stalls_last_want(std::uint32_t last, want_state w) noexcept {
  return static_cast<std::uint8_t>((last < 63 ? last : 63) << 2 | static_cast<std::uint32_t>(w));
}

template <class Fields>
constexpr std::uint64_t bits(const Fields& f) noexcept {
  return std::bit_cast<std::uint64_t>(f);
}
template <class Fields>
constexpr Fields fields(std::uint64_t b) noexcept {
  return std::bit_cast<Fields>(b);
}

constexpr std::uint16_t saturated(std::uint32_t v) noexcept {
  return static_cast<std::uint16_t>(v < counter_max ? v : counter_max);
}
constexpr std::uint8_t saturated8(std::uint32_t v, std::uint32_t most = 0xff) noexcept {
  return static_cast<std::uint8_t>(v < most ? v : most);
}
/// Epochs from a record's stamp to `now`, the epoch that this thread sees. Nothing orders the two
/// words: where another thread has just stamped the record, the epoch seen here may be the older
/// one, by a few. So what would be one of the last 256 of 65,536 epochs is none.
constexpr std::uint16_t epochs_since(std::uint16_t stamp, std::uint16_t now) noexcept {
  const auto passed = static_cast<std::uint16_t>(now - stamp);
  return passed < 0xff00 ? passed : std::uint16_t{0};
}
/// One epoch's fading of a counter without memory.
constexpr std::uint16_t faded(std::uint16_t v) noexcept {
  return static_cast<std::uint16_t>(v >> 2);
}
/// One epoch's fading into the "last" state: last/4 + 3·curr/4. Reaches 0 when curr stays 0, and
/// curr or one below when curr stays the same.
constexpr std::uint16_t blended(std::uint32_t last, std::uint32_t curr) noexcept {
  return static_cast<std::uint16_t>((last + 3 * curr) / 4);
}

template <thread_mode M, template <class> class Atomic>
struct peer_state {
  word<M, std::uint64_t, Atomic> send{0};
  word<M, std::uint64_t, Atomic> loan{0};
  word<M, std::uint64_t, Atomic> past{0};
  word<M, std::uint64_t, Atomic> lent{0};
  word<M, std::uint32_t, Atomic> scavenge_link{0};
  word<M, std::uint32_t, Atomic> waiting_link{0};
};
static_assert(sizeof(peer_state<thread_mode::par, std::atomic>) <= 40);
static_assert(sizeof(peer_state<thread_mode::seq, std::atomic>) <= 40);

/// Has a record for every peer in one array, 40 bytes × ranks of address space; memory for those
/// that were touched, in whole pages. Any thread may read any record.
template <class State>
class dense_store {
 public:
  dense_store(std::uint32_t ranks, void (*)(State&, std::uint32_t, const config&), const config&)
      : states_(ranks) {}
  [[nodiscard]] State& operator[](std::uint32_t p) const noexcept { return states_[p]; }

 private:
  zero_array<State> states_;
};

}  // namespace penstock::credit
