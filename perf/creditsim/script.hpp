// A pattern written down in numbers, so that one can be searched for and kept: up to eight flows,
// one after the other at each node that has a part in several. Text: seven numbers a flow, flows
// divided by slashes; "0,1,16,3,1,64,8m": from node 0 on each 1st one, 16 in all, send 64 Mediums
// (s: Shorts) to node 3, then to node 3 + 1, and so on, 8 bursts each.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "perf/creditsim/pattern.hpp"

namespace penstock::creditsim {

struct flow {
  std::uint32_t first = 0, stride = 1, senders = 1;  ///< which nodes send
  /// The first burst's target, and how much further on the next one's is.
  std::uint32_t target = 0, step = 0;
  std::uint32_t burst = 1, bursts = 1;  ///< messages in one, and how many
  bool mediums = true;
  friend bool operator==(const flow&, const flow&) = default;
};
using script = std::vector<flow>;

inline constexpr std::size_t most_flows = 8;
/// Nothing if the text is no script.
std::optional<script> parse_script(const std::string& text);
std::string to_text(const script& s);
std::unique_ptr<pattern> make_script(const script& s, std::uint32_t nodes);
/// Null if the text is no script.
std::unique_ptr<pattern> make_script(const std::string& text, std::uint32_t nodes);

}  // namespace penstock::creditsim
