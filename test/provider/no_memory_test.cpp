// The device as libibverbs opens it, where there is no memory: each allocation fails in turn.
#include <doctest/doctest.h>
#include <infiniband/verbs.h>

#include <filesystem>
#include <iterator>

#include "test/nic/failing_memory.hpp"

using failing_memory::asks_in_vain, failing_memory::fail_each;

namespace {
auto descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
}
}  // namespace

TEST_CASE("a device for which there is no memory is not opened, and keeps no descriptor") {
  ibv_device** list = ibv_get_device_list(nullptr);
  REQUIRE(list[0] != nullptr);
  const auto open = [&] { return ibv_open_device(list[0]); };
  ibv_context* c = fail_each(open);  // with what is made once for the process
  CHECK_FALSE(asks_in_vain([&] { return ibv_close_device(c); }));
  const auto before = descriptors();
  c = fail_each(open, [&] { REQUIRE(descriptors() == before); });
  CHECK(ibv_close_device(c) == 0);
  CHECK(descriptors() == before);
  ibv_free_device_list(list);
}
