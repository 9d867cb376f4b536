// One direction of a connected pair of queue pairs on one host: a single-producer single-consumer
// ring in shared memory. The shared-memory device builds SEND and RECV on it; the engine's direct
// path pushes and pops messages here without a work request. Who owns the memory, and which thread
// may produce, is decided elsewhere.
//
//   consumer's line     producer's line    slots: 64 bytes each             data: a byte ring
//   +----------------+  +--------------+  +-----------------------------+  +--------------------+
//   | head data_head |  | state        |  | state header body[48]       |  | payload over 48 B  |
//   +----------------+  +--------------+  +-----------------------------+  +--------------------+
//
// A message is one slot; the bytes that do not fit its body lie in the data ring, in one piece.
// Both sides compute from the lengths alone where that is (ring_span), so no offset crosses. The
// producer chooses how much of the memory is used: see ring_turn.hpp.
//
// Threads: one at a time produces, one consumes; the two need nothing of each other.
// Invariants: (R-a) slot i of lap n is written only after head has passed it in lap n-1;
//   (R-b) a slot is read only when its state names its position + 1; (R-c) data bytes are reused
//   only after data_head has passed them; (R-d) what a mark has given up is used again only after
//   head has passed the mark. Effect: a push happens at R1, a pop at A1; room is given back at R2.
// Full: try_push answers false, and nothing is written.
// Death: a producer that dies before R1 leaves the slot unseen; a consumer that dies leaves a full
//   ring. Either side may write rubbish. So lengths, positions and states from the other side are
//   checked or masked before use, and each side notices when the other one overwrites what only the
//   first may write (mend, credible, intact, refusals).
// Cost: a push or pop is no RMW, no fence on x86; one line moves for up to 48 bytes of body. The
//   consumer's line moves once in an eighth of a lap.
#pragma once

#include "nic/shm/ring_rx.hpp"
#include "nic/shm/ring_tx.hpp"
