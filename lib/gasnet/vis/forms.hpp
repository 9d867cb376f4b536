// The three forms of a call: blocking, with an event, implicit. The calls of gasnet_vis.h and of
// gasnetex.h use it.
#pragma once

#include "lib/gasnet/operations.hpp"

namespace penstock::gasnet::PENSTOCK_ABI::vis {

enum form : int { blocking_form = 0, event_form = 1, implicit_form = 2 };

/// Runs go(call, counter) with the counter that the form asks for; call is the name of that form.
/// Returns the event of the operation, if the form has one and it is still in flight.
template <class Go>
gex_Event_t run_form(int form, const char* const (&names)[3], bool put, Go&& go) {
  thread_operations& mine = my_operations();
  if (form == implicit_form) {
    go(names[form], put ? mine.implicit_puts() : mine.implicit_gets());
    return GEX_EVENT_INVALID;
  }
  if (form == blocking_form) {
    operation op;
    go(names[form], op.pending);
    wait_for(op);
    return GEX_EVENT_INVALID;
  }
  operation& op = mine.take();
  go(names[form], op.pending);
  return event_or_done(op);
}

}  // namespace penstock::gasnet::PENSTOCK_ABI::vis
