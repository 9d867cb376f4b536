// See statistics.hpp.
#include "perf/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace penstock::perf {

namespace {
std::uint64_t at(std::span<const std::uint64_t> sorted, double fraction) noexcept {
  const double rank = std::ceil(fraction * static_cast<double>(sorted.size()));
  const std::size_t i = rank < 1 ? 0 : static_cast<std::size_t>(rank) - 1;
  return sorted[std::min(i, sorted.size() - 1)];
}
}  // namespace

summary summarize(std::span<std::uint64_t> samples, double unit) noexcept {
  if (samples.empty()) return {};
  std::sort(samples.begin(), samples.end());
  const auto figure = [&](double fraction) {
    return static_cast<double>(at(samples, fraction)) * unit;
  };
  distribution spread;
  for (auto i = samples.begin(); i != samples.end();) {
    const auto next = std::upper_bound(i, samples.end(), *i);
    spread.add(static_cast<double>(*i) * unit, static_cast<std::uint64_t>(next - i));
    i = next;
  }
  return {static_cast<double>(samples.front()) * unit,
          figure(0.5),
          figure(0.9),
          figure(0.99),
          figure(0.999),
          static_cast<double>(samples.back()) * unit,
          std::move(spread)};
}

std::uint64_t median(std::span<std::uint64_t> samples) noexcept {
  if (samples.empty()) return 0;
  std::sort(samples.begin(), samples.end());
  return at(samples, 0.5);
}

}  // namespace penstock::perf
