// The table of handlers: who takes which message. Set up before the engine starts, read by every
// message after that; knows no device and no peer.
#pragma once

#include <cstdint>

#include "lib/conduit/message/outgoing.hpp"
#include "penstock/penstock.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

/// Most user handlers, index 0 to 255, and most of the engine's own.
inline constexpr unsigned user_handlers = 256;
inline constexpr unsigned system_handlers = 24;
/// A handler that takes any number of arguments (it looks at token_state::nargs).
inline constexpr std::uint8_t any_args = 255;

struct handler_entry {
  detail::raw_handler call = nullptr;  ///< null: not registered
  void* context = nullptr;
  std::uint8_t words = any_args;  ///< argument words it takes
  enum class takes : std::uint8_t { either, nothing, payload } payload = takes::either;
  /// Of a user's: numbers of argument words, a bit each, with which it takes Shorts (0), or Mediums
  /// (1), if they fit a slot. Set by engine::start().
  std::uint32_t plain_words[2] = {};
};

/// The handlers of an endpoint: its user's, and the engine's own.
struct handler_table {
  handler_entry user[user_handlers];
  handler_entry own[system_handlers];

  /// Whether m may be sent: its handler is there and takes such a message, and it is not too long.
  [[nodiscard]] status check(const outgoing& m) const noexcept;
  /// Which handler that header names. It must be in range.
  [[nodiscard]] const handler_entry& of(std::uint8_t handler, bool system) const noexcept {
    return system ? own[handler] : user[handler];
  }

  /// True if the user's handler of that index takes a message of kind k, a Short or a Medium, with
  /// so many words, and they fit a slot.
  [[nodiscard]] bool takes(wire::kind k, std::uint8_t handler, unsigned nargs) const noexcept {
    return nargs < 32 && (user[handler].plain_words[static_cast<unsigned>(k)] >> nargs & 1) != 0;
  }
  /// True if a message of that header is such a one, of kind k, and says nothing of credits but how
  /// many it costs or returns: if it lies where it should, its handler may be called without
  /// another look.
  [[nodiscard]] bool plain(wire::kind k, std::uint64_t word) const noexcept {
    constexpr std::uint64_t fixed =
        wire::word_of({.kind_args = 0xe0, .credit = 0xf0, .flags = 0xff});
    const wire::header h = wire::header_of(word);
    return (word & fixed) == wire::word_of({.kind_args = wire::kind_args(k, 0)}) &&
           takes(k, h.handler, h.nargs());
  }
  /// The same of either kind, the header's own.
  [[nodiscard]] bool plain(const wire::header& h) const noexcept {
    constexpr std::uint64_t fixed =
        wire::word_of({.kind_args = 0xc0, .credit = 0xf0, .flags = 0xff});
    static_assert(wire::kind_args(wire::kind::medium, 31) < 0x40);
    return (wire::word_of(h) & fixed) == 0 && takes(h.kind(), h.handler, h.nargs());
  }
};

inline status handler_table::check(const outgoing& m) const noexcept {
  if (m.nargs > max_args) [[unlikely]]
    return status::bad_arguments;
  if (m.system() && m.handler >= system_handlers) [[unlikely]]
    return status::bad_handler;
  const handler_entry& h = of(m.handler, m.system());
  if (h.call == nullptr || (h.words != any_args && h.words != m.nargs)) [[unlikely]]
    return status::bad_handler;
  const bool carries = m.kind != wire::kind::short_;
  if (h.payload != handler_entry::takes::either &&
      (h.payload == handler_entry::takes::payload) != carries) [[unlikely]]
    return status::bad_handler;
  if (carries) {
    if (m.payload == nullptr && m.bytes != 0) [[unlikely]]
      return status::bad_arguments;
    if (m.bytes > (m.kind == wire::kind::medium ? std::size_t{max_medium} : max_long)) [[unlikely]]
      return status::too_long;
  }
  return status::ok;
}

}  // namespace penstock::conduit::PENSTOCK_ABI
