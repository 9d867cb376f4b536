// The table under the pool: sizes that the design promises, and lookups against a simple model.
#include "firehose/region_table.hpp"

#include <doctest/doctest.h>

#include <map>
#include <random>

using namespace penstock::firehose;

namespace {
std::uint32_t insert(region_table& t, std::uint32_t space, std::uint64_t start,
                     std::uint64_t bytes) {
  const std::uint32_t i = t.allocate();
  if (i == 0) return 0;
  region& r = t.at(i);
  r.start.store(start, std::memory_order_relaxed);
  r.bytes.store(bytes, std::memory_order_relaxed);
  r.space.store(space, std::memory_order_relaxed);
  r.lkey.store(i, std::memory_order_relaxed);
  r.writable.store(1, std::memory_order_relaxed);
  r.state.store(region_state::filling, std::memory_order_relaxed);
  t.link(i);
  r.state.store(region_state::live, std::memory_order_release);
  return i;
}
}  // namespace

TEST_CASE("a region takes one cache line") {
  CHECK(sizeof(region) == 64);
  CHECK(sizeof(lease) <= 32);
}

TEST_CASE("lookups agree with a model while regions come and go") {
  region_table t(64, 1 << 16);
  std::map<std::uint64_t, std::uint32_t> model;  // window -> region
  std::mt19937 random(7);
  for (int n = 0; n < 20'000; ++n) {
    const std::uint64_t window = random() % 200;
    const std::uint64_t start = (window << 16) + 4096;
    const auto it = model.find(window);
    lease l;
    const bool hit = t.hit(3, start + random() % 8192, 100, purpose::destination, l);
    REQUIRE(hit == (it != model.end()));
    if (hit) CHECK(l.lkey() == it->second);
    l.reset();
    if (it == model.end()) {
      if (const auto i = insert(t, 3, start, 8192); i != 0) model[window] = i;
    } else if (random() % 2 == 0) {
      std::uint32_t which[1] = {it->second};
      REQUIRE(t.close(which, 1) == 1);
      t.free(which[0]);
      model.erase(it);
    }
  }
  CHECK(t.hits() > 0);
}

TEST_CASE("the same address in two spaces is two regions") {
  region_table t(8, 1 << 16);
  const auto a = insert(t, 1, 0x10000, 4096), b = insert(t, 2, 0x10000, 4096);
  lease l;
  REQUIRE(t.hit(1, 0x10000, 1, purpose::source, l));
  CHECK(l.lkey() == a);
  REQUIRE(t.hit(2, 0x10000, 1, purpose::source, l));
  CHECK(l.lkey() == b);
  CHECK_FALSE(t.hit(3, 0x10000, 1, purpose::source, l));
}

TEST_CASE("a leased region is not closed, and gets its state back") {
  region_table t(8, 1 << 16);
  const auto i = insert(t, 0, 0x10000, 4096);
  lease l, m;
  REQUIRE(t.hit(0, 0x10000, 1, purpose::source, l));
  std::uint32_t which[1] = {i};
  CHECK(t.close(which, 1) == 0);
  CHECK(t.hit(0, 0x10000, 1, purpose::source, m));
  l.reset();
  m.reset();
  CHECK(t.close(which, 1) == 1);
}

TEST_CASE("the clock's hand passes over what was used and takes what was not") {
  region_table t(4, 1 << 16);
  std::uint32_t r[4];
  for (std::uint64_t i = 0; i < 4; ++i) r[i] = insert(t, 0, i << 16, 4096);
  lease l;
  REQUIRE(t.hit(0, 0, 1, purpose::source, l));
  l.reset();
  CHECK(t.next_victim() != r[0]);
}
