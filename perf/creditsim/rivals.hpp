// What a pattern would take with other rules than ours, in the network's time and with the same
// memory at each receiver: the same latency, one request a step from a sender, so many handled a
// step. Simpler than network.hpp, as none of these rules has a ledger.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "perf/creditsim/pattern.hpp"

namespace penstock::creditsim {

enum class rule : std::uint8_t {
  unlimited,    ///< memory without end
  clairvoyant,  ///< who knows all demand: a message leaves when there will be room for it
  fixed,        ///< so many credits for each pair, for ever; they return with the reply
  rnr,          ///< everybody sends; what finds no room is refused, and comes again after a while
  pause,        ///< as rnr, but then all senders to that receiver stop until it has handled all
};

struct rival_settings {
  std::uint32_t latency = 10, service = 2, medium_cost = 4;  ///< as network_settings
  std::uint32_t memory = 0;       ///< credits of a receiver; not of unlimited and fixed
  std::uint32_t fixed_each = 12;  ///< credits of a pair, by the rule fixed
  std::uint32_t rnr_steps = 100;  ///< between a refusal and the next try: ten latencies
};

struct rival_outcome {
  bool finished = false;
  std::uint64_t steps = 0, sent = 0;
  std::uint64_t repeated = 0;  ///< messages that were refused and came again
  std::uint64_t pauses = 0;
  /// Messages handled by the end of each of so many equal parts of the first `steps`.
  std::vector<std::uint64_t> handled_by;
};

rival_outcome run_rival(rule r, const rival_settings& s, pattern& p, std::uint32_t nodes);

}  // namespace penstock::creditsim
