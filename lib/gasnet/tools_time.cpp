// The timers of gasnet_tools.h: conversion of ticks, their measured granularity and overhead,
// sleep.
#include <gasnet_tools.h>

#include <sys/time.h>

#include <algorithm>
#include <cerrno>
#include <ctime>

#include "lib/base/clock.hpp"

namespace {

// The smallest step that is not zero of several readings in a row, and their mean cost, in ticks.
struct tick_quality {
  double step = 0;
  double cost = 0;
};

const tick_quality& quality() {
  static const tick_quality q = [] {
    constexpr int rounds = 1000;
    std::uint64_t step = ~std::uint64_t{0};
    std::uint64_t last = penstock::ticks();
    const std::uint64_t first = last;
    for (int i = 0; i < rounds; ++i) {
      const std::uint64_t now = penstock::ticks();
      if (now != last) step = std::min(step, now - last);
      last = now;
    }
    return tick_quality{static_cast<double>(step), static_cast<double>(last - first) / rounds};
  }();
  return q;
}

double microseconds(double ticks) { return ticks * penstock::ns_per_tick() / 1000; }

}  // namespace

extern "C" {

#if !defined(__x86_64__)
gasnett_tick_t gasnett_ticks_now(void) { return penstock::ticks(); }
#endif

uint64_t gasnett_ticks_to_ns(gasnett_tick_t ticks) {
  // Calibrated once; a double keeps 53 bits, so that years of ticks lose less than a microsecond.
  return static_cast<uint64_t>(static_cast<double>(ticks) * penstock::ns_per_tick());
}

double gasnett_tick_granularityus(void) { return microseconds(quality().step); }
double gasnett_tick_overheadus(void) { return microseconds(quality().cost); }

uint64_t gasnett_gettimeofday_us(void) {
  timeval t;
  gettimeofday(&t, nullptr);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000u + static_cast<uint64_t>(t.tv_usec);
}

int gasnett_nsleep(uint64_t nanoseconds) {
  timespec left{static_cast<time_t>(nanoseconds / 1'000'000'000u),
                static_cast<long>(nanoseconds % 1'000'000'000u)};
  while (nanosleep(&left, &left) != 0)
    if (errno != EINTR) return errno;
  return 0;
}

}  // extern "C"
