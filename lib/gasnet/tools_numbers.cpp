// Numbers and memory sizes as text, both ways, for settings and reports.
#include <gasnet_tools.h>

#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

struct size_unit {
  char letter;
  unsigned shift;
};
constexpr size_unit units[] = {{'T', 40}, {'G', 30}, {'M', 20}, {'K', 10}, {'B', 0}};

const char* skip_space(const char* p) {
  while (std::isspace(static_cast<unsigned char>(*p))) ++p;
  return p;
}

// The factor of the suffix at p; without a suffix, the unit of a bare number.
double factor_at(const char* p, uint64_t mem_unit) {
  if (mem_unit == 0) return 1;
  const int letter = std::toupper(static_cast<unsigned char>(*skip_space(p)));
  for (const auto& u : units)
    if (letter == u.letter) return static_cast<double>(uint64_t{1} << u.shift);
  return static_cast<double>(mem_unit);
}

}  // namespace

extern "C" {

int64_t gasnett_parse_int(const char* text, uint64_t mem_unit) {
  if (text == nullptr) return 0;
  const char* p = skip_space(text);
  const bool negative = *p == '-';
  if (*p == '-' || *p == '+') p = skip_space(p + 1);
  char* end = nullptr;
  const bool hex = p[0] == '0' && (p[1] == 'x' || p[1] == 'X');
  const uint64_t whole = std::strtoull(p, &end, hex ? 16 : 10);
  uint64_t value;
  if (!hex && *end == '.') {
    // Only digits are the number: strtod would take "1.5e3" and, in some places, "1,5".
    const char* stop = end + 1;
    while (std::isdigit(static_cast<unsigned char>(*stop))) ++stop;
    std::string fraction("0");  // appended to: GCC 12 warns of the addition at -O3
    fraction.append(static_cast<const char*>(end), stop);
    const double exact = static_cast<double>(whole) + std::strtod(fraction.c_str(), nullptr);
    value = static_cast<uint64_t>(exact * factor_at(stop, mem_unit));
  } else {
    value = whole * static_cast<uint64_t>(factor_at(end, mem_unit));
  }
  return static_cast<int64_t>(negative ? 0 - value : value);
}

char* gasnett_format_number(int64_t val, char* buf, size_t bufsz, int is_mem_size) {
  const uint64_t size = val < 0 ? 0 - static_cast<uint64_t>(val) : static_cast<uint64_t>(val);
  const char* sign = val < 0 ? "-" : "";
  if (size >= uint64_t{1} << 50) {  // so large that it is a mask or an address
    std::snprintf(buf, bufsz, "%s0x%llx", sign, static_cast<unsigned long long>(size));
    return buf;
  }
  unsigned shift = 0;
  char letter = 'B';
  if (is_mem_size) {
    // The largest unit that is exact, or leaves at least two digits.
    for (const auto& u : units) {
      const uint64_t one = uint64_t{1} << u.shift;
      if (size >= 10 * one || (size >= one && size % one == 0)) {
        shift = u.shift;
        letter = u.letter;
        break;
      }
    }
  }
  const auto shown = static_cast<unsigned long long>(size >> shift);
  if (!is_mem_size)
    std::snprintf(buf, bufsz, "%s%llu", sign, shown);
  else if (letter == 'B')
    std::snprintf(buf, bufsz, "%s%llu B", sign, shown);
  else
    std::snprintf(buf, bufsz, "%s%llu %cB", sign, shown, letter);
  return buf;
}

}  // extern "C"
