#include "perf/statistics.hpp"

#include <doctest/doctest.h>

#include <numeric>
#include <vector>

using namespace penstock::perf;

TEST_CASE("A percentile is the smallest sample that its share of the samples does not exceed") {
  std::vector<std::uint64_t> samples(1000);
  std::iota(samples.rbegin(), samples.rend(), 1u);  // 1000 … 1
  const summary s = summarize(samples, 2.0);
  CHECK(s.min == 2);
  CHECK(s.p50 == 1000);
  CHECK(s.p90 == 1800);
  CHECK(s.p99 == 1980);
  CHECK(s.p999 == 1998);
  CHECK(s.max == 2000);
}

TEST_CASE("The tail of few samples is their largest") {
  std::vector<std::uint64_t> samples = {7, 3, 5};
  const summary s = summarize(samples, 1);
  CHECK(s.p50 == 5);
  CHECK(s.p90 == 7);
  CHECK(s.p999 == 7);
}

TEST_CASE("No samples give zeros") {
  CHECK(summarize({}, 1).max == 0);
  CHECK(median({}) == 0);
}

TEST_CASE("The median of an even number is the lower middle one") {
  std::vector<std::uint64_t> samples = {9, 1, 4, 6};
  CHECK(median(samples) == 4);
}
