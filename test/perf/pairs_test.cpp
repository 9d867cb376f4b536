#include "perf/pairs.hpp"

#include <doctest/doctest.h>

using namespace penstock::perf;

namespace {
measurement round_of(std::uint64_t ns, std::uint64_t samples, double rate) {
  measurement m;
  m.bench = "am_rate";
  std::vector<std::uint64_t> all(samples, ns);
  m.ns = summarize(all, 1);
  m.twin_spread = m.ns.spread;
  m.twin_ns = m.ns.p50;
  m.rate = rate;
  m.twin_rate = 2 * rate;
  m.iters = samples;
  return m;
}
}  // namespace

TEST_CASE("Rounds of pairs are added: rates, operations, and samples to 1 %") {
  const std::vector<measurement> first{round_of(100, 60, 1e6), round_of(110, 60, 1e6)};
  const std::vector<measurement> second{round_of(900, 40, 3e6), round_of(100, 40, 2e6)};
  const std::vector<std::vector<std::byte>> both{packed(first), packed(second)};
  const auto all = combined(first, both);
  REQUIRE(all.size() == 2);
  CHECK(all[0].bench == "am_rate");
  CHECK(all[0].rate == 4e6);
  CHECK(all[0].twin_rate == 8e6);
  CHECK(all[0].iters == 100);
  CHECK(all[0].ns.min == 100);
  CHECK(all[0].ns.max == 900);
  CHECK(all[0].ns.p50 == doctest::Approx(100).epsilon(0.011));
  CHECK(all[0].ns.p90 == doctest::Approx(900).epsilon(0.011));
  CHECK(all[0].twin_ns == doctest::Approx(100).epsilon(0.011));
  CHECK(all[0].ns.spread.count() == 100);
  CHECK(all[1].rate == 3e6);
  CHECK(all[1].ns.p50 <= 110);
}

TEST_CASE("A twin without samples has the mean of the pairs' times") {
  measurement a = round_of(100, 10, 1), b = round_of(100, 10, 1);
  a.twin_spread = b.twin_spread = {};
  a.twin_ns = 10, b.twin_ns = 30;
  const std::vector<measurement> one{a}, other{b};
  const std::vector<std::vector<std::byte>> both{packed(one), packed(other)};
  CHECK(combined(one, both)[0].twin_ns == 20);
}

TEST_CASE("What is cut short is no round") {
  const std::vector<measurement> one{round_of(100, 10, 1)};
  std::vector<std::byte> bytes = packed(one);
  const std::vector<std::vector<std::byte>> none{packed(one), {}};
  CHECK(combined(one, none).empty());
  bytes.pop_back();
  const std::vector<std::vector<std::byte>> cut{bytes};
  CHECK(combined(one, cut).empty());
}
