// The placement probe: how long a cache line takes from one process to the other and back. Printed
// before and after every measurement, because a hypervisor may run both cores on one.
#pragma once

#include <atomic>
#include <cstdint>

#include "lib/base/mode.hpp"

namespace penstock::perf {

/// The line that goes back and forth; zero when made, in memory both processes map.
struct alignas(cache_line) probe_line {
  std::atomic<std::uint64_t> turn{0};
};

/// Two processes call this at about the same time with the same line, first true in one and false
/// in the other. About 2 ms. Returns the median round trip in ns (in both).
double probe_cache_line(probe_line& line, bool first) noexcept;

}  // namespace penstock::perf
