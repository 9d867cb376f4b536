// One measurement as it is reported: a line of JSON for programs, a line of a table for people.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "perf/statistics.hpp"

namespace penstock::perf {

/// What was measured, with the raw twin's figures of the same run beside it.
struct measurement {
  std::string bench, kind, device, mode;
  unsigned procs = 0, threads = 1;
  unsigned pairs = 1;                ///< measured at the same time; rates are of all together
  bool both = false;                 ///< both ways at the same time; so are they then
  std::uint64_t window = 0;          ///< operations in flight; 0: as many as there may be
  std::uint64_t size = 0;            ///< payload bytes of one operation
  std::uint64_t iters = 0;           ///< operations in the reported round
  bool is_latency = true;            ///< ratio from the medians; else from the rates
  summary ns;                        ///< per operation
  double rate = 0;                   ///< operations per second
  double twin_ns = 0;                ///< the twin's median
  distribution twin_spread;          ///< of the twin's samples
  double twin_rate = 0;              ///< the twin's operations per second
  std::array<double, 2> probe_ns{};  ///< cache-line round trip before and after; 0: not possible

  [[nodiscard]] double bytes_per_s() const noexcept { return rate * static_cast<double>(size); }
  /// Ours over the twin's: of medians for a latency (lower is better), of rates else. 0: no twin.
  [[nodiscard]] double ratio() const noexcept;
};

/// One JSON object, no line end. Times to 0.1 ns, ratio to four digits. with_histogram: also our
/// samples' distribution, as the bounds of buckets in ns and the number of samples in each.
std::string to_json(const measurement& m, bool with_histogram = false);

/// The table's heading lines, with line ends: what is measured, on which device, options that are
/// not the default, and the columns.
std::string table_head(const measurement& m);
/// One line of the table, with line end: at most 100 columns. Times in ns, but for those that name
/// another unit.
std::string table_row(const measurement& m);

/// The distributions of the samples, ours beside the twin's: lines of at most 100 columns.
std::string histogram_of(const measurement& m);

/// The same for programs that read tables, every field of the JSON; with line ends.
std::string csv_head();
std::string csv_row(const measurement& m);

}  // namespace penstock::perf
