// Several pairs of processes measured at the same time, as one measurement. Every pair takes the
// same number of rounds, in step; the first one gathers them all.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "perf/measurement.hpp"

namespace penstock::perf {

/// The rounds of one pair, for another process of this program.
std::vector<std::byte> packed(std::span<const measurement> rounds);

/// Joins the rounds of all pairs to one measurement. Rates and operations are added; samples are
/// counted together, so percentiles are those of all pairs' samples, to 1 %. own: the first pair's
/// rounds, whose heading counts; of_pairs: the results of packed() at each pair, including the
/// first. Rounds that some pair lacks are left out.
std::vector<measurement> combined(std::span<const measurement> own,
                                  std::span<const std::vector<std::byte>> of_pairs);

}  // namespace penstock::perf
