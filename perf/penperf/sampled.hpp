// The figures of an operation that one process repeats by itself: batches between two readings of
// the tick counter. For benchmarks whose other process takes no part.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "perf/penperf/rig.hpp"
#include "perf/penperf/trip_samples.hpp"

namespace penstock::penperf {

/// once() carries out `batch` operations; it is called for each sample, after a warm-up.
template <class Batch>
figures sampled(std::span<std::uint64_t> samples, std::uint64_t batch, Batch&& once) {
  const std::span few = samples.first(std::min<std::size_t>(samples.size(), 100));
  settle(batch * few.size(), [&] {
    time_each(few, once);
    return static_cast<double>(perf::median(few));
  });
  const std::uint64_t start = ticks();
  time_each(samples, once);
  const double seconds = static_cast<double>(ticks() - start) * ns_per_tick() * 1e-9;
  const std::uint64_t count = batch * samples.size();
  return {perf::summarize(samples, ns_per_tick() / static_cast<double>(batch)),
          static_cast<double>(count) / seconds, count};
}

}  // namespace penstock::penperf
