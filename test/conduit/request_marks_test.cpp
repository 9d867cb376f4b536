// The bound on unanswered requests, over channels whose requests have random costs and are answered
// in order: it is never below the true number, never above the credits spent, and no more than
// twice what was under way lately, and one lease besides.
#include <doctest/doctest.h>

#include <deque>
#include <random>
#include <utility>

#include "lib/conduit/peer/request_marks.hpp"

namespace {

using penstock::conduit::request_marks;

// A channel of `loan` credits whose requests cost 1 to `dearest` credits.
struct channel {
  request_marks marks;
  std::deque<std::uint32_t> open;  // their costs
  std::uint32_t in_use = 0, lease = 0, sent = 0;

  [[nodiscard]] std::uint32_t told() { return marks.unanswered(in_use, lease, sent); }
  void take(std::uint32_t n) {
    in_use += n;
    lease += n;
    marks.took(n);
  }
  void send(std::uint32_t cost) {
    lease -= cost;
    open.push_back(cost);
    ++sent;
  }
  void answer() {
    in_use -= open.front();
    open.pop_front();
  }
  void give_back() {
    marks.gave_back(lease);
    in_use -= std::exchange(lease, 0);
  }
};

TEST_CASE("request_marks: the number told is never too small, and lags by one window at most") {
  std::mt19937 random(7);
  const auto below = [&random](std::uint32_t n) {
    return static_cast<std::uint32_t>(random() % n);
  };
  for (const std::uint32_t dearest : {1u, 2u, 5u, 17u}) {
    channel c;
    c.sent = 0xffff'ff00;  // counts wrap
    (void)c.told();
    (void)c.told();
    std::uint32_t window = 40;
    for (int i = 0; i < 200'000; ++i) {
      if (i % 1000 == 0) window = 1 + below(190);
      const std::uint32_t cost = 1 + below(dearest);
      if (c.lease < cost) {
        const std::uint32_t told = c.told();
        const std::uint32_t spent = c.in_use - c.lease;
        REQUIRE(told >= c.open.size());
        REQUIRE(told <= spent);
        if (dearest == 1) REQUIRE(told == c.open.size());
        if (i % 1000 > 600) REQUIRE(told <= 2 * window + 16);
        c.take(cost + below(16));
      }
      while (c.open.size() >= window) c.answer();
      c.send(cost);
      if (below(100) == 0) c.give_back();
    }
    while (!c.open.empty()) c.answer();
    (void)c.told();
    CHECK(c.told() == 0);
  }
}

TEST_CASE("request_marks: without flow control no credit is in use, and nothing is told") {
  channel c;
  for (std::uint32_t i = 0; i < 1000; ++i) {
    c.marks.took(1);
    CHECK(c.marks.unanswered(0, 0, i) == 0);
  }
}

}  // namespace
