// The three forms of a call: blocking, with an event, implicit. The calls of gasnet_vis.h and of
// gasnetex.h use it.
#pragma once

#include "lib/gasnet/operations.hpp"
#include "lib/gasnet/vis/vis.hpp"

namespace penstock::gasnet::PENSTOCK_ABI::vis {

enum form : int { blocking_form = 0, event_form = 1, implicit_form = 2 };

/// Runs go(call, flight) with the counter that the form asks for; call is the name of that form.
/// at_once: the flight's. Returns the event of the operation, if the form has one and it is still
/// in flight; GEX_EVENT_NO_OP, in every form, if it was refused.
template <class Go>
gex_Event_t run_form(int form, const char* const (&names)[3], bool put, bool at_once, Go&& go) {
  thread_operations& mine = my_operations();
  if (form == implicit_form) {
    flight f{put ? mine.implicit_puts() : mine.implicit_gets(), at_once};
    go(names[form], f);
    return f.refused ? GEX_EVENT_NO_OP : GEX_EVENT_INVALID;
  }
  if (form == blocking_form) {
    operation op;
    flight f{op.pending, at_once};
    go(names[form], f);
    wait_for(op);
    return f.refused ? GEX_EVENT_NO_OP : GEX_EVENT_INVALID;
  }
  operation& op = mine.take();
  flight f{op.pending, at_once};
  go(names[form], f);
  const gex_Event_t ev = event_or_done(op);
  return f.refused ? GEX_EVENT_NO_OP : ev;
}

}  // namespace penstock::gasnet::PENSTOCK_ABI::vis
