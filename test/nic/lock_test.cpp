#include "nic/shm/lock.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <thread>
#include <vector>

using namespace penstock;

TEST_CASE("real threads never meet inside, before and after one of them is favoured") {
  nic::shm::spin_lock lock;
  std::uint64_t count = 0;
  const auto work = [&](int n) {
    for (int i = 0; i < n; ++i) {
      const nic::shm::hold guard(lock);
      ++count;
    }
  };
  work(1000);  // favoured from here on
  std::vector<std::thread> others;
  for (int t = 0; t < 3; ++t) others.emplace_back([&] { work(5000); });
  work(200'000);
  for (auto& t : others) t.join();
  CHECK(count == 216'000);
}

TEST_CASE("a lock that is held is not had by trying, whoever holds it") {
  nic::shm::spin_lock lock;
  for (int i = 0; i < 200; ++i) {
    REQUIRE(lock.try_lock());
    bool had = false;
    if (i % 50 == 49) {
      std::thread other([&] { had = lock.try_lock(); });
      other.join();
    }
    CHECK_FALSE(had);
    lock.unlock();
  }
  bool had = false;
  std::thread other([&] {
    had = lock.try_lock();
    if (had) lock.unlock();
  });
  other.join();
  CHECK(had);
  REQUIRE(lock.try_lock());
  lock.unlock();
}
