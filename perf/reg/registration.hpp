// The cost of having memory registered: a firehose hit, a miss while there is room, a miss that
// evicts (a working set twice the limit), and the twin of all three, a plain registration that is
// ended at once. One process; the device is the one with which the registrar registers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "firehose/pool.hpp"
#include "lib/base/result.hpp"
#include "memreg/registrar.hpp"
#include "perf/statistics.hpp"

namespace penstock::perf {

struct registration_options {
  std::uint32_t regions = 1024;    ///< R of the cache; hits are spread over as many buffers
  std::size_t bytes = 4096;        ///< of one buffer, at most 64 KiB
  std::uint32_t threads = 1;       ///< that hit at once
  std::uint32_t samples = 10'000;  ///< per figure; a sample of hits is `hits_per_sample` of them
  firehose::protection protect = firehose::protection::automatic;
};
inline constexpr std::uint32_t hits_per_sample = 64;

/// Nanoseconds per operation; a lease is taken and returned in each.
struct registration_figures {
  summary hit;                                        ///< of all threads' samples
  summary miss;                                       ///< registers, nothing has to go
  summary evict;                                      ///< registers, and something goes
  summary plain;                                      ///< reg() and dereg(), the twin
  std::uint64_t hits = 0, misses = 0, evictions = 0;  ///< as the cache counted them
  const char* protection = "";                        ///< what kept stale registrations out
};

/// Measures. Errors: no memory, or the device's of a registration. Seconds on a slow device.
result<registration_figures> measure_registration(memreg::registrar& device,
                                                  const registration_options& options);

}  // namespace penstock::perf
