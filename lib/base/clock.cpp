#include "lib/base/clock.hpp"

namespace penstock {

double ns_per_tick() noexcept {
  static const double ratio = [] {
    const std::uint64_t t0 = now_ns();
    const std::uint64_t c0 = ticks();
    while (now_ns() - t0 < 2'000'000) {
    }
    const std::uint64_t t1 = now_ns();
    const std::uint64_t c1 = ticks();
    return static_cast<double>(t1 - t0) / static_cast<double>(c1 - c0);
  }();
  return ratio;
}

}  // namespace penstock
