// See cases.hpp.
#include "test/settings/cases.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <type_traits>

namespace testing {
namespace {

using penstock::setting_row;
using penstock::setting_unit;

enum class path { rings, queue_pairs, both };
constexpr const char* path_names[] = {"rings", "queue pairs", "both paths"};

// What a row's range does not say: values that this machine has, that keep a job's memory or its
// output in bounds, or that the table describes in words.
struct special {
  const char* name;
  std::vector<std::string> values;
};
const std::vector<special>& specials() {
  static const std::vector<special> all = {
      {"PORT", {"0", "1"}},
      {"GID_INDEX", {"-1", "0"}},
      {"PKEY", {"0", "0xffff"}},
      {"MTU", {"0", "256", "512", "1024", "2048", "4096"}},
      {"CRED_PER_NODE", {"0", "4", "400"}},
      {"MAX_CRED_PER_NODE", {"4", "65535"}},
      {"MAX_SEGSIZE", {"0", "2M", "0.5/H"}},
      {"PHYSMEM_MAX", {"0.99", "64M"}},
      {"PINNABLE_RATIO", {"0.99", "64M"}},
      {"PINNED_REGIONS_MAX", {"0.99", "16"}},
      {"CREDIT_STATS", {"0", "1"}},
      {"COUNTERS", {"0", "1"}},
      {"TRACE", {"0", "1"}},
      {"STATS_FILE", {"0", "stats"}},
      {"CONFIG", {"auto", "none"}},
      {"COUNTERS_HTTP", {"0", "http"}},
      {"TRACE_MASK", {"*", "A"}},
      {"STATS_MASK", {"*", "P"}},
      {"TRACE_NODES", {"*", "0"}},
      {"STATS_NODES", {"*", "0"}},
  };
  return all;
}
// Tried at their ends alone, since other settings depend on them or the path is made of them.
bool ends_alone(const char* name) {
  for (const char* n : {"DIRECT", "SUPERNODE_MAXSIZE", "LOG", "VERBOSEENV", "MEMORY_REPORT",
                        "OVERFLOW_FATAL"})  // without FLOW_CONTROL it ends a job that is in order
    if (std::strcmp(name, n) == 0) return true;
  return false;
}

template <class T>
constexpr bool is_choice = std::is_same_v<T, bool> || std::is_enum_v<T>;

// A number of the row's range as text that the row reads back.
std::string text_of(const setting_row& row, double value) {
  char out[64];
  const bool time = row.unit >= setting_unit::seconds;
  std::snprintf(out, sizeof out, "%.0f%s", value,
                time                             ? "ns"
                : row.unit == setting_unit::none ? ""
                                                 : "B");
  return out;
}

void set_path(job_case& c, path p) {
  c.what += std::string(" by ") + path_names[static_cast<int>(p)];
  if (p == path::queue_pairs) c.set.emplace_back("DIRECT", "no");
  if (p == path::both) c.set.emplace_back("SUPERNODE_MAXSIZE", "2");
  if (p == path::both) c.ranks = std::max(c.ranks, 3u);
}

}  // namespace

std::vector<std::string> ends_of(const setting_row& row) {
  if (row.has(penstock::of_launchers)) return {};
  for (const special& s : specials())
    if (std::strcmp(s.name, row.name) == 0) return s.values;
  return std::visit(
      [&](auto member) -> std::vector<std::string> {
        using T = std::remove_cvref_t<decltype(std::declval<penstock::settings>().*member)>;
        std::vector<std::string> all;
        if constexpr (is_choice<T>) {
          penstock::settings s;
          for (int v = 0;; ++v) {
            if (std::is_same_v<T, bool> && v > 1) break;
            s.*member = static_cast<T>(v);
            if (format_setting(row, s) == "?") break;
            all.push_back(format_setting(row, s));
          }
        } else if constexpr (std::is_arithmetic_v<T>) {
          all = {text_of(row, row.min), text_of(row, row.max)};
        }
        return all;
      },
      row.field);
}

std::vector<job_case> every_end() {
  std::vector<job_case> all;
  for (const auto& row : penstock::settings_table())
    for (const std::string& value : ends_of(row))
      for (const path p : {path::rings, path::queue_pairs, path::both}) {
        job_case c;
        c.what = std::string(row.name) + "=" + value;
        c.par = all.size() % 2 != 0;
        c.seed = all.size() + 1;
        set_path(c, p);
        c.set.emplace_back(row.name, value);  // stands above the path's
        all.push_back(c);
      }
  return all;
}

job_case random_case(std::uint64_t seed) {
  std::mt19937_64 dice(seed);
  const auto below = [&](std::uint64_t n) { return dice() % n; };
  job_case c;
  c.what = "seed " + std::to_string(seed);
  c.seed = seed;
  c.ranks = static_cast<unsigned>(1 + below(4));
  c.par = below(2) == 0;
  set_path(c, static_cast<path>(below(3)));
  const std::uint64_t every = 1 + below(12);  // one setting of so many
  for (const auto& row : penstock::settings_table()) {
    const auto ends = ends_of(row);
    if (ends.empty() || ends_alone(row.name) || below(every) != 0) continue;
    std::string value = ends[below(ends.size())];
    const bool ranged = row.min < row.max &&
                        std::none_of(specials().begin(), specials().end(), [&](const special& s) {
                          return std::strcmp(s.name, row.name) == 0;
                        });
    if (ranged && below(3) != 0) {
      // As often near the small end as near the large one.
      const double span = std::log2(row.max - row.min + 1);
      const double u = static_cast<double>(below(1u << 20)) / (1u << 20);
      value = text_of(row, row.min + std::floor(std::exp2(u * span)) - 1);
    }
    c.set.emplace_back(row.name, value);
  }
  return c;
}

std::vector<job_case> each_different() {
  std::vector<job_case> all;
  for (const auto& row : penstock::settings_table()) {
    if (!row.has(penstock::job_wide)) continue;
    const std::string usual = format_setting(row, penstock::settings());
    // Another value that this process's own checks do not refuse.
    std::vector<std::string> others = ends_of(row);
    for (const char* plain : {"1M", "77", "5000", "3"}) others.emplace_back(plain);
    for (const std::string& other : others) {
      penstock::settings s;
      if (!parse_setting(row, row.name, other, s)) continue;
      const std::string value = format_setting(row, s);
      const bool end =
          row.min < row.max && (other == text_of(row, row.max) || other == text_of(row, row.min));
      if (value == usual || (end && std::strcmp(row.name, "DOMAIN_COUNT") != 0)) continue;
      job_case c;
      c.what = std::string(row.name) + ": " + usual + " and " + value;
      c.ranks = 3;
      c.set.emplace_back(row.name, value);
      all.push_back(c);
      break;
    }
  }
  return all;
}

}  // namespace testing
