// Lists of ranks: those in settings, such as "0,4-7", which choose the ranks that write statistics,
// traces and backtraces, and those in lines for people, such as "0, 4 to 7".
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>

namespace penstock {

/// True if the list names the rank. "*" and the empty list name all ranks. The list ends at the
/// first text that is no list of ranks.
inline bool lists_rank(const char* list, unsigned long rank) noexcept {
  if (*list == 0) return true;
  for (const char* at = list; *at != 0;) {
    if (*at == '*') return true;
    char* end = nullptr;
    const unsigned long first = std::strtoul(at, &end, 10);
    if (end == at) return false;
    unsigned long last = first;
    if (*end == '-') {
      at = end + 1;
      last = std::strtoul(at, &end, 10);
      if (end == at) return false;
    }
    if (rank >= first && rank <= last) return true;
    if (*end != ',') return false;
    at = end + 1;
  }
  return false;
}
inline bool lists_rank(const std::string& list, unsigned long rank) noexcept {
  return lists_rank(list.c_str(), rank);
}

/// The ranks below `ranks` for which is(rank) holds, for a line: "0 to 3, 7".
template <class F>
std::string ranks_where(std::uint32_t ranks, F is) {
  std::string out;
  for (std::uint32_t r = 0; r < ranks; ++r) {
    if (!is(r)) continue;
    out += (out.empty() ? "" : ", ") + std::to_string(r);
    const std::uint32_t first = r;
    while (r + 1 < ranks && is(r + 1)) ++r;
    if (r != first) out += " to " + std::to_string(r);
  }
  return out;
}

}  // namespace penstock
