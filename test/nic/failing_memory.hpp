// Makes allocations of the program fail: of the thread that asks for it alone.
#pragma once

#include <doctest/doctest.h>

#include <cerrno>
#include <cstdint>
#include <utility>

namespace failing_memory {

inline constexpr std::uint64_t none = ~std::uint64_t{0};
/// How many allocations of this thread succeed before one fails; then it is `none` again.
extern thread_local std::uint64_t to_failure;

inline bool refused(const void* object) { return object == nullptr && errno == ENOMEM; }
inline bool refused(int code) { return code == ENOMEM; }

/// Calls with the first allocation failing, then the second, until none fails; `before` comes
/// before each, and does not fail. Answers what the last call answers.
template <class Call, class Before>
auto fail_each(Call&& call, Before&& before) {
  for (int k = 0;; ++k) {
    before();
    errno = 0;
    to_failure = static_cast<std::uint64_t>(k);
    const auto answer = call();
    const bool failed = to_failure == none;
    to_failure = none;
    CAPTURE(k);
    if (!failed) {
      CHECK(k > 0);  // else the case shows nothing
      return answer;
    }
    REQUIRE(refused(answer));
  }
}
template <class Call>
auto fail_each(Call&& call) {
  return fail_each(call, [] {});
}

/// Calls what has to succeed without memory; whether it has asked for some.
template <class Call>
bool asks_in_vain(Call&& call) {
  to_failure = 0;
  CHECK(call() == 0);
  return std::exchange(to_failure, none) == none;
}

}  // namespace failing_memory
