// Copies runs of one length, which lie a fixed distance apart on either side. vis.cpp and
// packed.cpp use it.
#pragma once

#include <cstddef>
#include <cstring>

#include "penstock/mode.hpp"

namespace penstock::gasnet::PENSTOCK_ABI::vis {

/// `count` runs of `bytes` each: their destination and source, with the distances from one run to
/// the next, in bytes and of any sign.
struct runs {
  std::byte* to;
  std::ptrdiff_t to_stride;
  const std::byte* from;
  std::ptrdiff_t from_stride;
  std::size_t bytes, count;

  /// Leaves out the first n.
  void skip(std::size_t n) noexcept {
    to += to_stride * static_cast<std::ptrdiff_t>(n);
    from += from_stride * static_cast<std::ptrdiff_t>(n);
    count -= n;
  }
};

template <std::size_t Bytes>
void copy_runs_of(runs r) noexcept {
  for (; r.count != 0; --r.count, r.to += r.to_stride, r.from += r.from_stride)
    std::memcpy(r.to, r.from, Bytes);
}

/// Copies the runs; those as long as usual types and cache lines need no call each.
inline void copy_runs(runs r) noexcept {
  switch (r.bytes) {
    case 1:
      return copy_runs_of<1>(r);
    case 2:
      return copy_runs_of<2>(r);
    case 4:
      return copy_runs_of<4>(r);
    case 8:
      return copy_runs_of<8>(r);
    case 16:
      return copy_runs_of<16>(r);
    case 32:
      return copy_runs_of<32>(r);
    case 64:
      return copy_runs_of<64>(r);
    default:
      for (; r.count != 0; --r.count, r.to += r.to_stride, r.from += r.from_stride)
        std::memcpy(r.to, r.from, r.bytes);
  }
}

}  // namespace penstock::gasnet::PENSTOCK_ABI::vis
