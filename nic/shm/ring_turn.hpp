// How a ring is as long as its producer needs it: where it turns. A ring's memory is address space
// for the longest ring. Its producer uses the first slots and the first data bytes of it, and
// chooses how many. It tells the consumer by marks that lie among the messages, and by nothing
// else:
//
//   slots  | m m m m m m T |  not used: no memory      data  | d d d d |  not used: no memory
//            ^-- the next lap begins here <-- T              ^-- and here
//
// A mark T is a slot of its own, of operation op_turn. A consumer that finds it goes on where the
// next lap begins: at the next position that is a multiple of the slots (or data bytes) which the
// whole memory could hold. So a position names the same slot as in a ring that never turns, and
// messages between two marks pay nothing for them.
// Longer: the producer goes on where it would have turned; the consumer need not be told.
// Shorter: a mark says how much is used from there on. The consumer gives the memory behind that
// back to the system at once, and then says that it has passed the mark. Before that the producer
// uses no more (R-d), so no byte is given back while it is being written.
// Used by ring.hpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lib/base/limits.hpp"

namespace penstock::nic::shm {

/// The operation of a mark; no message has it (message.hpp).
inline constexpr std::uint8_t op_turn = 254;

/// What a mark says: the header word of its slot.
struct turn_mark {
  bool slots = false;             ///< the next slot is the first
  bool data = false;              ///< the next data lie at the beginning
  bool shorter = false;           ///< from here on no more is used than:
  std::uint16_t length = 0;       ///< slots, the next mark's not counted
  std::uint32_t data_length = 0;  ///< data bytes

  /// The number of data bytes in the state of a mark's slot. A mark has no data; the number lets a
  /// thread that sees the state alone tell whether the next slot is the first.
  static constexpr std::uint32_t next_lap = 1;
  [[nodiscard]] constexpr std::uint32_t length_of_slot() const noexcept {
    return slots ? next_lap : 0;
  }
  [[nodiscard]] constexpr std::uint64_t encode() const noexcept {
    return std::uint64_t{slots} | std::uint64_t{data} << 1 | std::uint64_t{shorter} << 2 |
           std::uint64_t{length} << 8 | std::uint64_t{data_length} << 32;
  }
  [[nodiscard]] static constexpr turn_mark decode(std::uint64_t w) noexcept {
    return {(w & 1) != 0, (w & 2) != 0, (w & 4) != 0, static_cast<std::uint16_t>(w >> 8),
            static_cast<std::uint32_t>(w >> 32)};
  }
  /// False for a mark that no producer writes in a ring of these sizes; word: what it was decoded
  /// from.
  [[nodiscard]] constexpr bool possible(std::uint64_t word, std::uint32_t all_slots,
                                        std::uint32_t all_data) const noexcept {
    if (encode() != word || (!slots && !data)) return false;
    if (!shorter) return length == 0 && data_length == 0;
    return slots && data && length != 0 && length <= all_slots && data_length <= all_data;
  }
};
static_assert(limits::ring_slots <= 1u << 16);

/// Makes sure that [begin, end) has memory, or gets it when touched; false: there is none.
bool take_pages(std::byte* begin, std::byte* end) noexcept;
/// Gives back the memory of the pages that lie whole in [begin, end); they read as zero afterwards.
void give_back_pages(std::byte* begin, std::byte* end) noexcept;

}  // namespace penstock::nic::shm
