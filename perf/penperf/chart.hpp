// A picture of measurements at several sizes: penperf --svg.
#pragma once

#include <span>
#include <string>

#include "perf/measurement.hpp"

namespace penstock::penperf {

/// Medians, 99th percentiles and the twin's median over the sizes; for rates the bytes a second of
/// both. Both axes are logarithmic. False: the file cannot be written.
bool draw(std::span<const perf::measurement> all, const std::string& path);

}  // namespace penstock::penperf
