// How a connection by queue pairs is taken down, where the setting MAX_CONNECTIONS limits them. The
// connector's thread (parting.cpp) decides it and destroys the queue pairs. A poll of the program
// (verbs_path/part.cpp) says whether nothing is under way, and keeps the program off the lanes.
//
//   the lower rank's                                       the higher rank's
//   program        connector                    connector              program
//          <-asked--
//   --closed->           --- hello, ask ------>          --asked->
//                                                        <-closed--
//          <-again--     <-- hello, agreed ----
//   --sealed->  destroys --- hello, next generation ->   destroys
//
// A side is closed when none of its requests is unanswered, none of its transfers is under way, all
// that it has posted has completed, and it posts nothing more but answers. The lower rank closes
// first, and asks then: so the other side, which closes after it, has no answer left to send. The
// lower rank looks again (sealed) after the other has closed, since it may have answered a request
// meanwhile. When both are closed, nothing is under way in either direction, so no message is lost.
//
// Nobody waits for another's program. A side that is busy refuses. If the lower rank wants to send
// before it has destroyed its queue pairs, it opens the connection again by itself. The higher rank
// asks the other's connector, whose answer is that the connection is open again, or that it is gone
// and the next generation may begin.
//
// Hellos may be lost, late or doubled. Queue pairs belong to a generation, which every hello tells;
// one of an older generation says nothing of lanes. Each ask has a number, which is odd while it
// lasts. It ends with the next even one, so an agreement to an ask that has ended is not believed.
//
// What is known of a peer outlives its queue pairs: loans, their buffers, credits owed, counters.
// spin/part.pml is a model of this exchange.
#pragma once

#include <cstdint>

#include "penstock/mode.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

/// How far the parting from a peer has come on this side (peer::parting).
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
