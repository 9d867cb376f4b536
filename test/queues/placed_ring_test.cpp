#include "queues/placed_ring.hpp"

#include <doctest/doctest.h>

#include <deque>
#include <random>
#include <vector>

using penstock::thread_mode;
using penstock::queues::placing;

namespace {

constexpr std::uint32_t unit = placing::unit;

/// A space, its two ends, and which message has which unit.
struct watched {
  std::vector<std::byte> space;
  std::uint32_t freed = 0;
  std::uint64_t word = 0;  // the sender's
  penstock::queues::placed_tx tx;
  penstock::queues::placed_rx<thread_mode::par> rx;
  std::vector<int> user;
  struct message {
    placing place;
    std::uint32_t bytes;
    int name;
  };
  std::deque<message> under_way;
  int names = 0;

  explicit watched(std::uint32_t units) : space(units * unit), user(units, 0) {
    tx.open(0x10000, 7, units * unit, &word);
    REQUIRE(rx.open(space.data(), units * unit));
  }
  bool send(std::uint32_t bytes) {
    const auto p = tx.find(bytes);
    REQUIRE_FALSE(tx.is_broken());
    if (!p) return false;
    tx.take(*p, bytes);
    REQUIRE(tx.address(*p) == 0x10000 + p->at * unit);
    REQUIRE(rx.place_of(p->immediate(), bytes) == space.data() + p->at * unit);
    const message m{*p, bytes, ++names};
    for (std::uint32_t i = p->at; i < p->at + placing::units_of(bytes); ++i) {
      REQUIRE(user.at(i) == 0);  // nobody's
      user[i] = m.name;
    }
    under_way.push_back(m);
    return true;
  }
  void tell() {
    if (const auto all = rx.collect()) freed = *all, word = placing::word_of(freed);
  }
  /// The handler of one of those under way returns.
  void free(std::size_t which) {
    const message m = under_way[which];
    under_way.erase(under_way.begin() + static_cast<std::ptrdiff_t>(which));
    for (int& u : user) u = u == m.name ? 0 : u;
    if (rx.free(m.place.immediate(), m.bytes)) tell();
  }
};

}  // namespace

TEST_CASE("a message takes the whole units that it touches, one behind the other") {
  watched w(10);
  CHECK(w.send(1));
  CHECK(w.send(unit));
  CHECK(w.send(unit + 1));
  CHECK(w.tx.find(unit)->at == 4);
  CHECK(w.tx.find(6 * unit)->at == 4);
  CHECK_FALSE(w.tx.find(6 * unit + 1).has_value());
}

TEST_CASE("a message that does not fit before the end begins at the start, if that is free") {
  watched w(10);
  CHECK(w.send(4 * unit));
  CHECK(w.send(4 * unit));
  CHECK_FALSE(w.send(3 * unit));
  w.free(0);
  CHECK(w.send(3 * unit));
  CHECK(w.under_way.back().place.at == 0);
  CHECK(w.under_way.back().place.from == 8);
  CHECK_FALSE(w.send(2 * unit));
  CHECK(w.send(unit));
}

TEST_CASE("what is freed out of turn is told when those before it are") {
  watched w(4);
  for (int i = 0; i < 4; ++i) CHECK(w.send(unit));
  w.free(1);
  w.free(1);
  CHECK(w.freed == 0);
  CHECK_FALSE(w.send(unit));
  w.free(0);
  CHECK(w.freed == 3);
  CHECK(w.send(3 * unit));
  CHECK_FALSE(w.send(1));
}

TEST_CASE("the sender is told once a quarter of the space is free, and not before") {
  watched w(40);
  for (int i = 0; i < 40; ++i) CHECK(w.send(unit));
  for (int i = 0; i < 9; ++i) w.free(0);
  CHECK(w.freed == 0);
  w.free(0);
  CHECK(w.freed == 10);
}

