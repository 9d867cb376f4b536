// What two connectors say to each other of a connection (connect.cpp, parting.cpp), and what of a
// datagram's bytes is taken for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <type_traits>

#include "lib/conduit/peer/parting_state.hpp"
#include "lib/conduit/peer/peer.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

inline constexpr std::uint32_t hello_magic = 0x50454e53;

/// Travels in one datagram; hello_in() checks it field by field on arrival.
struct hello {
  std::uint32_t magic = hello_magic;
  std::uint32_t from = 0;
  std::uint64_t job = 0;  ///< the job's secret, so that a stranger's datagram is dropped
  std::uint8_t made = 0, bound = 0, want = 0;
  std::uint8_t domain = 0;  ///< the sender's, and the receiver's
  std::uint32_t qpn[lane_count] = {};
  std::uint32_t psn[lane_count] = {};
  /// Verbs path: the sender's chunks, for replies. Ring path: its buffers of Mediums by rendezvous;
  /// 0: they have not been made.
  std::uint32_t buffers_rkey = 0;
  std::uint64_t buffers_base = 0;
  /// Verbs path: the word in which the receiver says what it has freed, and behind it, if
  /// space_bytes is not 0, the space for the receiver's larger messages (queues/placed_ring.hpp).
  std::uint32_t block_rkey = 0, space_bytes = 0;
  std::uint64_t block_base = 0;
  std::uint32_t generation = 0;  ///< of the queue pairs
  std::uint32_t ask = 0;         ///< as peer::ask
  vote answer{};                 ///< to that ask
  std::uint8_t please = 0;       ///< the sender would like to part, and the receiver leads
  std::uint8_t needed = 0;       ///< lanes that messages have asked for
  std::uint8_t lowered = 0;      ///< the sender lends the receiver the minimum alone (meetings.hpp)
  std::uint32_t unused = 0;      ///< or the compiler would send four bytes of what lay there before
};
static_assert(std::has_unique_object_representations_v<hello>);

/// What a hello must fit: its receiver's job, place, and number of domains.
struct hello_reader {
  std::uint64_t job = 0;
  std::uint32_t rank = 0, size = 0, domains = 0;
};

/// The hello in a datagram of n bytes, which anybody may have sent; nothing unless every field is
/// one that a connector of the job may say. Any thread may call it.
[[nodiscard]] inline std::optional<hello> hello_in(const std::byte* bytes, std::size_t n,
                                                   const hello_reader& here) noexcept {
  hello h;
  if (n != sizeof h) return std::nullopt;
  std::memcpy(&h, bytes, sizeof h);
  const bool ours = h.magic == hello_magic && h.job == here.job && h.from < here.size &&
                    h.from != here.rank && h.domain < here.domains && h.unused == 0;
  // A lane is bound after it was made; one may be needed before.
  const bool lanes = ((h.made | h.needed) & ~all_lanes) == 0 && (h.bound & ~h.made) == 0;
  if (!queues::placing::may_be(h.space_bytes, wire::full_bytes(limits::max_eager)))
    return std::nullopt;
  if (!ours || !lanes || h.want > 1 || h.please > 1 || h.lowered > 1 || h.answer > vote::refused)
    return std::nullopt;
  // Both are numbers of 24 bits; those of lanes that are not made are not used.
  constexpr std::uint32_t highest = 0xffffff;
  for (unsigned l = 0; l < lane_count; ++l)
    if ((h.made >> l & 1) != 0 && (h.qpn[l] > highest || h.psn[l] > highest)) return std::nullopt;
  return h;
}

}  // namespace penstock::conduit::PENSTOCK_ABI
