// How one-sided operations wait for what they are short of; for rma*.cpp.
#pragma once

#include "lib/conduit/engine.hpp"

namespace penstock::conduit {

// Repeats what is short of something, polling in between.
template <class Try>
status transfers::insist(Try&& attempt) noexcept {
  status s = attempt();
  for (unsigned empty = 0; is_short(s); s = attempt()) {
    if (reap() != 0) continue;
    if (const status w = engine_.wait_step(empty); is_failure(w)) return w;
  }
  return s;
}

}  // namespace penstock::conduit
