// The mode that this copy of the mode-dependent folders is compiled for: they are built three
// times, once for each library. Only code above lib/base that is built in this way may include
// this.
#pragma once

#include "lib/base/mode.hpp"
#include "penstock/mode.hpp"

namespace penstock::PENSTOCK_ABI {
inline constexpr thread_mode build_mode = thread_mode::PENSTOCK_MODE;
}  // namespace penstock::PENSTOCK_ABI
