#include <doctest/doctest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "queues/in_order.hpp"

using namespace penstock;

TEST_CASE("threads that report what comes in finish all of it, in order, reading what was posted") {
  constexpr std::uint64_t all = 200'000, places = 64;
  queues::in_order<thread_mode::par> count;
  std::vector<std::uint64_t> posted(places);  // plain memory: a place is used again when it is done
  std::atomic<std::uint64_t> come{0};
  std::uint64_t finished = 0;
  bool in_order = true, as_posted = true;
  std::vector<std::thread> reporters;
  for (int t = 0; t < 3; ++t)
    reporters.emplace_back([&] {
      while (count.done() != all) {
        count.report(come.load(std::memory_order_acquire), [&](std::uint64_t i) {
          in_order = in_order && i == finished + 1;
          as_posted = as_posted && posted[i % places] == i;
          finished = i;
        });
        std::this_thread::yield();
      }
    });
  for (std::uint64_t i = 1; i <= all; ++i) {
    while (i - count.done() > places) std::this_thread::yield();
    posted[i % places] = i;
    come.store(i, std::memory_order_release);
  }
  for (auto& t : reporters) t.join();
  CHECK(finished == all);
  CHECK(in_order);
  CHECK(as_posted);
}
