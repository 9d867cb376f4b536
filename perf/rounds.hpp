// Which rounds of a measurement count. A machine may move its virtual cores between, and during,
// rounds; a short cache-line probe before and after each round shows it. The code that runs the
// rounds asks here whether another is needed, and which one to report.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

namespace penstock::perf {

/// A cache line's round trip below this is taken as two virtual cores on one physical one.
inline constexpr double one_core_ns = 180;

/// One round: the probes around it and the ratio it found.
struct round_record {
  std::array<double, 2> probe_ns{};  ///< before, after; 0 where no probe is possible
  double ratio = 0;
};

/// True if the probes differ by more than a quarter: the placement changed, or the machine was
/// busy.
[[nodiscard]] bool torn(const round_record& r) noexcept;

/// Collects rounds until `wanted` of them are whole and were taken at the same placement (all on
/// one physical core, or none), at most 3 * wanted.
class round_keeper {
 public:
  explicit round_keeper(std::size_t wanted) noexcept : wanted_(wanted) {}
  void add(const round_record& r) { rounds_.push_back(r); }
  [[nodiscard]] bool enough() const noexcept;
  [[nodiscard]] std::size_t taken() const noexcept { return rounds_.size(); }
  /// Index of the round with the median ratio among those that count: of the whole ones the larger
  /// group of one placement (two cores when equal); all, when none is whole. After at least one
  /// add.
  [[nodiscard]] std::size_t median_round() const;

 private:
  [[nodiscard]] std::vector<std::size_t> counted() const;
  std::size_t wanted_;
  std::vector<round_record> rounds_;
};

}  // namespace penstock::perf
