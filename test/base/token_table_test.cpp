// Tokens name what they were given for, once, and nothing else does.
#include "lib/base/token_table.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <map>
#include <random>
#include <thread>
#include <utility>
#include <vector>

using penstock::token_table;

TEST_CASE("a token names its object until it is taken, and then nothing") {
  token_table<int> t;
  int a = 1, b = 2;
  const std::uint64_t of_a = t.name(a), of_b = t.name(b);
  CHECK(of_a != of_b);
  CHECK(t.find(of_a) == &a);
  CHECK(t.take(of_b) == &b);
  CHECK(t.take(of_b) == nullptr);
  CHECK(t.find(of_b) == nullptr);
  CHECK(t.find(of_a) == &a);
}

TEST_CASE("words that are no tokens name nothing") {
  token_table<int> t;
  int a = 1;
  const std::uint64_t token = t.name(a);
  const auto flipped = [token](unsigned bit) { return token ^ std::uint64_t{1} << bit; };
  for (unsigned bit = 0; bit < 64; ++bit) CHECK(t.find(flipped(bit)) == nullptr);
  for (unsigned bit = 0; bit < 64; ++bit) CHECK(t.take(flipped(bit)) == nullptr);
  CHECK(t.find(0) == nullptr);
  std::mt19937_64 random(7);
  for (int i = 0; i < 100000; ++i)
    if (const std::uint64_t word = random(); word != token) CHECK(t.find(word) == nullptr);
  CHECK(t.take(token) == &a);
}

TEST_CASE("no token comes twice, however many objects have names") {
  token_table<std::uint64_t> t;
  std::mt19937 random(3);
  std::map<std::uint64_t, std::uint64_t*> live;
  std::map<std::uint64_t, bool> seen;
  std::vector<std::uint64_t> objects(3000);
  for (std::size_t round = 0; round < 20000; ++round) {
    if (live.size() < objects.size() && random() % 3 != 0) {
      std::uint64_t& x = objects[round % objects.size()];
      const std::uint64_t token = t.name(x);
      REQUIRE(token != 0);
      REQUIRE(!std::exchange(seen[token], true));
      live[token] = &x;
    } else if (!live.empty()) {
      const auto some = std::next(live.begin(), static_cast<long>(random() % live.size()));
      REQUIRE(t.take(some->first) == some->second);
      live.erase(some);
    }
  }
  for (const auto& [token, x] : live) CHECK(t.find(token) == x);
}

TEST_CASE("one of several threads takes a token") {
  token_table<int> t;
  std::vector<int> objects(20000);
  std::atomic<int> taken{0}, wrong{0};
  std::vector<std::atomic<std::uint64_t>> tokens(objects.size());
  std::vector<std::thread> all;
  for (int k = 0; k < 2; ++k)
    all.emplace_back([&, k] {
      for (std::size_t i = static_cast<std::size_t>(k); i < objects.size(); i += 2)
        tokens[i].store(t.name(objects[i]), std::memory_order_release);
    });
  for (int k = 0; k < 2; ++k)
    all.emplace_back([&] {
      for (std::size_t i = 0; i < objects.size(); ++i) {
        std::uint64_t token = 0;
        while ((token = tokens[i].load(std::memory_order_acquire)) == 0) std::this_thread::yield();
        const int* const x = t.take(token);
        if (x != nullptr) ++taken;
        if (x != nullptr && x != &objects[i]) ++wrong;
      }
    });
  for (std::thread& thread : all) thread.join();
  CHECK(taken == static_cast<int>(objects.size()));
  CHECK(wrong == 0);
}
