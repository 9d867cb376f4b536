// What a request costs its sender in credits.
#pragma once

#include <cstdint>

#include "credit/credit.hpp"
#include "lib/conduit/message/wire.hpp"

namespace penstock::conduit::wire {

/// carried: the bytes of payload that travel in the message.
[[nodiscard]] constexpr std::uint32_t cost_of_request(kind k, unsigned nargs,
                                                      std::uint32_t carried) noexcept {
  return credit::cost(k, packed_bytes(fixed_bytes(k, nargs), carried));
}

}  // namespace penstock::conduit::wire
