// What penperf does with set-up that fails: it ends, with what went wrong.
#pragma once

#include <type_traits>
#include <utility>

#include "lib/base/log.hpp"
#include "penstock/result.hpp"

namespace penstock::penperf {

/// The value; without one, ends the job with the failure's message behind `about`.
template <class T>
T or_die(result<T> r, const char* about = "") {
  if (!r) fatal(1, "%s%s", about, r.error().message().c_str());
  if constexpr (!std::is_void_v<T>) return std::move(*r);
}

}  // namespace penstock::penperf
