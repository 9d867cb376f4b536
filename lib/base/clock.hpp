// Time: a cheap tick counter for the polling loops and benchmarks, and its conversion to
// nanoseconds.
#pragma once

#include <cstdint>
#include <ctime>

namespace penstock {

/// Monotonic nanoseconds from the kernel's clock. About 25 ns; not for the data path.
inline std::uint64_t now_ns() noexcept {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000u +
         static_cast<std::uint64_t>(t.tv_nsec);
}

/// A cycle-like counter, about 10 ns; not ordered with memory accesses around it.
inline std::uint64_t ticks() noexcept {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#else
  return now_ns();
#endif
}

/// Nanoseconds per tick, calibrated against the kernel's clock on first use (about 2 ms).
double ns_per_tick() noexcept;

}  // namespace penstock
