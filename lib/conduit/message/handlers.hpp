// The table of handlers: which handler takes which messages. It is filled before the engine starts,
// and every message reads it after that. It knows no device and no peer.
#pragma once

#include <cstdint>

#include "lib/conduit/message/outgoing.hpp"
#include "penstock/penstock.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

/// The number of user handlers, index 0 to 255, and the most that the engine itself may have.
inline constexpr unsigned user_handlers = 256;
inline constexpr unsigned system_handlers = 24;
/// In handler_entry::words: the handler takes any number of arguments, and asks token_state::nargs.
inline constexpr std::uint8_t any_args = 255;

struct handler_entry {
  detail::raw_handler call = nullptr;  ///< null: not registered
  void* context = nullptr;
  std::uint8_t words = any_args;  ///< argument words it takes
  enum class takes : std::uint8_t { either, nothing, payload } payload = takes::either;
  /// For a user's handler: the numbers of argument words, a bit for each, with which it takes
  /// Shorts ([0]) or Mediums ([1]) whose words fit a slot. engine::start() sets them.
  std::uint32_t plain_words[2] = {};

  /// Sets plain_words to all that the handler takes.
  void allow_plain() noexcept {
    constexpr std::uint32_t fitting = (2u << limits::slot_body / 4) - 1;
    const std::uint32_t n = words == any_args ? fitting : words < 32 ? fitting & 1u << words : 0;
    if (payload != takes::payload) plain_words[0] = n;
    if (payload != takes::nothing) plain_words[1] = n;
  }
};

/// The handlers of an endpoint: the user's and the engine's own.
struct handler_table {
  handler_entry user[user_handlers];
  handler_entry own[system_handlers];

  /// ok if m may be sent: its handler is registered and takes such a message, and m is not too
  /// long.
  [[nodiscard]] status check(const outgoing& m) const noexcept;
  /// The handler that a header names. The index must be in range.
  [[nodiscard]] const handler_entry& of(std::uint8_t handler, bool system) const noexcept {
    return system ? own[handler] : user[handler];
  }

  /// True if the user's handler of that index takes messages of kind k, Short or Medium, with nargs
  /// argument words, and these fit a slot.
  [[nodiscard]] bool takes(wire::kind k, std::uint8_t handler, unsigned nargs) const noexcept {
    return nargs < 32 && (user[handler].plain_words[static_cast<unsigned>(k)] >> nargs & 1) != 0;
  }
  /// True if a message with that header word is plain and of kind k: takes() holds, and it tells
  /// nothing of credits but how many it costs or returns. Once its place has been checked, its
  /// handler may be called without a further check.
  [[nodiscard]] bool plain(wire::kind k, std::uint64_t word) const noexcept {
    constexpr std::uint64_t fixed =
        wire::word_of({.kind_args = 0xe0, .credit = 0xf0, .flags = 0xff});
    const wire::header h = wire::header_of(word);
    return (word & fixed) == wire::word_of({.kind_args = wire::kind_args(k, 0)}) &&
           takes(k, h.handler, h.nargs());
  }
  /// The same for a message of either kind.
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
