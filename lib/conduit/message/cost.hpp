// What a request costs its sender in credits. credit/ knows kinds of messages, too, since it is
// used without an engine: its enumerators have the same values as those of the wire.
#pragma once

#include <cstdint>

#include "credit/credit.hpp"
#include "lib/conduit/message/wire.hpp"

namespace penstock::conduit::wire {

static_assert(static_cast<int>(credit::kind::short_) == static_cast<int>(kind::short_));
static_assert(static_cast<int>(credit::kind::medium) == static_cast<int>(kind::medium));
static_assert(static_cast<int>(credit::kind::long_) == static_cast<int>(kind::long_));
static_assert(static_cast<int>(credit::kind::packed_long) == static_cast<int>(kind::packed_long));
static_assert(static_cast<int>(credit::kind::large) == static_cast<int>(kind::large));

/// carried: the bytes of payload that travel in the message.
[[nodiscard]] constexpr std::uint32_t cost_of_request(kind k, unsigned nargs,
                                                      std::uint32_t carried) noexcept {
  return credit::cost(static_cast<credit::kind>(k), packed_bytes(fixed_bytes(k, nargs), carried));
}

}  // namespace penstock::conduit::wire
