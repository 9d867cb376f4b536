// Two processes that no launcher has started together: penperf --server on one host, penperf with
// that host's name on another. What a launcher would do for them is done by the two programs
// themselves.
#pragma once

#include <cstdint>
#include <string>

namespace penstock::penperf {

struct meeting {
  std::string peer;         ///< the server's name or address; empty: this is the server
  std::uint16_t port = 0;   ///< 0: one that is free, for a server
  std::string measurement;  ///< what will be measured: the two must agree
};

/// Meets the other one over TCP, then makes this process a job of two with it: a forked child, in
/// which this returns, joins as if penrun had started it; the parent passes on what the children
/// say to each other and never returns. It ends when its child has, with its code, and ends its
/// child when the other host's has failed. The server is rank 1. Ends the process with code 1 or 2
/// when they do not meet or do not agree.
void meet(const meeting& m);

}  // namespace penstock::penperf
