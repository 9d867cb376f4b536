// The kinds of messages: the one list, which the wire, the credit system and the engine share. A
// switch over it has no default, so that the compiler finds each place that must know a new kind.
#pragma once

#include <cstdint>

namespace penstock {

/// The kind of a message; three bits on the wire, of whose eight values seven are used.
enum class message_kind : std::uint8_t {
  short_ = 0,
  medium = 1,
  long_ = 2,        ///< the payload was written into the segment beforehand
  packed_long = 3,  ///< the payload travels along and is copied to its place by the target
  /// Reply lane: carries credits alone; length holds their number, chunk what is lent on top.
  credits = 4,
  system = 5,  ///< reply lane: one of system_op, in the handler field; length holds a count
  large = 6,   ///< a Medium whose payload stands elsewhere; length: its bytes, less one
};

/// True if the payload travels with the header.
[[nodiscard]] constexpr bool carries_payload(message_kind k) noexcept {
  switch (k) {
    case message_kind::medium:
    case message_kind::packed_long:
      return true;
    case message_kind::short_:
    case message_kind::long_:
    case message_kind::credits:
    case message_kind::system:
    case message_kind::large:
      break;
  }
  return false;
}

/// What a client calls a message of kind k; a kind of the engine's own has no such name.
[[nodiscard]] constexpr const char* name_of(message_kind k) noexcept {
  switch (k) {
    case message_kind::short_:
      return "Short";
    case message_kind::medium:
    case message_kind::large:
      return "Medium";
    case message_kind::long_:
    case message_kind::packed_long:
      return "Long";
    case message_kind::credits:
      return "credits";
    case message_kind::system:
      return "system";
  }
  return "?";  // a peer may send the eighth value
}

}  // namespace penstock
