// A hash of a word.
#pragma once

#include <cstdint>

namespace penstock {

/// Each bit of x changes half of the answer's; no two words have one answer (SplitMix64's
/// finalizer). 0 for 0.
constexpr std::uint64_t mix(std::uint64_t x) noexcept {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

}  // namespace penstock
