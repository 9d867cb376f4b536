// The order to leave: whether there is one, and how the ranks tell each other. Only leave.cpp uses
// it, which acts on the order.
#pragma once

#include "lib/conduit/engine.hpp"

namespace penstock::gasnet::PENSTOCK_ABI {

/// Registers the handler of its messages with the engine. Before start().
void register_order(conduit::engine& e);

/// Notes an order to end the job with that code, unless there is an order already.
void note_order(int code) noexcept;
bool ordered() noexcept;
/// The code of the order; 0 if there is none.
int ordered_code() noexcept;

/// Passes the request of a process behind this one on, if there is one; not in a handler.
void pass_request_on() noexcept;
/// Tells the ranks next to this one in the tree of the order; once, not in a handler. For ranks
/// that cannot be told at once there is half of the time that an exit may take.
void spread_order() noexcept;
/// Asks for an order to end the job with that code, and spreads it; not in a handler. Returns when
/// there is an order, or none can come.
void ask_for_order(int code) noexcept;
/// Tells others from a handler that never returns: it may send messages, but not poll, since the
/// queue that the handler's message came from is just being read.
void tell_from_handler(int code) noexcept;

}  // namespace penstock::gasnet::PENSTOCK_ABI
