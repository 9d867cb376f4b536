// How long a pattern would take with other rules than ours, in the network's time and with the same
// memory at each receiver: the same latency, one request a step from a sender, the same number
// handled in a step. It is simpler than network.hpp, as none of these rules has a ledger.
//
// Two of them are bounds, and what they assume differs:
// - clairvoyant has credits at each sender before the sender turns to a receiver, and may serve one
//   sender to its end while others wait. No rule whose knowledge travels with messages can do the
//   first: who turns to a receiver for more than its start loan waits one round trip, at least
//   once. None that is fair may do the second, which shortens a run in which all go on to another
//   receiver.
// - online learns of demand where it arises, at once and at no cost, but what it lends takes a
// round
//   trip, counted from the sender's first wish to that receiver: until then the sender has its
//   start loan. That is paid once for a pair, for ever. Who waits for room gets it in turn, and no
//   pair has more in use than MAX_CRED_PER_NODE allows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "perf/creditsim/pattern.hpp"

namespace penstock::creditsim {

enum class rule : std::uint8_t {
  unlimited,    ///< memory without limit
  clairvoyant,  ///< it knows all demand: a message leaves when there will be room for it
  online,       ///< it knows what every node wants to send now, and is fair; see above
  fixed,        ///< a fixed number of credits for each pair; they return with the reply
  rnr,          ///< all send; a message that finds no room is refused, and sent again later
  pause,        ///< as rnr, but then all senders to that receiver stop until it has handled all
};

struct rival_settings {
  std::uint32_t latency = 10, service = 2, medium_cost = 4;  ///< as network_settings
  std::uint32_t memory = 0;       ///< credits of a receiver; not of unlimited and fixed
  std::uint32_t start_loan = 0;   ///< credits of a pair before any were asked for, by online
  std::uint32_t most_each = ~0U;  ///< MAX_CRED_PER_NODE: credits in use of a pair, by online
  std::uint32_t fixed_each = 12;  ///< credits of a pair, by the rule fixed
  std::uint32_t rnr_steps = 100;  ///< between a refusal and the next try: ten latencies
};

struct rival_outcome {
  bool finished = false;
  std::uint64_t steps = 0, sent = 0;
  std::uint64_t repeated = 0;  ///< messages that were refused and came again
  std::uint64_t pauses = 0;
  /// Messages handled by the end of each equal part of the first `steps`; one entry a part.
  std::vector<std::uint64_t> handled_by;
};

rival_outcome run_rival(rule r, const rival_settings& s, pattern& p, std::uint32_t nodes);

}  // namespace penstock::creditsim
