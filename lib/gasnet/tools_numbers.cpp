// Numbers and memory sizes as text, both ways, for settings and reports.
#include <gasnet_tools.h>

#include <cstdio>
#include <string_view>

#include "lib/base/sizes.hpp"

namespace {

struct size_unit {
  char letter;
  unsigned shift;
};
constexpr size_unit units[] = {{'T', 40}, {'G', 30}, {'M', 20}, {'K', 10}, {'B', 0}};

}  // namespace

extern "C" {

int64_t gasnett_parse_int(const char* text, uint64_t mem_unit) {
  if (text == nullptr) return 0;
  std::string_view rest = text;
  penstock::skip_space(rest);
  const bool negative = rest.starts_with('-');
  if (negative || rest.starts_with('+')) rest.remove_prefix(1);
  penstock::skip_space(rest);
  const auto n = penstock::take_number(rest);
  if (!n) return 0;
  uint64_t unit = 1;
  if (mem_unit != 0) {
    const auto shift = penstock::take_memory_unit(rest);
    unit = shift ? uint64_t{1} << *shift : mem_unit;
  }
  const uint64_t value =
      n->whole * unit + static_cast<uint64_t>(n->fraction * static_cast<double>(unit));
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
