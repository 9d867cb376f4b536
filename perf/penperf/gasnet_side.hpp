// The client of gasnet.h inside penperf: what is measured there stands in a translation unit of its
// own, as in anybody's program. Ranks 0 and 1 of the job; both are the same process as the C++
// interface's, whose job it shares.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace penstock::penperf::gasnet_side {

/// Collective. device: as --device; empty: the default.
void start(const std::string& device);

/// The requester: round trips of a Short without arguments and its reply, a sample each, in ticks.
void trips(std::span<std::uint64_t> samples);
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
