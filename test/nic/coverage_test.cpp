#include "nic/shm/coverage.hpp"

#include <doctest/doctest.h>

#include <random>

using penstock::nic::shm::coverage;

TEST_CASE("users of overlapping ranges are counted for each page, as a plain array does") {
  constexpr std::uint64_t places = 64;
  std::mt19937 random(5);
  coverage c;
  std::uint32_t users[places] = {};
  std::vector<std::pair<std::uint64_t, std::uint64_t>> added;
  const auto compare = [&] {
    std::uint64_t next = 0;
    bool same = true;
    c.each(0, places, [&](std::uint64_t a, std::uint64_t b, std::uint32_t n) {
      same = same && a == next && b > a;
      for (next = b; a < b; ++a) same = same && users[a] == n;
    });
    return same && next == places;
  };
  for (int i = 0; i < 4000; ++i) {
    if (added.empty() || random() % 2 == 0) {
      const std::uint64_t a = random() % places, b = a + 1 + random() % (places - a);
      c.add(a, b);
      added.emplace_back(a, b);
      for (std::uint64_t x = a; x < b; ++x) ++users[x];
    } else {
      const std::size_t which = random() % added.size();
      const auto [a, b] = added[which];
      added.erase(added.begin() + static_cast<std::ptrdiff_t>(which));
      c.remove(a, b);
      for (std::uint64_t x = a; x < b; ++x) --users[x];
    }
    REQUIRE(compare());
    const std::uint64_t a = random() % places;
    REQUIRE(c.any(a, a + 1) == (users[a] != 0));
  }
}
