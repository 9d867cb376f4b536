// Time: a cheap tick counter for the polling loops and benchmarks, and its conversion to
// nanoseconds.
#pragma once

#include <cstdint>
#include <ctime>

namespace penstock {

/// Monotonic nanoseconds from the kernel's clock. It takes about 25 ns, so the data path does not
/// call it.
inline std::uint64_t now_ns() noexcept {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000u +
         static_cast<std::uint64_t>(t.tv_nsec);
}

/// A counter of about the processor's cycles, which takes about 10 ns. It is not ordered with
/// memory accesses around it.
inline std::uint64_t ticks() noexcept {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#else
  return now_ns();
#endif
}

/// Nanoseconds per tick. The first call calibrates it against the kernel's clock, which takes about
/// 2 ms.
double ns_per_tick() noexcept;

}  // namespace penstock
