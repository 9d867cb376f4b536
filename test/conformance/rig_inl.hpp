// Bodies of the rig's templates.
#pragma once

#include <sched.h>

#include "lib/base/clock.hpp"

namespace penstock::conformance {

template <class F>
bool until(F done, std::uint64_t limit_ns) {
  const std::uint64_t end = now_ns() + limit_ns;
  while (!done()) {
    if (now_ns() > end) return false;
    sched_yield();
  }
  return true;
}

}  // namespace penstock::conformance
