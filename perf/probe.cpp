// See probe.hpp.
#include "perf/probe.hpp"

#include <array>

#include "lib/base/clock.hpp"
#include "perf/patience.hpp"
#include "perf/statistics.hpp"

namespace penstock::perf {

double probe_cache_line(probe_line& line, bool first) noexcept {
  constexpr unsigned batches = 64, trips = 100;
  std::array<std::uint64_t, batches> sample;
  // Both start from the same even value: it is a multiple of one probe's total after every probe.
  constexpr std::uint64_t total = 2ull * batches * trips;
  std::uint64_t turn = line.turn.load(std::memory_order_relaxed) / total * total;
  std::uint64_t before = ticks();
  for (auto& s : sample) {
    for (unsigned i = 0; i < trips; ++i, turn += 2) {
      patience p("answer to the placement probe");
      if (first) {
        // P1 ping  store-release turn  -> P2 (only the value itself is passed)
        line.turn.store(turn + 1, std::memory_order_release);
        // P4 load-acquire turn  <- P3
        while (line.turn.load(std::memory_order_acquire) != turn + 2) p.idle();
      } else {
        // P2 load-acquire turn  <- P1
        while (line.turn.load(std::memory_order_acquire) != turn + 1) p.idle();
        // P3 pong  store-release turn  -> P4
        line.turn.store(turn + 2, std::memory_order_release);
      }
    }
    const std::uint64_t now = ticks();
    s = now - before;
    before = now;
  }
  return static_cast<double>(median(sample)) * ns_per_tick() / trips;
}

}  // namespace penstock::perf
