#include "perf/rounds.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace penstock::perf;

TEST_CASE("A round whose probes differ by more than a quarter is torn") {
  CHECK(torn({{300, 380}, 1}));
  CHECK(torn({{380, 300}, 1}));
  CHECK_FALSE(torn({{300, 370}, 1}));
  CHECK_FALSE(torn({{0, 0}, 1}));
}

TEST_CASE("Whole rounds at one placement are enough as soon as there are as many as wanted") {
  round_keeper k(3);
  k.add({{290, 300}, 1.3});
  k.add({{295, 300}, 1.1});
  CHECK_FALSE(k.enough());
  k.add({{300, 300}, 1.2});
  CHECK(k.enough());
  CHECK(k.median_rounds() == std::vector<std::size_t>{2});
}

TEST_CASE("Torn rounds are repeated and never reported") {
  round_keeper k(3);
  k.add({{290, 300}, 1.3});
  k.add({{290, 600}, 9.0});
  k.add({{290, 300}, 1.1});
  CHECK_FALSE(k.enough());
  k.add({{290, 300}, 1.2});
  CHECK(k.enough());
  CHECK(k.median_rounds() == std::vector<std::size_t>{3});
}

TEST_CASE("Rounds of two placements are not mixed: each has its median, the larger group first") {
  round_keeper k(4);
  k.add({{60, 62}, 2.0});
  k.add({{290, 300}, 1.3});
  k.add({{290, 300}, 1.1});
  CHECK_FALSE(k.enough());
  k.add({{290, 300}, 1.2});
  CHECK(k.enough());
  CHECK(k.median_rounds() == std::vector<std::size_t>{3, 0});
}

TEST_CASE("Of equally many rounds those on two cores come first") {
  round_keeper k(2);
  k.add({{60, 62}, 2.0});
  k.add({{290, 300}, 1.3});
  CHECK(k.median_rounds() == std::vector<std::size_t>{1, 0});
}

TEST_CASE("Where one placement is asked for, rounds at another do not count") {
  round_keeper near(1, placement::near), far(1, placement::far);
  for (round_keeper* k : {&near, &far}) k->add({{60, 62}, 2.0});
  CHECK(near.enough());
  CHECK(near.median_rounds() == std::vector<std::size_t>{0});
  CHECK_FALSE(far.enough());
  CHECK(far.median_rounds().empty());
}

TEST_CASE("Where all rounds are on one core they count") {
  round_keeper k(2);
  k.add({{60, 62}, 2.0});
  k.add({{61, 62}, 2.2});
  CHECK(k.enough());
}

TEST_CASE("Repeating ends after three times the rounds, and a median is still named") {
  round_keeper k(2);
  for (int i = 0; i < 6; ++i) {
    CHECK_FALSE(k.enough());
    k.add({{100, 200}, 1.0 + i});
  }
  CHECK(k.enough());
  CHECK(k.taken() == 6);
  CHECK(k.median_rounds() == std::vector<std::size_t>{3});
}
