// The communication patterns of the simulator: which node sends what to which. A pattern knows
// nothing of credits. The network asks it for each node's next message, and tells it which messages
// arrived.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace penstock::creditsim {

/// The size of a run; 0 leaves a figure to the pattern.
struct workload {
  std::string pattern = "ghost";
  std::uint32_t nodes = 64;
  std::uint64_t seed = 1;
  std::uint32_t messages = 0;    ///< per node and iteration (ghost: per face), or in all
  std::uint32_t iterations = 0;  ///< ghost, tree: steps; hotspot, oscillate: moves
  std::string script;            ///< of the pattern "script", see script.hpp
};

struct send_order {
  std::uint32_t to = 0;
  std::uint32_t cost = 0;  ///< credits
};

inline constexpr std::uint32_t nobody = 0xffffffff;

class pattern {
 public:
  virtual ~pattern() = default;
  /// Fills in the node's next message; false when it has none now: it is done, or waits for one.
  virtual bool next(std::uint32_t node, send_order& out) = 0;
  /// A message of `from` was handled at `at`; answers the node that may have more to send now, or
  /// none.
  virtual std::uint32_t arrived(std::uint32_t at, std::uint32_t from) = 0;
  /// Whether both depend on what that node itself did and got, and on nothing else, so that the
  /// nodes' steps may be done in another order than that of time.
  [[nodiscard]] virtual bool local() const { return true; }
  /// Messages of the whole run.
  [[nodiscard]] virtual std::uint64_t total() const = 0;
  /// Counts changes of the pattern: after each, credits are to settle anew.
  [[nodiscard]] virtual std::uint32_t phase() const { return 0; }
  /// The lender whose loans are drawn, and which is watched for settling where phases change.
  [[nodiscard]] virtual std::uint32_t watched() const { return 0; }
  /// Whether only the watched node's loans are judged (the others have no part in the pattern).
  [[nodiscard]] virtual bool watches_one() const { return false; }
};

/// Names: none, ghost, tree, random, hotspot, alltoone, oscillate, script. Null for any other, and
/// for a script that makes no sense.
std::unique_ptr<pattern> make_pattern(const workload& w);
/// The names, for help and tests.
const std::vector<std::string>& pattern_names();

}  // namespace penstock::creditsim
