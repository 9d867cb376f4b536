// Between gasnet.h's messages (messages.cpp) and gasnetex.h's (ex/): what both say to the engine,
// and the client's handlers. For these two.
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

/// A message as the engine wants it described.
conduit::outgoing message(conduit::wire::kind k, gasnet_handler_t handler, unsigned n,
                          const gasnet_handlerarg_t* args, const void* payload = nullptr,
                          std::size_t bytes = 0, void* dest = nullptr);
/// Sends m; may change it. immediate: is short of something rather than wait.
status send_request(std::uint32_t dest, conduit::outgoing& m, bool immediate);
status send_reply(gasnet_token_t token, conduit::outgoing& m);

/// Instead of a number of arguments: any.
inline constexpr unsigned any_number = ~0u;
/// False if there is one of that index already.
bool set_client_handler(const gex_AM_Entry_t& e);
[[nodiscard]] bool client_handler_free(std::uint8_t index) noexcept;
/// What was registered of the handler that runs for t.
[[nodiscard]] const gex_AM_Entry_t* running_entry(const conduit::token_state& t) noexcept;
/// "Mediums and Longs".
[[nodiscard]] const char* describe_kinds(gex_Flags_t flags) noexcept;

}  // namespace penstock::gasnet::PENSTOCK_ABI
