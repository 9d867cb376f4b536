// See rounds.hpp.
#include "perf/rounds.hpp"

#include <algorithm>
#include <numeric>

namespace penstock::perf {

bool torn(const round_record& r) noexcept {
  const auto [low, high] = std::minmax(r.probe_ns[0], r.probe_ns[1]);
  return high > 1.25 * low;
}

std::vector<std::size_t> round_keeper::counted() const {
  std::vector<std::size_t> one_core, two_cores;
  for (std::size_t i = 0; i < rounds_.size(); ++i) {
    if (torn(rounds_[i])) continue;
    const auto& p = rounds_[i].probe_ns;
    (std::min(p[0], p[1]) < one_core_ns ? one_core : two_cores).push_back(i);
  }
  return one_core.size() > two_cores.size() ? one_core : two_cores;
}

bool round_keeper::enough() const noexcept {
  return rounds_.size() >= 3 * wanted_ ||
         (rounds_.size() >= wanted_ && counted().size() >= wanted_);
}

std::size_t round_keeper::median_round() const {
  std::vector<std::size_t> which = counted();
  if (which.empty()) {
    which.resize(rounds_.size());
    std::iota(which.begin(), which.end(), std::size_t{0});
  }
  const auto middle = which.begin() + static_cast<std::ptrdiff_t>(which.size() / 2);
  std::nth_element(which.begin(), middle, which.end(), [this](std::size_t a, std::size_t b) {
    return rounds_[a].ratio < rounds_[b].ratio;
  });
  return *middle;
}

}  // namespace penstock::perf
