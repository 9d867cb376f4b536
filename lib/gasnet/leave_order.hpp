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

/// True if this process has to tell the others, as rank 0 and its helpers have.
bool told_to_spread() noexcept;
/// Sends the order to all others; once, not in a handler. Ranks that are connected come first, so
/// that they need not wait for a rank that has left already and makes no connection any more. For
/// such ranks there is half of the time that an exit may take.
void spread_order() noexcept;
/// Asks rank 0 to order the end with that code; not in a handler. Returns when there is an order,
/// or none can come.
void ask_for_order(int code) noexcept;
/// Tells others from a handler that never returns: it may send messages, but not poll, since the
/// queue that the handler's message came from is just being read.
void tell_from_handler(int code) noexcept;

}  // namespace penstock::gasnet::PENSTOCK_ABI
