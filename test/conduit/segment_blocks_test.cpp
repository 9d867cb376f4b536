// segment_blocks: blocks lie in the area, apart from each other, and what is given back is whole
// again.
#include "penstock/segment_blocks.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <vector>

using penstock::segment_blocks;

TEST_CASE("blocks lie in the area and never overlap, whatever is taken and given back") {
  std::vector<std::byte> memory(1 << 16);
  const auto area = std::span(memory).subspan(3);  // not aligned
  for (unsigned seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    segment_blocks blocks(area);
    std::mt19937 random(seed);
    std::map<std::byte*, std::size_t> taken;
    for (int i = 0; i < 2000; ++i) {
      if (random() % 2 == 0 || taken.empty()) {
        const std::size_t n = random() % 4 == 0 ? random() % 20'000 : random() % 200;
        std::byte* const at = blocks.take(n);
        if (at == nullptr) continue;
        REQUIRE(reinterpret_cast<std::uintptr_t>(at) % segment_blocks::align == 0);
        REQUIRE(at >= area.data());
        REQUIRE(at + n <= area.data() + area.size());
        REQUIRE(blocks.size_of(at) >= n);
        const auto next = taken.upper_bound(at);
        if (next != taken.end()) REQUIRE(at + n <= next->first);
        if (next != taken.begin()) {
          const auto before = std::prev(next);
          REQUIRE(before->first + before->second <= at);
        }
        taken[at] = n;
      } else {
        const auto one = std::next(taken.begin(), static_cast<long>(random() % taken.size()));
        REQUIRE(blocks.give(one->first));
        REQUIRE(!blocks.give(one->first));
        taken.erase(one);
      }
    }
    for (const auto& [at, n] : taken) REQUIRE(blocks.give(at));
    REQUIRE(blocks.unused());
    // One block again, of all but what alignment takes.
    REQUIRE(blocks.take(area.size() - 2 * segment_blocks::align) != nullptr);
  }
}

TEST_CASE("there is no block where there is no room") {
  segment_blocks none;
  CHECK(none.take(0) == nullptr);
  CHECK(!none.give(nullptr));
  std::vector<std::byte> memory(300);
  segment_blocks small(memory);
  CHECK(small.take(301) == nullptr);
  CHECK(small.take(~std::size_t{0}) == nullptr);
  std::byte* const one = small.take(1);
  CHECK(one != nullptr);
  CHECK(small.take(1) != one);
  CHECK(!small.give(one + 1));
  CHECK(small.size_of(one + 1) == 0);
}
