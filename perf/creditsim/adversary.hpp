// Looks for the pattern that costs us most beside an allocator that knows all demand: hill climbing
// over scripts, from many random ones.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "perf/creditsim/script.hpp"

namespace penstock::creditsim {

struct found {
  script what;
  double regret = 0;
};

/// The worst `keep` of `tries` scripts on `nodes` nodes, the worst one first, no two alike.
/// regret_of runs a script. The same seed finds the same scripts.
std::vector<found> search_worst(std::uint32_t tries, std::uint32_t nodes, std::uint64_t seed,
                                std::size_t keep,
                                const std::function<double(const script&)>& regret_of);

}  // namespace penstock::creditsim
