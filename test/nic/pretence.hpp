// A rig whose device pretends to be another one, or fails (PERSONALITIES.md).
#pragma once

#include <cstdlib>

#include "test/nic/rig.hpp"

namespace rig {

/// Contexts opened while this lives have the personality and the faults.
struct pretending {
  pretending(const char* personality, const char* faults) {
    ::setenv("PENSTOCK_SHM_PERSONALITY", personality, 1);
    ::setenv("PENSTOCK_SHM_FAULT", faults, 1);
  }
  ~pretending() {
    ::unsetenv("PENSTOCK_SHM_PERSONALITY");
    ::unsetenv("PENSTOCK_SHM_FAULT");
  }
  pretending(const pretending&) = delete;
  pretending& operator=(const pretending&) = delete;
};

}  // namespace rig
