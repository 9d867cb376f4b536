// Numbers and memory sizes as people write them, for settings and for gasnet_tools.h: "0x1F",
// "1.5", "64K", "40 GB", "16 MiB".
#pragma once

#include <cctype>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

namespace penstock {

/// A number that is not negative. A whole one is exact up to 64 bits.
struct written_number {
  std::uint64_t whole = 0;
  double fraction = 0;
  [[nodiscard]] double value() const noexcept { return static_cast<double>(whole) + fraction; }
};

/// Takes the white space off the front of text.
inline void skip_space(std::string_view& text) noexcept {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())))
    text.remove_prefix(1);
}

/// Takes a number off the front of text: decimal digits with or without a fraction, or hexadecimal
/// ones behind 0x. Nothing, if there is none, or one that 64 bits do not hold.
inline std::optional<written_number> take_number(std::string_view& text) noexcept {
  const bool hex = text.size() > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X') &&
                   std::isxdigit(static_cast<unsigned char>(text[2]));
  if (hex) text.remove_prefix(2);
  const unsigned base = hex ? 16 : 10;
  const auto digit = [&]() -> unsigned {
    if (text.empty()) return base;
    const auto c = static_cast<unsigned char>(text.front());
    if (std::isdigit(c)) return c - '0';
    return hex && std::isxdigit(c) ? static_cast<unsigned>(std::tolower(c) - 'a' + 10) : base;
  };
  written_number n;
  bool any = false;
  for (unsigned d = digit(); d < base; d = digit()) {
    if (n.whole > (std::numeric_limits<std::uint64_t>::max() - d) / base) return std::nullopt;
    n.whole = n.whole * base + d;
    text.remove_prefix(1);
    any = true;
  }
  if (!hex && text.starts_with('.')) {
    const std::string_view before = text;
    text.remove_prefix(1);
    double digits = 0, ten_to = 1;
    for (unsigned d = digit(); d < base; d = digit()) {
      digits = digits * 10 + d;
      ten_to *= 10;
      text.remove_prefix(1);
    }
    n.fraction = digits / ten_to;
    if (!any && ten_to < 10) {
      text = before;
      return std::nullopt;
    }
    any = true;
  }
  if (!any) return std::nullopt;
  return n;
}

/// Takes a unit of memory off the front of text, with white space before it: B, K, KB, KiB, M, G, T
/// in any case. The power of two that it stands for; nothing, if there is none.
inline std::optional<unsigned> take_memory_unit(std::string_view& text) noexcept {
  std::string_view rest = text;
  skip_space(rest);
  if (rest.empty()) return std::nullopt;
  unsigned shift = 0;
  switch (std::toupper(static_cast<unsigned char>(rest.front()))) {
    case 'T':
      shift = 40;
      break;
    case 'G':
      shift = 30;
      break;
    case 'M':
      shift = 20;
      break;
    case 'K':
      shift = 10;
      break;
    case 'B':
      break;
    default:
      return std::nullopt;
  }
  rest.remove_prefix(1);
  if (shift != 0) {
    if (rest.starts_with('i') || rest.starts_with('I')) rest.remove_prefix(1);
    if (rest.starts_with('B') || rest.starts_with('b')) rest.remove_prefix(1);
  }
  text = rest;
  return shift;
}

}  // namespace penstock
