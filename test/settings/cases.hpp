// Values of settings for jobs that a test starts: the ends of each range, every choice, and random
// ones. All of it is made from the table of settings, so that a new setting is tried, too.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/settings_table.hpp"

namespace testing {

/// A job with some settings. The path is a set of settings, too.
struct job_case {
  std::string what;  ///< for the line that reports it
  std::uint64_t seed = 1;
  unsigned ranks = 2;
  bool par = false;
  std::vector<std::pair<std::string, std::string>> set;  ///< names without prefix, values
};

/// The ends of the row's range, or all its choices; none for words and for what tests cannot vary.
std::vector<std::string> ends_of(const penstock::setting_row& row);

/// Each of these for every row, by rings, by queue pairs and by both.
std::vector<job_case> every_end();
/// Some settings, or all, with random values; the same for the same seed.
job_case random_case(std::uint64_t seed);
/// For each setting that must be equal in a job, a job in which the last rank has another value.
std::vector<job_case> each_different();

}  // namespace testing
