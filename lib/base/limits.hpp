// The sizes that several folders have to agree on, chosen here and nowhere else. From the largest
// eager Medium and the unit of credits follow the bytes of a message, its highest cost, and the
// length of a ring. credit, queues, nic and the engine use them, and each asserts what it derives
// from them. test/conduit/sizes.cmake builds and runs them at the smallest and the largest Medium.
#pragma once

#include <bit>
#include <cstdint>

namespace penstock::limits {

/// Largest payload of a Medium that travels with its header, and of a Long that is packed; settable
/// when the library is built (PENSTOCK_MAX_MEDIUM).
#ifndef PENSTOCK_MAX_MEDIUM  // a build setting, see tools/cmake/penstock.cmake
inline constexpr std::uint32_t max_eager = 4032;
#else
inline constexpr std::uint32_t max_eager = PENSTOCK_MAX_MEDIUM;
#endif
/// Largest payload of a Medium; one above max_eager goes by rendezvous.
inline constexpr std::uint32_t max_medium = 64 * 1024;
static_assert(max_eager >= 512 && max_eager <= 65024 && max_eager % 64 == 0,
              "PENSTOCK_MAX_MEDIUM: a multiple of 64 from 512 to 65024");

/// Bytes of receive space that one credit stands for.
inline constexpr std::uint32_t credit_bytes = 256;

/// Most bytes in front of a payload: the header, a Long's block, 16 words of arguments.
inline constexpr std::uint32_t max_front = 8 + 16 + 16 * 4;
static_assert(max_front % 8 == 0);
/// The longest message, in whole lines.
inline constexpr std::uint32_t longest_message = (max_front + max_eager + 63) & ~63u;
/// Most credits one message can cost.
inline constexpr std::uint32_t highest_cost = (longest_message + credit_bytes - 1) / credit_bytes;

/// Bytes of a message that travel in a ring's slot itself; the slot is one cache line.
inline constexpr std::uint32_t slot_body = 48;
/// Messages in a ring.
inline constexpr std::uint32_t ring_slots = 256;
/// Data bytes of a ring, a power of two. While room for the longest reply is set aside, there is
/// room for another: a reply that does not fit at the ring's end skips that end, which is as long
/// as a reply at most.
inline constexpr std::uint32_t ring_data =
    std::bit_ceil(3 * longest_message) < 64 * 1024 ? 64 * 1024 : std::bit_ceil(3 * longest_message);

}  // namespace penstock::limits
