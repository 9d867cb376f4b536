// See rounds.hpp.
#include "perf/rounds.hpp"

#include <algorithm>
#include <utility>

namespace penstock::perf {

bool torn(const round_record& r) noexcept {
  const auto [low, high] = std::minmax(r.probe_ns[0], r.probe_ns[1]);
  return high > 1.25 * low;
}

placement placement_of(const round_record& r) noexcept {
  return std::min(r.probe_ns[0], r.probe_ns[1]) < one_core_ns ? placement::near : placement::far;
}

bool round_keeper::counts(const round_record& r) const noexcept {
  return !torn(r) && (!only_ || placement_of(r) == *only_);
}

bool round_keeper::enough() const noexcept {
  const auto counted = std::count_if(rounds_.begin(), rounds_.end(),
                                     [this](const round_record& r) { return counts(r); });
  return rounds_.size() >= 3 * wanted_ || static_cast<std::size_t>(counted) >= wanted_;
}

std::vector<std::size_t> round_keeper::median_rounds() const {
  std::vector<std::size_t> all, whole[2];
  for (std::size_t i = 0; i < rounds_.size(); ++i) {
    const round_record& r = rounds_[i];
    if (!only_ || placement_of(r) == *only_) all.push_back(i);
    if (counts(r)) whole[placement_of(r) == placement::near].push_back(i);
  }
  if (whole[1].size() > whole[0].size()) std::swap(whole[0], whole[1]);
  if (whole[0].empty()) whole[0] = all;
  std::vector<std::size_t> medians;
  for (auto& group : whole)
    if (!group.empty()) medians.push_back(median_of(std::move(group)));
  return medians;
}

std::size_t round_keeper::median_of(std::vector<std::size_t> which) const {
  const auto middle = which.begin() + static_cast<std::ptrdiff_t>(which.size() / 2);
  std::nth_element(which.begin(), middle, which.end(), [this](std::size_t a, std::size_t b) {
    return rounds_[a].ratio < rounds_[b].ratio;
  });
  return *middle;
}

}  // namespace penstock::perf
