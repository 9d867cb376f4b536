// See distribution.hpp.
#include "perf/distribution.hpp"

#include <algorithm>
#include <cmath>

namespace penstock::perf {

namespace {
constexpr double smallest = 1e-3;  // of a nanosecond
int floor_of(int a, int b) noexcept { return a >= 0 ? a / b : -((-a + b - 1) / b); }
}  // namespace

double distribution::bound(int bucket) noexcept {
  return std::exp2(static_cast<double>(bucket) / steps);
}

void distribution::add(double value, std::uint64_t times) {
  if (times == 0) return;
  const double octaves = std::log2(std::max(value, smallest));
  counts_[static_cast<int>(std::floor(octaves * steps))] += times;
  count_ += times;
}

void distribution::add(const distribution& other) {
  for (const auto& [bucket, n] : other.counts_) add_bucket(bucket, n);
}

void distribution::add_bucket(int bucket, std::uint64_t times) {
  counts_[bucket] += times;
  count_ += times;
}

double distribution::at(double fraction) const noexcept {
  const double wanted = fraction * static_cast<double>(count_);
  double seen = 0;
  for (const auto& [bucket, n] : counts_) {
    seen += static_cast<double>(n);
    if (seen >= wanted) return bound(bucket) * std::exp2(0.5 / steps);
  }
  return 0;
}

std::vector<distribution::part> distribution::parts(int joined) const {
  std::vector<part> all;
  for (const auto& [bucket, n] : counts_) {
    const int first = floor_of(bucket, joined) * joined;
    const double from = bound(first);
    if (all.empty() || all.back().from != from) all.push_back({from, bound(first + joined), 0});
    all.back().count += n;
  }
  return all;
}

std::vector<distribution::part> distribution::histogram(std::size_t most) const {
  if (counts_.empty()) return {};
  int joined = 1;
  const auto rows = [&] {
    return static_cast<std::size_t>(floor_of(counts_.rbegin()->first, joined) -
                                    floor_of(counts_.begin()->first, joined) + 1);
  };
  while (rows() > most && joined < 1 << 20) joined *= 2;
  std::vector<part> all(rows());
  const int first = floor_of(counts_.begin()->first, joined);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const int bucket = (first + static_cast<int>(i)) * joined;
    all[i] = {bound(bucket), bound(bucket + joined), 0};
  }
  for (const auto& [bucket, n] : counts_)
    all[static_cast<std::size_t>(floor_of(bucket, joined) - first)].count += n;
  return all;
}

}  // namespace penstock::perf
