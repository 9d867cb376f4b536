// How the device's messages look in a ring: the operation byte and the header word.
#pragma once

#include <cstdint>

namespace penstock::nic::shm {

// op: a kind in the low bits, flags above. 0 belongs to the direct path; 255 is the ring's mark of
// a broken message.
inline constexpr std::uint8_t kind_mask = 0x07;
inline constexpr std::uint8_t kind_send = 1;       ///< a SEND or a piece of one
inline constexpr std::uint8_t kind_write_imm = 2;  ///< the end of a WRITE with immediate; no bytes
inline constexpr std::uint8_t kind_send_inv =
    3;  ///< a SEND; in the immediate's place a key to close
/// Not a message: the next one is for the shared receive queue whose number is in the header.
inline constexpr std::uint8_t kind_select = 4;
inline constexpr std::uint8_t flag_imm = 0x08;
inline constexpr std::uint8_t flag_solicited = 0x10;
inline constexpr std::uint8_t flag_more = 0x20;  ///< further pieces follow
inline constexpr std::uint8_t flag_tell = 0x40;  ///< the sender waits: tell it at once when taken

/// The header holds the total bytes of the message, and the immediate.
constexpr std::uint64_t message_header(std::uint32_t bytes, std::uint32_t imm) noexcept {
  return std::uint64_t{imm} << 32 | bytes;
}

}  // namespace penstock::nic::shm
