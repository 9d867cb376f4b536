// The table from which parsing, checks, documentation, `peninfo --settings` and a test are derived.
// Only the reader and the tools include it; other code includes settings.hpp.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "lib/base/settings.hpp"

namespace penstock {

/// What a number counts, and the unit of a number without a suffix.
enum class setting_unit : std::uint8_t {
  none,
  bytes,         ///< suffixes K, M, G, T (powers of 1024)
  megabytes,     ///< the same, M assumed if none is given
  seconds,       ///< suffixes ns, us, ms, s; seconds assumed
  milliseconds,  ///< milliseconds assumed
  microseconds,  ///< microseconds assumed
};

/// The member a row fills; its type says how text is read.
using setting_field =
    std::variant<bool settings::*, std::uint32_t settings::*, std::int32_t settings::*,
                 std::uint64_t settings::*, std::string settings::*, memory_limit settings::*,
                 wait_mode settings::*, barrier_kind settings::*, host_sign settings::*,
                 memory_ordering settings::*, log_level settings::*>;

/// What else is to be known of a setting; bits.
enum setting_trait : unsigned {
  job_wide = 1,       ///< all processes must have the same value, which is compared at start
  of_launchers = 2,   ///< written by launchers, not by people; not printed
  or_zero = 4,        ///< 0 is allowed below `min`
  queue_pairs = 8,    ///< has no effect in a job all of whose messages go through rings
  not_in_files = 16,  ///< says which files are read
};

/// Who is to care about a setting.
enum class setting_level : std::uint8_t {
  user,       ///< who writes or starts a program
  operators,  ///< who runs the machines: devices, networks, launchers, limits
  developer,  ///< who tunes or develops the library
};

/// One setting. The default is the member's in a default-constructed `settings`.
struct setting_row {
  const char* name;  ///< without the prefix PENSTOCK_
  const char*
      aliases;  ///< other environment names, separated by spaces; the first that is set counts
  setting_field field;
  double min, max;  ///< of numbers, in the unit stored (bytes, nanoseconds); 0, 0: no numbers
  setting_unit unit;
  const char* help;
  unsigned traits = 0;  ///< setting_trait
  [[nodiscard]] constexpr bool has(setting_trait t) const noexcept { return (traits & t) != 0; }
};

/// A setting of the seeds that has no meaning on verbs, and what replaces it.
struct setting_not_applicable {
  const char* name;
  const char* instead;
};

std::span<const setting_row> settings_table() noexcept;
std::span<const setting_not_applicable> settings_not_applicable() noexcept;
/// Names that begin with GASNET_ and are no settings of the library, but known.
std::span<const char* const> settings_read_elsewhere() noexcept;

/// The level of a row; developer where no list of settings_level.cpp has its name.
setting_level level_of(const setting_row& row) noexcept;
/// The names, without prefix, that have level l by these lists; none for developer.
std::span<const std::string_view> settings_with_level(setting_level l) noexcept;

/// The values of all rows with job_wide, in the table's order.
inline constexpr std::size_t settings_in_common = 29;
using common_settings = std::array<std::uint64_t, settings_in_common>;
common_settings common_settings_of(const settings& s);
/// The lines that name each setting whose value is not the same at all ranks, which ranks have
/// which value, joined by "; "; empty: all agree.
std::string settings_that_differ(std::span<const common_settings> of_ranks);

/// Reads `text` into the row's member. The failure names `name`, the text and what is allowed.
result<void> parse_setting(const setting_row& row, std::string_view name, const std::string& text,
                           settings& into);
/// The row's value as text that parse_setting reads back.
std::string format_setting(const setting_row& row, const settings& from);
/// The allowed values as text: "1 to 255", "yes or no", "spin, spinblock or block".
std::string allowed_values(const setting_row& row);

/// Known PENSTOCK_ name (without prefix) closest to `name`, or empty if none is close. For a name
/// that begins with GASNET_: the closest one that is known, whole.
std::string nearest_setting(std::string_view name);

/// The table as aligned text of many lines: name, value, default, source, help. The users' settings
/// stand first, then those that somebody has set; with `all`, all others by their level instead,
/// and what is not applicable.
std::string settings_text(const settings& s, bool all);

}  // namespace penstock
