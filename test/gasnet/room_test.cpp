// The free room of the reserve against a map of single bytes: what is taken is free and lies as low
// as it can, and all that is given back, in any order, is room again.
#include "lib/gasnet/ex/room.hpp"

#include <doctest/doctest.h>

#include <random>
#include <vector>

using penstock::gasnet::room;

namespace {

struct piece {
  std::uint64_t at, bytes;
};

// The lowest run of free bytes that is long enough, or all.
std::uint64_t lowest(const std::vector<bool>& used, std::uint64_t bytes) {
  std::uint64_t run = 0;
  for (std::uint64_t i = 0; i < used.size(); ++i) {
    run = used[i] ? 0 : run + 1;
    if (run == bytes) return i + 1 - bytes;
  }
  return used.size();
}
std::uint64_t longest(const std::vector<bool>& used) {
  std::uint64_t run = 0, most = 0;
  for (const bool u : used) {
    run = u ? 0 : run + 1;
    most = run > most ? run : most;
  }
  return most;
}

}  // namespace

TEST_CASE("a window of two, the older one given back first, goes on for ever") {
  room r(100);
  std::optional<std::uint64_t> old = r.take(40);
  for (int i = 0; i < 1000; ++i) {
    const auto next = r.take(40);
    REQUIRE(next);
    r.give(*old, 40);
    old = next;
  }
  r.give(*old, 40);
  CHECK(r.largest() == 100);
  CHECK(r.take(100) == 0u);
  CHECK(!r.take(1));
}

TEST_CASE("pieces are taken at the lowest place and come back in any order") {
  for (unsigned seed = 1; seed <= 200; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    std::vector<bool> used(1 + random() % 200);
    room r(used.size());
    std::vector<piece> held;
    for (int step = 0; step < 200; ++step) {
      if (held.empty() || random() % 2 == 0) {
        const std::uint64_t bytes = 1 + random() % 40, place = lowest(used, bytes);
        const auto at = r.take(bytes);
        REQUIRE(at.value_or(used.size()) == place);
        if (!at) continue;
        held.push_back({*at, bytes});
        std::fill_n(used.begin() + static_cast<std::ptrdiff_t>(*at), bytes, true);
      } else {
        std::swap(held[random() % held.size()], held.back());
        const piece p = held.back();
        held.pop_back();
        r.give(p.at, p.bytes);
        std::fill_n(used.begin() + static_cast<std::ptrdiff_t>(p.at), p.bytes, false);
      }
      REQUIRE(r.largest() == longest(used));
    }
  }
}

TEST_CASE("there may be no room at all") {
  room r(0);
  CHECK(r.largest() == 0);
  CHECK(!r.take(1));
}
