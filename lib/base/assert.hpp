// Assertions state invariants, and print both operands when one does not hold. They never check
// input, and release builds leave them out.
#pragma once

#include "lib/base/log.hpp"

namespace penstock {
#ifdef NDEBUG
inline constexpr bool assertions = false;
#else
inline constexpr bool assertions = true;
#endif
}  // namespace penstock

#define PENSTOCK_ASSERT(a, op, b)                                                          \
  do {                                                                                     \
    if constexpr (::penstock::assertions) {                                                \
      const auto pa_ = (a);                                                                \
      const auto pb_ = (b);                                                                \
      if (!(pa_ op pb_)) [[unlikely]]                                                      \
        ::penstock::fatal(134, "%s:%d: invariant broken: %s %s %s (%lld, %lld)", __FILE__, \
                          __LINE__, #a, #op, #b, static_cast<long long>(pa_),              \
                          static_cast<long long>(pb_));                                    \
    }                                                                                      \
  } while (0)
