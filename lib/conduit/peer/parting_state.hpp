// The states of a parting, which connecting/parting.cpp draws.
#pragma once

#include <cstdint>

#include "penstock/mode.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

/// How far the parting from a peer has come on this side (peer::parting; connecting/parting.cpp).
enum class parting_state : std::uint8_t {
  none,
  asked,    ///< by the connector: a poll is to close the connection if it is idle
  again,    ///< by the connector: a poll is to look whether it still is
  looking,  ///< a poll looks
  closed,   ///< by a poll: no lane is ready
  sealed,   ///< by a poll, after `again`: the queue pairs may be destroyed
  busy,     ///< by a poll: something is under way
  shut,     ///< the peer has gone: what is there stays
};

/// What the higher rank answers to an ask.
enum class vote : std::uint8_t { none, agreed, refused };

}  // namespace penstock::conduit::PENSTOCK_ABI
