// The client of gasnet.h inside penperf: the measured code is in a translation unit of its own, as
// in any program. It uses ranks 0 and 1 of the job; each is the same process as the C++
// interface's, whose job it shares.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "perf/penperf/options.hpp"

namespace penstock::penperf::gasnet_side {

/// Collective. device: as --device; empty: the default.
void start(const std::string& device);

/// What is measured by trips(): a message that is answered by a Short, both without arguments; and
/// by flood(): a message.
struct exchange {
  bool ex = false;      ///< by gasnetex.h, else by gasnet.h
  bool medium = false;  ///< else a Short
  payload_kind payload = payload_kind::ready;
  std::span<const std::byte> from;  ///< the payload, or the data from which it is made
};

/// The requester: round trips, a sample each, in ticks.
void trips(const exchange& what, std::span<std::uint64_t> samples);
/// The requester: `batch` messages of two arguments for each sample, in ticks; returns when the
/// target has run the handlers of all. They have no answer.
void flood(const exchange& what, std::uint64_t batch, std::span<std::uint64_t> samples);
/// Meanwhile the target polls, until the requester says that it has finished.
void serve();
void finish();

/// Collective: rank 0 has sent each other rank a message, and got its answer.
void greet_all();
/// Polls that many times.
void polls(std::uint64_t count);

/// Both: one barrier, then one for each sample.
void barriers(std::span<std::uint64_t> samples);

}  // namespace penstock::penperf::gasnet_side
