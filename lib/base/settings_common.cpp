// Compares the settings that all processes of a job must have alike.
#include <algorithm>
#include <type_traits>

#include "lib/base/rank_list.hpp"
#include "lib/base/settings_table.hpp"

namespace penstock {
namespace {

template <class T>
constexpr bool is_number = std::is_arithmetic_v<T> || std::is_enum_v<T>;

// Calls f(row) for each row that is job_wide.
template <class F>
void each_common(F f) {
  for (const auto& row : settings_table())
    if (row.has(job_wide)) f(row);
}

std::uint64_t value_of(const setting_row& row, const settings& s) {
  return std::visit(
      [&](auto member) -> std::uint64_t {
        using T = std::remove_cvref_t<decltype(s.*member)>;
        if constexpr (is_number<T>) return static_cast<std::uint64_t>(s.*member);
        fatal(1, "the setting %s is no number, and cannot be compared", row.name);
      },
      row.field);
}

std::string text_of(const setting_row& row, std::uint64_t value) {
  settings s;
  std::visit(
      [&](auto member) {
        using T = std::remove_cvref_t<decltype(s.*member)>;
        if constexpr (is_number<T>) s.*member = static_cast<T>(value);
      },
      row.field);
  return format_setting(row, s);
}

}  // namespace

common_settings common_settings_of(const settings& s) {
  common_settings values{};
  std::size_t i = 0;
  each_common([&](const setting_row& row) { values[i++] = value_of(row, s); });
  return values;
}

std::string settings_that_differ(std::span<const common_settings> of_ranks) {
  std::string out;
  const auto ranks = static_cast<std::uint32_t>(of_ranks.size());
  std::size_t i = 0;
  each_common([&](const setting_row& row) {
    const std::size_t column = i++;
    std::vector<std::uint64_t> values;
    for (const auto& rank : of_ranks)
      if (std::find(values.begin(), values.end(), rank[column]) == values.end())
        values.push_back(rank[column]);
    if (values.size() < 2) return;
    out += (out.empty() ? "PENSTOCK_" : "; PENSTOCK_") + std::string(row.name) + " differs";
    for (const std::uint64_t v : values) {
      const std::string which =
          ranks_where(ranks, [&](std::uint32_t r) { return of_ranks[r][column] == v; });
      out += (v == values.front() ? ": " : ", ") + text_of(row, v) +
             (which.find(' ') == which.npos ? " at rank " : " at ranks ") + which;
    }
  });
  return out;
}

}  // namespace penstock
