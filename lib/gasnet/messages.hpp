// What gasnet.h's messages (messages.cpp) and gasnetex.h's (ex/) have in common: their calls of the
// engine, and the client's handlers (client_handlers.cpp). Only these include it.
#pragma once

#include <gasnetex.h>

#include "lib/gasnet/process.hpp"

namespace penstock::gasnet::PENSTOCK_ABI {

inline gasnet_token_t handle_of(conduit::token_state& t) noexcept {
  return reinterpret_cast<gasnet_token_t>(&t);
}
inline conduit::token_state& state_of(gasnet_token_t t) noexcept {
  return *reinterpret_cast<conduit::token_state*>(t);
}

/// The endpoints between which a message of gasnetex.h goes, by their indexes in their processes;
/// 0 is the first one. They travel in the client's bits of the message's flags, so that of each
/// process the endpoints of index 0 to 7 have messages.
inline constexpr unsigned message_endpoints = 8;
struct between {
  unsigned from = 0, to = 0;
  [[nodiscard]] constexpr std::uint8_t flags() const noexcept {
    return static_cast<std::uint8_t>((from + to * message_endpoints)
                                     << conduit::wire::client_flags_shift);
  }
};
static_assert(between{7, 7}.flags() == 0xfc);
[[nodiscard]] inline between endpoints_of(const conduit::token_state& t) noexcept {
  const unsigned bits = t.header.flags >> conduit::wire::client_flags_shift;
  return {bits % message_endpoints, bits / message_endpoints};
}

/// A message as the engine takes it.
conduit::outgoing message(conduit::wire::kind k, gasnet_handler_t handler, unsigned n,
                          const gasnet_handlerarg_t* args, const void* payload = nullptr,
                          std::size_t bytes = 0, void* dest = nullptr);
/// Sends m, which it may change. immediate: does not wait, but returns what is short.
status send_request(std::uint32_t dest, conduit::outgoing& m, bool immediate);
status send_reply(gasnet_token_t token, conduit::outgoing& m);
/// The shortest ways for these replies. args: room for an even number of words.
status send_reply_short(conduit::token_state& t, gasnet_handler_t handler, unsigned n,
                        const gasnet_handlerarg_t* args);
status send_reply_medium(conduit::token_state& t, gasnet_handler_t handler, unsigned n,
                         const gasnet_handlerarg_t* args, const void* payload, std::size_t bytes);

/// Sends a Medium without arguments to a client's handler of replies there, to which it looks like
/// a reply, though it answers nothing. Waits for room.
status send_unasked_reply(std::uint32_t dest, between endpoints, gex_AM_Index_t handler,
                          const void* payload, std::size_t bytes);

/// Registers the client's handlers, all of them, with the engine. Before start().
void register_client_handlers(conduit::engine& e);
/// Runs the client's handler of that index for a Long that a message of the library's own carried.
void run_long_of_client(conduit::token_state& t, unsigned index, void* place, std::size_t bytes,
                        const std::uint32_t* args, unsigned nargs);
/// In the place of a number of arguments: that of the first message, and its kind, as the table of
/// gasnet.h has neither.
inline constexpr unsigned any_number = ~0u;
/// Gives this process's endpoint of that index, below message_endpoints, a table of handlers. The
/// first endpoint has one.
void make_handlers(unsigned endpoint);
/// Registers a client's handler with an endpoint. False: its index is taken.
bool set_client_handler(const gex_AM_Entry_t& e, unsigned endpoint = 0);
[[nodiscard]] bool client_handler_free(std::uint8_t index, unsigned endpoint) noexcept;
/// The entry by which the handler that runs for t was registered, and whether it got a Long.
[[nodiscard]] const gex_AM_Entry_t* running_entry(const conduit::token_state& t) noexcept;
[[nodiscard]] bool running_long(const conduit::token_state& t) noexcept;
/// The kinds in words, such as "Mediums and Longs".
[[nodiscard]] const char* describe_kinds(gex_Flags_t flags) noexcept;

}  // namespace penstock::gasnet::PENSTOCK_ABI
