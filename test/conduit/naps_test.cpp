// How many waits nap after long yields, tested without cores or waits.
#include "lib/conduit/progress/naps.hpp"

#include <doctest/doctest.h>

using penstock::conduit::naps;

namespace {

constexpr std::uint64_t short_ns = 2000, slice_ns = 4'000'000;

/// Waits of a thread whose every yield takes that long. Returns how many of them nap.
std::uint32_t naps_among(naps& n, std::uint32_t waits, std::uint64_t yield_ns) {
  std::uint32_t count = 0;
  for (std::uint32_t i = 0; i < waits; ++i)
    if (n.is_due())
      ++count;
    else
      n.yielded(yield_ns);
  return count;
}

}  // namespace

TEST_CASE("Without long yields no wait naps") {
  naps n;
  CHECK(naps_among(n, 10'000, short_ns) == 0);
}

TEST_CASE("After one long yield one wait naps, and then they yield again") {
  naps n;
  n.yielded(slice_ns);
  CHECK(naps_among(n, 10'000, short_ns) == naps::first);
}

TEST_CASE("Where every yield is long nearly all waits nap") {
  naps n;
  (void)naps_among(n, 1000, slice_ns);
  CHECK(naps_among(n, 129 * 100, slice_ns) == naps::most * 100);
}

TEST_CASE("Short yields in a row make the next long one count as the first") {
  naps n;
  (void)naps_among(n, 1000, slice_ns);
  (void)naps_among(n, naps::most + naps::calm, short_ns);
  n.yielded(slice_ns);
  CHECK(naps_among(n, 1000, short_ns) == naps::first);
}

TEST_CASE("A short yield among long ones changes nothing") {
  naps n;
  std::uint32_t count = 0;
  for (int i = 0; i < 20; ++i) {
    n.yielded(slice_ns);
    for (count = 0; n.is_due();) ++count;
    n.yielded(short_ns);
  }
  CHECK(count == naps::most);
}

TEST_CASE(
    "After two naps that ended late waits yield, and the next long yield is the first again") {
  naps n;
  (void)naps_among(n, 1000, slice_ns);
  n.yielded(slice_ns);
  for (const std::uint64_t took : {100'000u, 4'000'000u, 100'000u, 4'000'000u}) {
    REQUIRE(n.is_due());
    n.napped(took);
  }
  CHECK(n.is_due());
  n.napped(slice_ns);
  CHECK(!n.is_due());
  n.yielded(slice_ns);
  CHECK(naps_among(n, 1000, short_ns) == naps::first);
}
