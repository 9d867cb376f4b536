// Converts text to a value and back, by the type of the row's member. The reader and the tools call
// it.
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>
#include <type_traits>

#include "lib/base/settings_table.hpp"
#include "lib/base/sizes.hpp"

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
                                      {"amcentral", 3}, {"counter", 4},  {"ibdissem", 2}};
constexpr choice host_choices[] = {{"conduit", 0}, {"hostname", 1}, {"gethostid", 2}};
constexpr choice ordering_choices[] = {{"strict", 0}, {"relaxed", 1}, {"none", 2}};
constexpr choice log_choices[] = {{"error", 0}, {"warning", 1}, {"info", 2}, {"debug", 3}};
constexpr choice bool_choices[] = {{"yes", 1}, {"no", 0},  {"1", 1},    {"0", 0},
                                   {"y", 1},   {"n", 0},   {"true", 1}, {"false", 0},
                                   {"on", 1},  {"off", 0}, {"t", 1},    {"f", 0}};

std::span<const choice> choices_of(bool) { return bool_choices; }
std::span<const choice> choices_of(wait_mode) { return wait_choices; }
std::span<const choice> choices_of(barrier_kind) { return barrier_choices; }
std::span<const choice> choices_of(host_sign) { return host_choices; }
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

// A number with the row's units behind it, such as "64K", "40 GB" and "250 ms".
std::optional<double> read_number(std::string_view text, setting_unit unit) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  const auto n = take_number(text);
  if (!n) return std::nullopt;
  double v = negative ? -n->value() : n->value();
  if ((text.starts_with('e') || text.starts_with('E')) && text.size() > 1) {  // 1e6
    int ten_to = 0;
    const auto [end, error] = std::from_chars(text.data() + 1, text.data() + text.size(), ten_to);
    if (error != std::errc{} || ten_to < 0 || ten_to > 30) return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    v *= std::pow(10, ten_to);
  }
  if (text.empty()) return v * bare_factor(unit);
  if (unit == setting_unit::none) return std::nullopt;
  if (!is_time(unit)) {
    const auto shift = take_memory_unit(text);
    if (!shift || !text.empty()) return std::nullopt;
    return v * static_cast<double>(std::uint64_t{1} << *shift);
  }
  skip_space(text);
  for (const auto& sfx : time_suffixes)
    if (same_word(sfx.text, text)) return v * sfx.factor;
  return std::nullopt;
}

// "0.8", "5/8": a share of the host's memory; "16G": bytes. Behind either /P makes it each
// process's, and /H that of all processes of the host together.
std::optional<memory_limit> read_limit(std::string_view text, bool each) {
  memory_limit limit{.each = each};
  for (const bool p : {true, false})
    if (text.ends_with(p ? "/P" : "/H") || text.ends_with(p ? "/p" : "/h")) {
      text.remove_suffix(2);
      limit.each = p;
      break;
    }
  std::string_view rest = text;
  const auto first = take_number(rest);
  if (!first) return std::nullopt;
  if (rest.starts_with('/')) {
    rest.remove_prefix(1);
    const auto second = take_number(rest);
    if (!second || second->value() <= 0) return std::nullopt;
    limit.share = first->value() / second->value();
  } else if (rest.empty() && first->value() < 1) {
    limit.share = first->value();
  } else {
    const auto bytes = read_number(text, setting_unit::bytes);
    if (!bytes || *bytes > 0x1p60) return std::nullopt;
    limit.bytes = static_cast<std::uint64_t>(*bytes);
    return limit;
  }
  if (!rest.empty() || limit.share > 1) return std::nullopt;
  return limit;
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

// usual: the default of the member.
template <class T>
bool assign(const setting_row& row, const std::string& text, const T& usual, T& into) {
  if constexpr (std::is_same_v<T, std::string>) {
    into = text;
    return row.has(of_launchers) || !text.empty();
  } else if constexpr (std::is_same_v<T, memory_limit>) {
    const auto v = read_limit(text, usual.each);  // not what a weaker source has said
    if (!v) return false;
    const bool none = v->share <= 0 && v->bytes == 0;
    if (none ? !row.has(or_zero) : v->share <= 0 && static_cast<double>(v->bytes) < row.min)
      return false;
    into = *v;
    return true;
  } else if constexpr (is_choice<T>) {
    for (const auto& c : choices_of(T{}))
      if (same_word(c.text, text)) {
        into = static_cast<T>(c.value);
        return true;
      }
    return false;
  } else {
    const auto v = read_number(text, row.unit);
    // A fraction of a byte or nanosecond is dropped; a fraction of a plain count is a mistake, and
    // so is a share of memory where a size is meant.
    if (!v || ((*v < row.min || *v > row.max) && !(row.has(or_zero) && *v == 0))) return false;
    if (row.unit == setting_unit::none && *v != std::floor(*v)) return false;
    if (*v > 0 && *v < 1) return false;
    into = static_cast<T>(*v);
    return true;
  }
}

}  // namespace

result<void> parse_setting(const setting_row& row, std::string_view name, const std::string& text,
                           settings& into) {
  static const settings defaults;
  const bool good = std::visit(
      [&](auto member) { return assign(row, text, defaults.*member, into.*member); }, row.field);
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
          const bool plain = row.unit == setting_unit::none || (v.share <= 0 && v.bytes == 0);
          const char* const whose = plain ? "" : v.each ? "/P" : "/H";
          if (v.share <= 0) return number_text(static_cast<double>(v.bytes), row.unit) + whose;
          char out[32];
          std::snprintf(out, sizeof out, "%g%s", v.share, whose);
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
          if (row.unit == setting_unit::none)
            return "a share below 1 (0.8, 5/8) or a number of at least " +
                   number_text(row.min, row.unit);
          return std::string(row.has(or_zero) ? "0, " : "") +
                 "a share below 1 (0.8, 5/8) or a size of at least " +
                 number_text(row.min, row.unit) +
                 " with K, M, G or T; then /P for each process or /H for all of the host";
        } else if constexpr (std::is_same_v<T, bool>) {
          return "yes or no";
        } else if constexpr (is_choice<T>) {
          std::string out;
          const auto all = choices_of(T{});
          for (std::size_t i = 0; i < all.size(); ++i)
            out += (i == 0 ? "" : i + 1 == all.size() ? " or " : ", ") + std::string(all[i].text);
          return out;
        } else {
          std::string out = (row.has(or_zero) ? "0, or " : "") + number_text(row.min, row.unit) +
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
