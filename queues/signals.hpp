// Which work requests of a send queue ask for a completion. Used by lane.hpp, and by dimensions.hpp
// for the entries of the completion queue.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace penstock::queues {

/// One work request in this number is signalled at least, on a queue of that depth.
constexpr std::uint32_t signal_interval(std::uint32_t depth) noexcept {
  return std::bit_floor(std::max(depth / 4, 1u));
}
/// The most of those on such a queue that are not signalled.
constexpr std::uint32_t most_unsignalled(std::uint32_t depth) noexcept {
  return depth - depth / signal_interval(depth);
}

}  // namespace penstock::queues
