// Converts text to a value and back, by the type of the row's member. The reader and the tools call
// it.
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>
#include <type_traits>

#include "lib/base/settings_table.hpp"

namespace penstock {
namespace {

struct choice {
  const char* text;
  int value;
};

// The first name of a value is the one printed.
constexpr choice wait_choices[] = {{"spin", 0}, {"spinblock", 1}, {"block", 2}};
constexpr choice barrier_choices[] = {{"auto", 0},      {"dissem", 1},   {"rdmadissem", 2},
                                      {"tree", 3},      {"amdissem", 1}, {"gnidissem", 2},
                                      {"amcentral", 3}, {"counter", 4}};
constexpr choice ordering_choices[] = {{"strict", 0}, {"relaxed", 1}, {"none", 2}};
constexpr choice log_choices[] = {{"error", 0}, {"warning", 1}, {"info", 2}, {"debug", 3}};
constexpr choice bool_choices[] = {{"yes", 1}, {"no", 0},  {"1", 1},    {"0", 0},
                                   {"y", 1},   {"n", 0},   {"true", 1}, {"false", 0},
                                   {"on", 1},  {"off", 0}, {"t", 1},    {"f", 0}};

std::span<const choice> choices_of(bool) { return bool_choices; }
std::span<const choice> choices_of(wait_mode) { return wait_choices; }
std::span<const choice> choices_of(barrier_kind) { return barrier_choices; }
std::span<const choice> choices_of(memory_ordering) { return ordering_choices; }
std::span<const choice> choices_of(log_level) { return log_choices; }

template <class T>
constexpr bool is_choice = std::is_same_v<T, bool> || std::is_enum_v<T>;

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool same_word(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (lower(a[i]) != lower(b[i])) return false;
  return true;
}

struct suffix {
  const char* text;
  double factor;
};
constexpr suffix byte_suffixes[] = {
    {"b", 1}, {"k", 1024.}, {"m", 1048576.}, {"g", 1073741824.}, {"t", 1099511627776.}};
constexpr suffix time_suffixes[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"min", 60e9}};

bool is_time(setting_unit u) { return u >= setting_unit::seconds; }

double bare_factor(setting_unit u) {
  switch (u) {
    case setting_unit::megabytes:
      return 1048576.;
    case setting_unit::seconds:
      return 1e9;
    case setting_unit::milliseconds:
      return 1e6;
    case setting_unit::microseconds:
      return 1e3;
    default:
      return 1;
  }
}

// Takes a number off the front of `text`: a decimal one with no sign but a leading '-', or a
// hexadecimal one behind 0x.
std::optional<double> take_number(std::string_view& text) {
  double v = 0;
  if (text.starts_with("0x") || text.starts_with("0X")) {
    std::uint64_t n = 0;
    const auto [end, error] = std::from_chars(text.data() + 2, text.data() + text.size(), n, 16);
    if (error != std::errc{}) return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return static_cast<double>(n);
  }
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), v);
  if (error != std::errc{} || !std::isfinite(v)) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return v;
}

std::optional<double> read_number(std::string_view text, setting_unit unit) {
  const auto v = take_number(text);
  if (!v) return std::nullopt;
  if (text.empty()) return *v * bare_factor(unit);
  if (unit == setting_unit::none) return std::nullopt;
  // "64K", "64KB" and "64KiB" are the same.
  if (!is_time(unit) && text.size() > 1) {
    if (lower(text.back()) == 'b') text.remove_suffix(1);
    if (text.size() > 1 && lower(text.back()) == 'i') text.remove_suffix(1);
  }
  const auto all = is_time(unit) ? std::span<const suffix>(time_suffixes)
                                 : std::span<const suffix>(byte_suffixes);
  for (const auto& sfx : all)
    if (same_word(sfx.text, text)) return *v * sfx.factor;
  return std::nullopt;
}

// "0.8", "5/8": a share; "16G": bytes.
std::optional<memory_limit> read_limit(std::string_view text) {
  std::string_view rest = text;
  const auto first = take_number(rest);
  if (!first || *first <= 0) return std::nullopt;
  if (rest.starts_with('/')) {
    rest.remove_prefix(1);
    const auto second = take_number(rest);
    if (!second || *second <= 0 || !rest.empty() || *first / *second > 1) return std::nullopt;
    return memory_limit{*first / *second, 0};
  }
  if (rest.empty() && *first < 1) return memory_limit{*first, 0};
  const auto bytes = read_number(text, setting_unit::bytes);
  if (!bytes || *bytes < 1048576. || *bytes > 0x1p60) return std::nullopt;
  return memory_limit{0, static_cast<std::uint64_t>(*bytes)};
}

