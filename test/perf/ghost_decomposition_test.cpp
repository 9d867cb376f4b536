#include <doctest/doctest.h>

#include <vector>

#include "perf/ghost/decomposition.hpp"

using namespace penstock::ghost;

TEST_CASE("Every cell of the cube belongs to exactly one process") {
  for (const std::uint32_t processes : {1u, 2u, 3u, 4u, 6u, 7u, 8u, 12u}) {
    const std::uint32_t edge = 30;
    const decomposition d(processes, edge);
    REQUIRE(d.possible());
    std::vector<int> owners(edge * edge * edge);
    for (std::uint32_t rank = 0; rank < processes; ++rank) {
      const box b = d.box_of(rank);
      for (std::uint32_t z = b.lo[2]; z < b.hi[2]; ++z)
        for (std::uint32_t y = b.lo[1]; y < b.hi[1]; ++y)
          for (std::uint32_t x = b.lo[0]; x < b.hi[0]; ++x) ++owners[(z * edge + y) * edge + x];
    }
    for (const int n : owners) REQUIRE(n == 1);
  }
}

TEST_CASE("Boxes are as near to cubes as the number of processes allows") {
  CHECK(decomposition(1, 48).parts() == triple{1, 1, 1});
  CHECK(decomposition(4, 48).parts() == triple{1, 2, 2});
  CHECK(decomposition(8, 48).parts() == triple{2, 2, 2});
  CHECK(decomposition(12, 48).parts() == triple{2, 2, 3});
  CHECK(decomposition(7, 48).parts() == triple{1, 1, 7});
}

TEST_CASE("Neighbours are each other's, and share the whole face") {
  for (const std::uint32_t processes : {1u, 2u, 3u, 8u, 12u}) {
    const decomposition d(processes, 31);
    for (std::uint32_t rank = 0; rank < processes; ++rank)
      for (unsigned i = 0; i < 6; ++i) {
        const face f = face_of(i);
        CHECK(f.index() == i);
        const std::uint32_t beyond = d.neighbour(rank, f);
        REQUIRE(d.neighbour(beyond, f.opposite()) == rank);
        const box a = d.box_of(rank), b = d.box_of(beyond);
        for (unsigned axis = 0; axis < 3; ++axis) {
          if (axis == f.axis)
            CHECK((f.side == 1 ? a.hi[axis] % 31 == b.lo[axis] : a.lo[axis] == b.hi[axis] % 31));
          else
            CHECK((a.lo[axis] == b.lo[axis] && a.hi[axis] == b.hi[axis]));
        }
      }
  }
}

TEST_CASE("A box thinner than the ghost zone is refused") {
  CHECK(decomposition(2, 8).possible());
  CHECK_FALSE(decomposition(2, 7).possible());
}
