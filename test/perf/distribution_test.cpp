#include "perf/distribution.hpp"

#include <doctest/doctest.h>

#include <cstdint>

using namespace penstock::perf;

TEST_CASE("A distribution counts every sample, and finds shares of them to 1 %") {
  distribution d;
  for (int i = 1; i <= 1000; ++i) d.add(i);
  CHECK(d.count() == 1000);
  CHECK(d.at(0.5) == doctest::Approx(500).epsilon(0.011));
  CHECK(d.at(0.99) == doctest::Approx(990).epsilon(0.011));
  CHECK(d.at(1) == doctest::Approx(1000).epsilon(0.011));
  std::uint64_t all = 0;
  double before = 0;
  for (const auto& p : d.parts()) {
    CHECK(p.from >= before);
    CHECK(p.to > p.from);
    CHECK(p.count > 0);
    before = p.to;
    all += p.count;
  }
  CHECK(all == 1000);
}

TEST_CASE("Added distributions are that of all samples") {
  distribution a, b, both;
  for (int i = 0; i < 300; ++i) {
    a.add(100 + i);
    b.add(10'000 + i, 2);
    both.add(100 + i);
    both.add(10'000 + i, 2);
  }
  a.add(b);
  CHECK(a.count() == both.count());
  for (const double share : {0.1, 0.3, 0.34, 0.9}) CHECK(a.at(share) == both.at(share));
}

TEST_CASE("A histogram has no gaps, and no more rows than asked") {
  distribution d;
  d.add(0.3), d.add(250, 10), d.add(3e9);
  for (const std::size_t most : {2u, 5u, 24u, 5000u}) {
    const auto rows = d.histogram(most);
    REQUIRE_FALSE(rows.empty());
    CHECK(rows.size() <= most);
    std::uint64_t all = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      all += rows[i].count;
      if (i > 0) CHECK(rows[i].from == doctest::Approx(rows[i - 1].to));
    }
    CHECK(all == 12);
  }
}

TEST_CASE("Nothing has no share and no rows, and zero is a sample") {
  distribution d;
  CHECK(d.at(0.5) == 0);
  CHECK(d.parts().empty());
  CHECK(d.histogram(10).empty());
  d.add(0);
  CHECK(d.count() == 1);
  CHECK(d.histogram(10).size() == 1);
}
