// The pictures of penperf -a --svg and its like, as SVG files.
#pragma once

#include <span>
#include <string>

#include "perf/measurement.hpp"

namespace penstock::penperf {

/// Latency or bandwidth by size, beside the twin's. False if the file cannot be written.
bool draw(std::span<const perf::measurement> all, const std::string& path);

/// Operations a second by size, beside the twin's.
bool draw_rate(std::span<const perf::measurement> all, const std::string& path);

/// The share of samples up to each time: ours and the twin's of one size, or ours of all sizes. The
/// share's axis gives 90 to 99 % as much room as 99 to 99.9 %, so that the tail is seen.
bool draw_spread(std::span<const perf::measurement> all, const std::string& path);

}  // namespace penstock::penperf
