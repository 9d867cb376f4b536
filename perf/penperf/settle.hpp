// How a measurement warms up.
#pragma once

#include <cstdint>

namespace penstock::penperf {

/// Operations before each measurement (--warm-up); 0: until the rate has settled. Set once, before
/// the first measurement.
inline std::uint64_t warm_up_operations = 0;

/// Repeats chunk(), which carries out `operations` operations and returns their median time or
/// rate, until two chunks in a row differ by less than a twentieth, but at most 20 times. With
/// --warm-up it repeats chunk() until it has carried out that number of operations.
template <class Chunk>
void settle(std::uint64_t operations, Chunk&& chunk) {
  if (warm_up_operations != 0) {
    for (std::uint64_t done = 0; done < warm_up_operations; done += operations) chunk();
    return;
  }
  double before = 0;
  for (int i = 0; i < 20; ++i) {
    const double now = chunk();
    if (now > 0.95 * before && now < 1.05 * before) return;
    before = now;
  }
}

}  // namespace penstock::penperf
