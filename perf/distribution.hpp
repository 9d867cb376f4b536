// How samples are distributed: counts in buckets whose bounds grow by about 1 %. It is small
// whatever the number of samples, and two distributions can be added, which order statistics
// cannot. For histograms and cumulative plots; the percentiles of a measurement come from the
// samples themselves.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

namespace penstock::perf {

class distribution {
 public:
  /// Samples from `from` (inclusive) to `to`.
  struct part {
    double from = 0, to = 0;
    std::uint64_t count = 0;
  };

  /// A value at or below 0 counts as the smallest that there is.
  void add(double value, std::uint64_t times = 1);
  void add(const distribution& other);
  /// For code that sends a distribution elsewhere: its buckets, and a way to add one of another's.
  [[nodiscard]] const std::map<int, std::uint64_t>& buckets() const noexcept { return counts_; }
  void add_bucket(int bucket, std::uint64_t times);

  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }
  /// The value that this share of the samples does not exceed, to 1 %; 0 when there are none.
  [[nodiscard]] double at(double fraction) const noexcept;
  /// The buckets that hold samples, ascending; `joined` neighbours make one (a power of 2 up to
  /// `steps`, which makes them a power of 2 wide).
  [[nodiscard]] std::vector<part> parts(int joined = 1) const;
  /// The same with the empty ones between them, and at most `most` of them, which is at least 2.
  [[nodiscard]] std::vector<part> histogram(std::size_t most) const;

  static constexpr int steps = 64;  ///< buckets from a value to its double

 private:
  static double bound(int bucket) noexcept;
  std::map<int, std::uint64_t> counts_;
  std::uint64_t count_ = 0;
};

}  // namespace penstock::perf
