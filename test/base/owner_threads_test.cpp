#include <doctest/doctest.h>

#include <thread>
#include <vector>

#include "lib/base/owner.hpp"
#include "lib/base/thread_index.hpp"

using namespace penstock;

TEST_CASE("real threads never lose an update made by the owner") {
  owner<thread_mode::par> o;
  std::uint64_t count = 0;  // guarded by o
  std::vector<std::thread> threads;
  constexpr int rounds = 20000;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      const std::uint32_t tag = thread_tag();
      for (int i = 0; i < rounds;) {
        if (!o.try_enter(tag)) {
          std::this_thread::yield();
          continue;
        }
        ++count;
        ++i;
        o.leave(tag);
      }
    });
  for (auto& t : threads) t.join();
  CHECK(count == 4u * rounds);
}