TEST_CASE("a target that says it freed more than there was is found out") {
  watched w(10);
  CHECK(w.send(10 * unit));
  w.word = placing::word_of(11);
  CHECK_FALSE(w.tx.find(1).has_value());
  CHECK(w.tx.is_broken());
}

TEST_CASE("bytes of a sender's word that land in any order say nothing until all are there") {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    watched w(1000);
    std::uint32_t before = random() % 400, after = before + 1 + random() % 400;
    std::uint64_t words[] = {placing::word_of(before), placing::word_of(after)};
    CHECK(w.send(1000 * unit));
    w.word = words[0];
    for (unsigned landed = 0; landed < 8; ++landed) {
      if (w.word != words[1]) CHECK_FALSE(w.tx.find((before + 1) * unit).has_value());
      REQUIRE_FALSE(w.tx.is_broken());
      const unsigned at = round % 2 != 0 ? landed : 7 - landed;
      reinterpret_cast<std::byte*>(&w.word)[at] = reinterpret_cast<const std::byte*>(words + 1)[at];
    }
    CHECK(w.tx.find(after * unit).has_value());
  }
}

TEST_CASE("where there is no space, nothing is due, and there is no place") {
  const penstock::queues::placed_rx<thread_mode::par> rx;
  CHECK_FALSE(rx.due());
  CHECK(rx.place_of(0, 1) == nullptr);
  CHECK_FALSE(penstock::queues::placed_tx().is_open());
}

TEST_CASE("a space is whole units, long enough for `fewest` messages, and its end can be named") {
  constexpr std::uint32_t longest = 3 * unit - 1, least = 3 * unit * placing::fewest;
  CHECK(placing::may_be(0, longest));
  CHECK(placing::may_be(least, longest));
  CHECK(placing::may_be(placing::most_bytes, longest));
  CHECK_FALSE(placing::may_be(least - unit, longest));
  CHECK_FALSE(placing::may_be(least + 1, longest));
  CHECK_FALSE(placing::may_be(placing::most_bytes + unit, longest));
  CHECK_FALSE(placing::may_be(unit, longest));
}

TEST_CASE("a place that is none is found out") {
  watched w(10);
  const auto is_one = [&](std::uint16_t from, std::uint16_t at, std::uint32_t bytes) {
    return w.rx.place_of(placing{from, at}.immediate(), bytes) != nullptr;
  };
  CHECK(is_one(0, 0, 10 * unit));
  CHECK(is_one(9, 9, unit));
  CHECK(is_one(9, 0, unit));
  CHECK_FALSE(is_one(0, 0, 0));
  CHECK_FALSE(is_one(0, 0, 10 * unit + 1));
  CHECK_FALSE(is_one(0, 0, 0xffff'ffff));
  CHECK_FALSE(is_one(9, 9, unit + 1));
  CHECK_FALSE(is_one(10, 0, unit));
  CHECK_FALSE(is_one(3, 4, unit));
}

TEST_CASE("a space of `fewest` of the longest messages has room for one whenever none is read") {
  for (unsigned seed = 1; seed <= 100; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const std::uint32_t longest = (5 + random() % 60) * unit;
    watched w(placing::fewest * longest / unit + random() % 10);
    for (int i = 0; i < 300; ++i) {
      CHECK(w.send(longest));
      while (random() % 3 != 0 && w.send(1 + random() % longest)) continue;
      while (!w.under_way.empty()) w.free(random() % w.under_way.size());
    }
  }
}

TEST_CASE("two messages never share a unit, whatever their lengths and the order of handlers") {
  for (unsigned seed = 1; seed <= 200; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    watched w(8 + random() % 120);
    const auto all = static_cast<std::uint32_t>(w.user.size()) * unit;
    for (int i = 0; i < 400; ++i) {
      if (!w.under_way.empty() && random() % 2 == 0)
        w.free(random() % std::min<std::size_t>(w.under_way.size(), 3));
      else
        (void)w.send(1 + random() % (all / 4));
    }
  }
}
