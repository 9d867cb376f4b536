// The order to leave: whether there is one, and who tells whom. Used by leave.cpp only, which acts
// on it.
#pragma once

#include "lib/conduit/engine.hpp"

namespace penstock::gasnet::PENSTOCK_ABI {

/// Tells the engine of the handler behind the words. Before start().
void register_order(conduit::engine& e);

/// The job ends with that code, unless there is an order already.
void note_order(int code) noexcept;
bool ordered() noexcept;
/// The code of the order; 0 if there is none.
int ordered_code() noexcept;

/// Whether this process is to tell the others, as rank 0 and helpers are.
bool told_to_spread() noexcept;
/// Once, not from a handler: the order goes to all others. First to those who are within reach, so
/// that nobody waits for one who has left already and makes no connection any more; for such there
/// is half of the time that an exit may take.
void spread_order() noexcept;
/// Not from a handler: rank 0 is asked to order the end with that code. Returns when there is an
/// order, or none can come.
void ask_for_order(int code) noexcept;
/// From a handler, which never returns: messages may go out, but nothing may be polled, as the
/// queue that the handler's message came from is in the middle of being read.
void tell_from_handler(int code) noexcept;

}  // namespace penstock::gasnet::PENSTOCK_ABI
