// The stacks of the library's own threads.
#include "lib/base/quiet_thread.hpp"

#include <doctest/doctest.h>

using namespace penstock;

namespace {

std::size_t stack_of_this_thread() {
  pthread_attr_t a;
  std::size_t bytes = 0;
  if (pthread_getattr_np(pthread_self(), &a) != 0) return 0;
  pthread_attr_getstacksize(&a, &bytes);
  pthread_attr_destroy(&a);
  return bytes;
}

std::size_t stack_of_a_quiet_thread() {
  std::size_t bytes = 0;
  std::thread t;
  REQUIRE(start_quiet_thread(t, "penstock-test", [&bytes] { bytes = stack_of_this_thread(); }) ==
          0);
  t.join();
  return bytes;
}

}  // namespace

TEST_CASE(
    "a thread of the library has the stack that is asked for, and other threads the usual one") {
  const std::size_t usual = stack_of_a_quiet_thread();
  REQUIRE(usual > 0);
  quiet_stack_bytes.store(2 * usual);
  CHECK(stack_of_a_quiet_thread() >= 2 * usual);
  std::size_t others = 0;
  std::thread([&others] { others = stack_of_this_thread(); }).join();
  CHECK(others == usual);
  quiet_stack_bytes.store(usual / 4);  // less than usual changes nothing
  CHECK(stack_of_a_quiet_thread() == usual);
  quiet_stack_bytes.store(0);
}
