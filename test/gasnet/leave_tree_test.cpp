// The tree of an exit: whichever rank the order begins at, and whichever one is out of reach, all
// others are told, once each, and along partners of a barrier by dissemination.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <vector>

#include "lib/gasnet/leave_tree.hpp"

using penstock::gasnet::leave_tree;

namespace {

std::vector<std::uint32_t> next_to(const leave_tree& t, std::uint32_t r) {
  std::vector<std::uint32_t> ranks;
  t.each_neighbour(r, [&](std::uint32_t q) { ranks.push_back(q); });
  return ranks;
}

/// How often each rank is told, where each one tells its neighbours but for who has told it.
std::vector<int> told_from(const leave_tree& t, std::uint32_t size, std::uint32_t first) {
  std::vector<int> times(size);
  std::vector<std::pair<std::uint32_t, std::uint32_t>> next{{first, leave_tree::none}};
  times[first] = 1;
  for (std::size_t i = 0; i < next.size(); ++i) {
    const auto [r, by] = next[i];
    for (const std::uint32_t q : next_to(t, r))
      if (q != by && q < size && ++times[q] == 1) next.emplace_back(q, r);
  }
  return times;
}

}  // namespace

TEST_CASE("an order that begins anywhere comes to every rank once") {
  for (const std::uint32_t size : {1u, 2u, 3u, 7u, 8u, 9u, 40u, 100u})
    for (std::uint32_t first = 0; first < size; ++first)
      CHECK(told_from(leave_tree(size), size, first) == std::vector<int>(size, 1));
}

TEST_CASE("also where one rank is out of reach, which alone is not told") {
  for (const std::uint32_t size : {2u, 3u, 7u, 8u, 9u, 40u})
    for (std::uint32_t hole = 0; hole < size; ++hole)
      for (std::uint32_t first = 0; first < size; ++first) {
        if (first == hole) continue;
        std::vector<int> once(size, 1);
        once[hole] = 0;
        CHECK(told_from(leave_tree(size, hole), size, first) == once);
      }
}

TEST_CASE("every rank comes to the root by its parents, each of which has it for a neighbour") {
  for (const std::uint32_t size : {2u, 9u, 40u, 100u})
    for (std::uint32_t hole = 0; hole <= size; ++hole) {
      const leave_tree t(size, hole < size ? hole : leave_tree::none);
      for (std::uint32_t r = 0; r < size; ++r) {
        if (r == hole) continue;
        std::uint32_t at = r, steps = 0;
        while (at != t.root()) {
          const std::uint32_t p = t.parent(at);
          REQUIRE(p < size);
          REQUIRE(p != hole);
          const auto ranks = next_to(t, p);
          REQUIRE(std::find(ranks.begin(), ranks.end(), at) != ranks.end());
          at = p;
          REQUIRE(++steps <= size);
        }
        CHECK(t.parent(t.root()) == leave_tree::none);
      }
    }
}

TEST_CASE("neighbours are partners of a barrier by dissemination, and few") {
  constexpr std::uint32_t size = 10000;
  const leave_tree t(size);
  for (std::uint32_t r = 0; r < size; ++r) {
    const auto ranks = next_to(t, r);
    CHECK(ranks.size() <= 14);
    for (const std::uint32_t q : ranks) CHECK(std::has_single_bit(q > r ? q - r : r - q));
  }
}
