// A message as its sender describes it, before its path is known, and the largest sizes of
// messages. All code that sends uses it; it knows no device and no peer.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lib/base/limits.hpp"
#include "lib/conduit/message/wire.hpp"
#include "penstock/mode.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

/// Largest payload of a Medium that travels with its header, and of any Medium.
using limits::max_eager;
using limits::max_medium;
/// Largest payload of a Long.
inline constexpr std::size_t max_long = 0x7fffffff;

struct draft;

/// How the payload of a Long goes: by what is best, which may be with its header; beside the
/// header, by the same queue pair; or it is there already.
enum class payload_way : std::uint8_t { best, beside_header, ahead };

/// A message to be sent, as its caller describes it. The pointed-to memory stays the caller's.
struct outgoing {
  wire::kind kind = wire::kind::short_;
  std::uint8_t handler = 0;
  std::uint8_t flags = 0;
  unsigned nargs = 0;
  const std::uint32_t* args = nullptr;
  const void* payload = nullptr;
  std::size_t bytes = 0;
  void* dest = nullptr;  ///< Longs: address in the target's segment
  bool async = false;    ///< LongAsync: the payload stays untouched until the reply
  payload_way by = payload_way::best;
  /// The draft in which the payload was written, if it was written in place.
  draft* written = nullptr;
  /// For a Medium by rendezvous: the buffer that has its payload, and the block that says where.
  std::uint16_t buffer = 0xffff;
  const wire::large_block* where = nullptr;
  bool last_way = false;  ///< the message cannot go by rendezvous: it may take the last credits

  /// Bytes of payload that travel with the header; those of a Long go ahead of it.
  [[nodiscard]] constexpr std::uint32_t carried() const noexcept {
    return carries_payload(kind) ? static_cast<std::uint32_t>(bytes) : 0;
  }
  /// True for a Medium that does not travel with its header.
  [[nodiscard]] constexpr bool is_large() const noexcept {
    return kind == wire::kind::medium && bytes > max_eager;
  }
  /// True for a Medium that may go by rendezvous where it is short of credits, though it is not
  /// large. What was written in place is copied then.
  [[nodiscard]] constexpr bool is_offerable() const noexcept {
    return kind == wire::kind::medium && bytes != 0 && bytes <= max_eager && !last_way && !system();
  }
  /// True if the handler is one of the engine's own.
  [[nodiscard]] constexpr bool system() const noexcept { return (flags & wire::flag_system) != 0; }
  /// The number of the handler in the first table of the user's, whose names are known; else 0.
  [[nodiscard]] constexpr unsigned named_handler() const noexcept {
    return system() || flags >> wire::client_flags_shift != 0 ? 0 : handler;
  }
};

/// A Short to a user's handler.
inline outgoing short_of(std::uint8_t handler, const std::uint32_t* args, unsigned nargs) noexcept {
  return {.kind = wire::kind::short_, .handler = handler, .nargs = nargs, .args = args};
}
/// A Medium to a user's handler.
inline outgoing medium_of(std::uint8_t handler, const std::uint32_t* args, unsigned nargs,
                          const void* payload, std::size_t bytes) noexcept {
  return {.kind = wire::kind::medium,
          .handler = handler,
          .nargs = nargs,
          .args = args,
          .payload = payload,
          .bytes = bytes};
}
/// Either, for code that is the same for both: what follows the handler says which.
[[gnu::always_inline]] inline outgoing of_user(std::uint8_t handler, const std::uint32_t* args,
                                               unsigned nargs) noexcept {
  return short_of(handler, args, nargs);
}
[[gnu::always_inline]] inline outgoing of_user(std::uint8_t handler, const std::uint32_t* args,
                                               unsigned nargs, const void* payload,
                                               std::size_t bytes) noexcept {
  return medium_of(handler, args, nargs, payload, bytes);
}

}  // namespace penstock::conduit::PENSTOCK_ABI
