// The samples of a latency benchmark: a chunk of trips to see whether the rate has settled, then as
// many as a round takes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "lib/base/clock.hpp"
#include "perf/penperf/options.hpp"

namespace penstock::penperf {

/// Calls once() for each sample, which is set to the ticks that it took: from the reading of the
/// counter behind the call before to that behind its own.
template <class Once>
void time_each(std::span<std::uint64_t> samples, Once&& once) {
  std::uint64_t before = ticks();
  for (auto& s : samples) {
    once();
    const std::uint64_t now = ticks();
    s = now - before;
    before = now;
  }
}

class trip_samples {
 public:
  /// o.iters trips in a round if that is told, else as many as o.seconds take.
  explicit trip_samples(const options& o)
      : samples_(o.iters != 0 ? o.iters : most),
        trips_(o.iters),
        seconds_(o.seconds),
        chunk_(o.chunk) {}

  /// Those of a chunk.
  [[nodiscard]] std::span<std::uint64_t> few() noexcept {
    return std::span(samples_).first(std::min<std::size_t>(chunk_, samples_.size()));
  }
  /// Those of a round, which is as long as the first, whose median that is.
  [[nodiscard]] std::span<std::uint64_t> in_a_round(double median_ns) noexcept {
    if (trips_ == 0)
      trips_ = std::clamp(static_cast<std::uint64_t>(seconds_ * 1e9 / std::max(median_ns, 1.0)),
                          chunk_, most);
    return std::span(samples_).first(trips_);
  }
  [[nodiscard]] std::uint64_t chunk() const noexcept { return chunk_; }

 private:
  static constexpr std::uint64_t most = 100'000;  ///< in a round, if not told
  std::vector<std::uint64_t> samples_;
  std::uint64_t trips_;  ///< in a round; 0: not known yet
  double seconds_;
  std::uint64_t chunk_;
};

}  // namespace penstock::penperf
