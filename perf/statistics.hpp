// From samples to the figures that a measurement reports. No tail is dropped, no mean stands alone.
#pragma once

#include <cstdint>
#include <span>

#include "perf/distribution.hpp"

namespace penstock::perf {

/// Order statistics of a set of samples, in the samples' unit.
struct summary {
  double min = 0, p50 = 0, p90 = 0, p99 = 0, p999 = 0, max = 0;
  distribution spread{};  ///< all of them; empty where only a mean is known
};

/// Sorts samples in place. unit: what one sample count is worth (ns per tick, over operations per
/// sample). Percentile p is the smallest sample that at least p of all do not exceed. All zero when
/// there are no samples.
summary summarize(std::span<std::uint64_t> samples, double unit) noexcept;

/// The median of samples (sorted in place), for warm-up decisions; 0 when there are none.
std::uint64_t median(std::span<std::uint64_t> samples) noexcept;

}  // namespace penstock::perf
