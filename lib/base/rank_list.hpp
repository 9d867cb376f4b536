// Lists of ranks in settings, such as "0,4-7", which choose the ranks that write statistics, traces
// and backtraces.
#pragma once

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

}  // namespace penstock
