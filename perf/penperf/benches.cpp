// The table of benchmarks: a row for each, its functions in a file of its own.
#include "perf/penperf/bench.hpp"

namespace penstock::penperf {

namespace {
constexpr bench_row rows[] = {
    {"am_lat", "round trip of a request and its reply", true, complete_am_lat, make_am_lat},
    {"am_rate", "requests one way, a second, whose handlers have run", false, complete_am_rate,
     make_am_flood},
    {"am_bw", "payload one way, a second", false, complete_am_bw, make_am_flood},
};
}  // namespace

std::span<const bench_row> benches_table() noexcept { return rows; }

const bench_row* find_bench(std::string_view name) noexcept {
  for (const bench_row& r : rows)
    if (name == r.name) return &r;
  return nullptr;
}

}  // namespace penstock::penperf
