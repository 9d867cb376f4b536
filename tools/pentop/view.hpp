// Two samples of a job, compared: what happened between them, as JSON and as tables for the user.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/pentop/sample.hpp"

namespace pentop {

/// Rank `from` towards rank `to`, between the samples.
struct flow {
  std::uint32_t from = 0, to = 0;
  double messages = 0, bytes = 0;  ///< a second
  double waited = 0;               ///< share of the time, 0 to 1, more with several threads
  pair_figures now;
};

/// The difference of two samples.
struct picture {
  std::string job;
  double seconds = 0;  ///< between the samples
  sample now;
  std::map<std::uint32_t, double> polls;  ///< a second, by rank
  std::vector<flow> flows;                ///< of pairs with messages or waits, busiest first
  std::vector<flow> waits;                ///< of pairs of which one waits, longest first
  std::uint32_t target = no_target;       ///< the rank for which the others wait most
  static constexpr std::uint32_t no_target = ~0u;
};

picture compare(const std::string& job, const sample& before, sample now);

nlohmann::json as_json(const picture& p);
/// At most 100 columns; `most` pairs.
std::string as_text(const picture& p, std::size_t most);

/// A line of a table, and what it may be sorted by.
struct row {
  std::uint32_t rank = 0;
  double messages = 0, bytes = 0, waited = 0;
  std::string text = {};
};
std::string job_line(const picture& p);
std::string target_line(const picture& p);  ///< empty: the others wait for no rank
std::string rank_heading();
std::vector<row> rank_rows(const picture& p);  ///< in the order of ranks; silent ones last
std::string pair_heading();
std::vector<row> pair_rows(const picture& p);  ///< those that wait first

}  // namespace pentop
