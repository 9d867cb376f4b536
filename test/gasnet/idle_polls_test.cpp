// When a loop of polls yields the core, tested without cores, loops or polls.
#include "lib/gasnet/idle_polls.hpp"

#include <doctest/doctest.h>

using penstock::gasnet::idle_polls;

namespace {

constexpr std::uint64_t quick_poll = 1000;  // ticks

/// A client whose polls find nothing and take a_poll ticks each, or ticks_a_poll with what it does
/// between them.
struct client {
  idle_polls idle;
  bool crowded = true, somebody_runs = true;
  std::uint64_t now = 1, a_poll = 20, ticks_a_poll = 20, yields = 0, timed = 0;

  void poll(std::uint64_t times) {
    for (std::uint64_t i = 0; i < times; ++i) {
      now += ticks_a_poll;
      if (!idle.found_nothing()) continue;
      const auto one_poll = [&] { return ++timed, a_poll; };
      if (!idle.may_yield(crowded, now, quick_poll, one_poll)) continue;
      ++yields;
      idle.yielded(somebody_runs, now += 500);
    }
  }
};

}  // namespace

TEST_CASE("Where all fit the cores no number of empty polls yields") {
  client c;
  c.crowded = false;
  c.poll(1'000'000);
  CHECK(c.yields == 0);
}

TEST_CASE("Where they do not, a loop of nothing but polls yields once in a few of them") {
  client c;
  c.poll(8000);
  CHECK(c.yields == 8000 / idle_polls::shortest - 1);  // the first window tells nothing yet
  CHECK(c.timed == 0);
}

TEST_CASE("So does one whose polls are slow, of many peers or on a slow processor") {
  client c;
  c.a_poll = 5000;
  c.ticks_a_poll = 5100;
  c.poll(8000);
  CHECK(c.yields == 8000 / idle_polls::shortest - 1);
  c.ticks_a_poll = 50000;  // it computes as well
  c.poll(idle_polls::shortest);
  const std::uint64_t before = c.yields;
  c.poll(8000);
  CHECK(c.yields == before);
}

TEST_CASE("Who computes between its polls keeps its core") {
  client c;
  c.ticks_a_poll = 5000;
  c.poll(8000);
  CHECK(c.yields == 0);
}

TEST_CASE(
    "Yields become rarer while nobody takes the core, and as often again when somebody does") {
  client c;
  c.somebody_runs = false;
  c.poll(1'000'000);
  const std::uint64_t rare = c.yields;
  CHECK(rare < 1'000'000 / idle_polls::longest + 20);
  CHECK(rare > 1'000'000 / idle_polls::longest / 2);
  c.somebody_runs = true;
  c.poll(idle_polls::longest);  // the one that finds somebody
  const std::uint64_t before = c.yields;
  c.poll(800);
  CHECK(c.yields - before == 100);
}

TEST_CASE("A poll that finds something begins the count anew") {
  client c;
  for (int i = 0; i < 1000; ++i) {
    c.poll(idle_polls::shortest - 1);
    c.idle.found_something();
  }
  CHECK(c.yields == 0);
}

TEST_CASE("A job that outgrows its cores later is noticed") {
  client c;
  c.crowded = false;
  c.poll(100'000);
  c.crowded = true;
  c.poll(2 * idle_polls::polls_uncrowded);
  CHECK(c.yields > 0);
}