std::string number_text(double v, setting_unit unit) {
  char out[64];
  if (is_time(unit) && v != 0) {
    const suffix* best = &time_suffixes[0];
    for (const auto& sfx : std::span(time_suffixes).first(4))
      if (std::fmod(v, sfx.factor) == 0) best = &sfx;
    std::snprintf(out, sizeof out, "%.0f%s", v / best->factor, best->text);
    return out;
  }
  if (unit != setting_unit::none && v != 0) {
    const suffix* best = &byte_suffixes[0];
    for (const auto& sfx : byte_suffixes)
      if (std::fmod(v, sfx.factor) == 0) best = &sfx;
    std::snprintf(out, sizeof out, "%.0f%c", v / best->factor,
                  static_cast<char>(best->text[0] - 'a' + 'A'));
    return out;
  }
  std::snprintf(out, sizeof out, "%.0f", v);
  return out;
}

template <class T>
bool assign(const setting_row& row, const std::string& text, T& into) {
  if constexpr (std::is_same_v<T, std::string>) {
    into = text;
    return row.scope == setting_scope::launcher || !text.empty();
  } else if constexpr (std::is_same_v<T, memory_limit>) {
    const auto v = read_limit(text);
    if (v) into = *v;
    return v.has_value();
  } else if constexpr (is_choice<T>) {
    for (const auto& c : choices_of(T{}))
      if (same_word(c.text, text)) {
        into = static_cast<T>(c.value);
        return true;
      }
    return false;
  } else {
    const auto v = read_number(text, row.unit);
    // A fraction of a byte or nanosecond is dropped; a fraction of a plain count is a mistake.
    if (!v || ((*v < row.min || *v > row.max) && !(row.or_zero && *v == 0))) return false;
    if (row.unit == setting_unit::none && *v != std::floor(*v)) return false;
    into = static_cast<T>(*v);
    return true;
  }
}

}  // namespace

result<void> parse_setting(const setting_row& row, std::string_view name, const std::string& text,
                           settings& into) {
  const bool good =
      std::visit([&](auto member) { return assign(row, text, into.*member); }, row.field);
  if (good) return {};
  return failure{std::string(name) + "=" + text + " is not valid", 0,
                 "allowed: " + allowed_values(row)};
}

std::string format_setting(const setting_row& row, const settings& from) {
  return std::visit(
      [&](auto member) -> std::string {
        const auto& v = from.*member;
        using T = std::remove_cvref_t<decltype(v)>;
        if constexpr (std::is_same_v<T, std::string>) {
          return v;
        } else if constexpr (std::is_same_v<T, memory_limit>) {
          if (v.share <= 0) return number_text(static_cast<double>(v.bytes), setting_unit::bytes);
          char out[32];
          std::snprintf(out, sizeof out, "%g", v.share);
          return out;
        } else if constexpr (is_choice<T>) {
          for (const auto& c : choices_of(T{}))
            if (static_cast<T>(c.value) == v) return c.text;
          return "?";
        } else {
          return number_text(static_cast<double>(v), row.unit);
        }
      },
      row.field);
}

std::string allowed_values(const setting_row& row) {
  return std::visit(
      [&](auto member) -> std::string {
        using T = std::remove_cvref_t<decltype(std::declval<settings>().*member)>;
        if constexpr (std::is_same_v<T, std::string>) {
          return "a word";
        } else if constexpr (std::is_same_v<T, memory_limit>) {
          return "a share below 1 (0.8, 5/8) or a size of at least 1M with K, M, G or T";
        } else if constexpr (std::is_same_v<T, bool>) {
          return "yes or no";
        } else if constexpr (is_choice<T>) {
          std::string out;
          const auto all = choices_of(T{});
          for (std::size_t i = 0; i < all.size(); ++i)
            out += (i == 0 ? "" : i + 1 == all.size() ? " or " : ", ") + std::string(all[i].text);
          return out;
        } else {
          std::string out = (row.or_zero ? "0, or " : "") + number_text(row.min, row.unit) +
                            " to " + number_text(row.max, row.unit);
          switch (row.unit) {
            case setting_unit::bytes:
              return out + " (bytes; K, M, G, T)";
            case setting_unit::megabytes:
              return out + " (megabytes if no K, M, G, T is given)";
            case setting_unit::seconds:
              return out + " (seconds; ns, us, ms, s)";
            case setting_unit::milliseconds:
              return out + " (milliseconds; ns, us, ms, s)";
            case setting_unit::microseconds:
              return out + " (microseconds; ns, us, ms, s)";
            case setting_unit::none:
              break;
          }
          return out;
        }
      },
      row.field);
}

}  // namespace penstock
