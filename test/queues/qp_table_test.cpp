#include "queues/qp_table.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <deque>
#include <map>
#include <random>
#include <thread>

using penstock::queues::qp_table;

namespace {

constexpr std::uint32_t entries = 100;

void check_against(const qp_table& t, const std::map<std::uint32_t, std::uint32_t>& known) {
  for (const auto& [number, value] : known) REQUIRE(t.find(number) == value);
}

}  // namespace

TEST_CASE("numbers are found while they are in the table, and not before or afterwards") {
  std::minstd_rand draw(1);
  // Few different numbers collide often; many take places all over the table.
  for (const std::uint32_t numbers : {120u, 1000u, 1u << 24}) {
    qp_table t(entries);
    std::map<std::uint32_t, std::uint32_t> known;
    for (std::uint32_t step = 0; step < 20'000; ++step) {
      const auto number = static_cast<std::uint32_t>(draw()) % numbers * 256 % (1u << 24);
      if (const auto at = known.find(number); at != known.end()) {
        t.remove(number);
        known.erase(at);
        REQUIRE(t.find(number) == qp_table::unknown);
      } else if (known.size() < entries) {
        REQUIRE(t.find(number) == qp_table::unknown);
        t.insert(number, step);
        known[number] = step;
      }
      if (step % 64 == 0) check_against(t, known);
    }
    check_against(t, known);
  }
}

// As adapters number their queue pairs.
TEST_CASE("numbers that rise for ever leave the table room") {
  qp_table t(entries);
  std::deque<std::uint32_t> known;
  for (std::uint32_t number = 1; number < 100'000; ++number) {
    if (known.size() == entries) {
      t.remove(known.front());
      REQUIRE(t.find(known.front()) == qp_table::unknown);
      known.pop_front();
    }
    t.insert(number, number + 7);
    known.push_back(number);
    REQUIRE(t.find(known.front()) == known.front() + 7);
    REQUIRE(t.find(number) == number + 7);
  }
}

TEST_CASE("other threads find what stays while numbers come and go around it") {
  qp_table t(entries);
  constexpr std::uint32_t kept = 40, step = 3;
  for (std::uint32_t i = 0; i < kept; ++i) t.insert(i * step, i);
  std::atomic<bool> over{false};
  std::uint64_t wrong = 0;
  std::thread finder([&] {
    while (!over.load(std::memory_order_relaxed))
      for (std::uint32_t i = 0; i < kept; ++i) wrong += t.find(i * step) != i;
  });
  std::minstd_rand draw(1);
  std::map<std::uint32_t, std::uint32_t> others;
  for (std::uint32_t n = 0; n < 200'000; ++n) {
    const auto number = static_cast<std::uint32_t>(draw()) % 4000 * step + 1;
    if (others.count(number) != 0) {
      t.remove(number);
      others.erase(number);
    } else if (others.size() < entries - kept) {
      t.insert(number, n);
      others[number] = n;
    }
  }
  over.store(true, std::memory_order_relaxed);
  finder.join();
  CHECK(wrong == 0);
  check_against(t, others);
}
