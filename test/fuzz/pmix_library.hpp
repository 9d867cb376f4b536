// The library that stands in for PMIx's: what it answers from now on.
#pragma once

#include "test/fuzz/target.hpp"

namespace fuzz {

/// All answers are read from `in`, one after the other; behind its end they are zeros.
void pmix_says(const input& in);
/// How many have begun and not ended.
[[nodiscard]] int pmix_users();

}  // namespace fuzz
