// Shared by the job programs of these tests: joining, and memory with a pattern and guards.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "penstock/rma.hpp"
#include "test/conduit/job_check.hpp"

namespace penstock::test {

/// World and a started endpoint.
struct job {
  world w;
  endpoint ep;
  static job start(std::size_t segment_bytes, remote_access access = remote_access::segments) {
    auto w = world::join();
    if (!w) fatal(3, "%s", w.error().message().c_str());
    endpoint ep = open_endpoint(*w);
    if (auto r = ep.start(segment_bytes, access); !r) fatal(3, "%s", r.error().message().c_str());
    return {std::move(*w), std::move(ep)};
  }
  void meet() { JOB_CHECK(ep.barrier() == status::ok); }
  /// Offset in rank r's segment, as an address there.
  std::byte* at(rank_id r, std::size_t offset) { return ep.segment_of(r).data() + offset; }
};

/// The sizes to try: all small ones, both sides of every path's limits, a stride in between.
inline std::vector<std::size_t> sizes() {
  std::vector<std::size_t> s;
  for (std::size_t n = 0; n <= 72; ++n) s.push_back(n);
  for (std::size_t n : {127, 255, 511, 1023, 2047, 4095, 4160, 8191, 16383, 32767, 65535})
    for (std::size_t d = 0; d < 3; ++d) s.push_back(n + d);
  for (std::size_t n = 100; n < 65536; n += 709) s.push_back(n);
  return s;
}

inline constexpr std::byte guard{0xa5};

/// Local memory of n bytes at an odd place, with guards on both sides.
class guarded {
 public:
  guarded(std::size_t n, std::size_t skew)
      : all_(n + 2 * margin + skew, guard), skew_(skew), n_(n) {}
  std::span<std::byte> view() { return {all_.data() + margin + skew_, n_}; }
  [[nodiscard]] bool intact() const {
    const auto is = [](std::byte b) { return b == guard; };
    const auto first = all_.begin() + static_cast<std::ptrdiff_t>(margin + skew_);
    return std::all_of(all_.begin(), first, is) &&
           std::all_of(first + static_cast<std::ptrdiff_t>(n_), all_.end(), is);
  }

 private:
  static constexpr std::size_t margin = 24;
  std::vector<std::byte> all_;
  std::size_t skew_, n_;
};

}  // namespace penstock::test
