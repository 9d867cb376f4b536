// The rounds of a flood: how many batches of messages a round has, and its warm-up.
#pragma once

#include <algorithm>
#include <cstdint>

#include "perf/penperf/options.hpp"
#include "perf/penperf/rig.hpp"

namespace penstock::penperf {

class flood_rounds {
 public:
  /// How long a round of one side is, found in its first warm-up.
  struct length {
    std::uint64_t batches = 0;
  };

  // A batch is one sample; in shared memory about ten microseconds of traffic.
  explicit flood_rounds(const options& o) noexcept
      : batch_(std::clamp<std::uint64_t>(65536 / std::max<std::uint64_t>(o.size, 64), 1, o.chunk)),
        iters_(o.iters),
        seconds_(o.seconds),
        ways_(o.both ? 2 : 1) {
    if (o.window != 0) batch_ = o.window;
    if (iters_ != 0) batch_ = std::min(batch_, iters_);
  }

  /// Messages in a batch.
  [[nodiscard]] std::uint64_t batch() const noexcept { return batch_; }

  /// A warm-up and a round. flood_of(batches) sends that many and returns its figures, where the
  /// rate is that of all ways together.
  template <class Flood>
  figures round(rig& r, length& l, Flood&& flood_of) const {
    const std::uint64_t warm_up = (warm_up_operations + batch_ - 1) / batch_;
    if (iters_ != 0) {
      flood_of(std::max<std::uint64_t>(1, warm_up));
      r.meet();
      return flood_of(std::max<std::uint64_t>(1, iters_ / batch_));
    }
    if (l.batches == 0) {
      double rate = 0;
      std::uint64_t batches = warm_up != 0 ? warm_up : 16;
      settle(batches * batch_, [&] {
        rate = flood_of(batches).rate / ways_;
        // The next try is long enough to be significant: a fortieth of a second.
        if (warm_up == 0) batches = batches_in(0.025, rate);
        return rate;
      });
      l.batches = batches_in(seconds_, rate);
    } else {
      flood_of(warm_up != 0 ? warm_up : l.batches / 16 + 1);
    }
    r.meet();
    return flood_of(l.batches);
  }

 private:
  [[nodiscard]] std::uint64_t batches_in(double seconds, double rate) const noexcept {
    return std::clamp<std::uint64_t>(
        static_cast<std::uint64_t>(seconds * rate / static_cast<double>(batch_)), 4, 1u << 22);
  }

  std::uint64_t batch_, iters_;
  double seconds_;  ///< of a round
  int ways_;
};

}  // namespace penstock::penperf
