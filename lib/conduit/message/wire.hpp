// The layout of a message between two engines, on every device. This file does not say when which
// message is sent.
//
//   header 8 bytes | fixed part: [long block or large block, 16] arguments 4 each | payload
//
// codec.hpp says where the three parts lie: packed, one behind the other, or in a ring's slot. Both
// ends compute it from the header alone.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "lib/base/limits.hpp"
#include "lib/base/message_kind.hpp"

namespace penstock::conduit::wire {

using kind = message_kind;

/// System messages of the credit system; at most one of each to a peer at a time.
enum class system_op : std::uint8_t {
  revoke = 0,     ///< the lender asks for credits back
  give_back = 1,  ///< the borrower's answer
  want = 2,       ///< the borrower asks for more than is lent
  grant = 3,      ///< the lender's answer
};
inline constexpr unsigned system_ops = 4;

inline constexpr std::uint8_t flag_system = 1;  ///< the handler is one of the engine's own
inline constexpr std::uint8_t flag_urgent = 2;  ///< of a revoke or want: a request waits for it
/// The six bits from here on are those of the client: its handler finds them in the header. A
/// message without them takes the shortest ways.
inline constexpr unsigned client_flags_shift = 2;

struct header {
  std::uint8_t handler = 0;
  std::uint8_t kind_args = 0;  ///< kind << 5 | number of arguments
  std::uint8_t credit = 0;     ///< the credit byte E·XXX·NNNN
  std::uint8_t flags = 0;
  std::uint16_t length = 0;  ///< payload bytes; some kinds have another meaning, see there
  std::uint16_t chunk = 0;   ///< request: where the reply goes; reply: credits it returns

  [[nodiscard]] constexpr wire::kind kind() const noexcept {
    return static_cast<wire::kind>(kind_args >> 5);
  }
  [[nodiscard]] constexpr unsigned nargs() const noexcept { return kind_args & 31u; }
  [[nodiscard]] constexpr bool system() const noexcept { return (flags & flag_system) != 0; }
};
static_assert(sizeof(header) == 8);

constexpr std::uint8_t kind_args(kind k, unsigned nargs) noexcept {
  return static_cast<std::uint8_t>(static_cast<unsigned>(k) << 5 | nargs);
}

/// Precedes the arguments of a Long of either kind.
struct long_block {
  std::uint64_t dest;  ///< address in the target's segment
  std::uint64_t bytes;
};
static_assert(sizeof(long_block) == 16);

/// Precedes the arguments of a large Medium: where its payload stands (peer/large_buffers.hpp).
struct large_block {
  std::uint64_t base;    ///< address of the sender's buffers, in its own address space
  std::uint32_t key;     ///< the key by which they are mapped, or this one is read
  std::uint16_t buffer;  ///< index of the buffer
  std::uint16_t number;  ///< the target sets the buffer's word to it when it is done
  /// The message's name in traces, where others have their chunk: fetched messages come in no order
  /// of chunks.
  [[nodiscard]] constexpr std::uint32_t name() const noexcept {
    return (buffer + 1u) << 16 | number;
  }
};
static_assert(sizeof(large_block) == sizeof(long_block));

/// Bytes of the fixed part of a message.
constexpr std::uint32_t fixed_bytes(kind k, unsigned nargs) noexcept {
  std::uint32_t block = 0;
  switch (k) {
    case kind::long_:
    case kind::packed_long:
      block = sizeof(long_block);
      break;
    case kind::large:
      block = sizeof(large_block);
      break;
    case kind::short_:
    case kind::medium:
    case kind::credits:
    case kind::system:
      break;
  }
  return block + nargs * 4u;
}

/// Bytes of payload that travel with the header.
constexpr std::uint32_t carried_bytes(const header& h) noexcept {
  return carries_payload(h.kind()) ? h.length : 0u;
}

/// Bytes of a packed message whose fixed part has `fixed` bytes and whose payload has `payload`.
constexpr std::uint32_t packed_bytes(std::uint32_t fixed, std::uint32_t payload) noexcept {
  const std::uint32_t front = std::uint32_t{sizeof(header)} + fixed;
  return payload == 0 ? front : ((front + 7u) & ~7u) + payload;
}

/// The header as one word, made by shifts: from the struct, GCC would assemble the bytes in a
/// register that it has to save.
constexpr std::uint64_t word_of(const header& h) noexcept {
  return std::uint64_t{h.handler} | std::uint64_t{h.kind_args} << 8 |
         std::uint64_t{h.credit} << 16 | std::uint64_t{h.flags} << 24 |
         std::uint64_t{h.length} << 32 | std::uint64_t{h.chunk} << 48;
}
constexpr header header_of(std::uint64_t w) noexcept { return std::bit_cast<header>(w); }
static_assert(header_of(word_of({1, 2, 3, 4, 5, 6})).chunk == 6 &&
              word_of(header_of(0x0102030405060708)) == 0x0102030405060708);
/// header_of(w).chunk, without making the struct.
constexpr std::uint32_t chunk_of(std::uint64_t w) noexcept {
  return static_cast<std::uint32_t>(w >> 48);
}
static_assert(std::endian::native == std::endian::little);

/// Largest fixed part: a Long, or a large Medium, with 16 arguments.
inline constexpr std::uint32_t max_fixed = sizeof(long_block) + 16 * 4;

/// Receive buffers have credit_bytes, and cost one credit, or full_bytes(), and cost full_cost().
using limits::credit_bytes;
constexpr std::uint32_t full_bytes(std::uint32_t max_eager) noexcept {
  return (packed_bytes(max_fixed, max_eager) + 63u) & ~63u;
}
constexpr std::uint32_t full_cost(std::uint32_t max_eager) noexcept {
  return (full_bytes(max_eager) + credit_bytes - 1) / credit_bytes;
}
static_assert(full_bytes(limits::max_eager) == limits::longest_message);
static_assert(full_cost(limits::max_eager) == limits::highest_cost);

}  // namespace penstock::conduit::wire
