// The table of regions by C++'s memory model: threads lease and return while another retires
// regions, and registers others in their place.
#include <doctest/doctest.h>

#include <memory>

#include "firehose/region_table.hpp"
#include "test/model/model.hpp"

using namespace penstock;
using namespace penstock::firehose;

namespace {

constexpr std::uint64_t window = 1 << 16;

struct scene {
  region_table table{2, window};
  model::var<int> registered[3];  // by region: what its registration covers; 0: none

  // Registers the window of that number, as pool.cpp does.
  void put(std::uint32_t number) {
    const std::uint32_t i = table.allocate();
    if (i == 0) return;
    registered[i] = static_cast<int>(number);
    region& r = table.at(i);
    r.state.store(region_state::filling, std::memory_order_relaxed);
    r.start.store(number * window, std::memory_order_relaxed);
    r.bytes.store(window, std::memory_order_relaxed);
    r.lkey.store(number, std::memory_order_relaxed);
    r.writable.store(1, std::memory_order_relaxed);
    table.link(i);
    r.state.store(region_state::live, std::memory_order_release);
  }
  // Leases and uses the window; the lease is returned at once, or handed on.
  lease use(std::uint32_t number) {
    lease l;
    if (!table.hit(0, number * window + 8, 8, purpose::source, l)) return l;
    if (l.lkey() != number) model::fail("a lease has another region's key");
    look(l, number);
    return l;
  }
  void look(const lease& l, std::uint32_t number) {
    if (registered[l.number()] != static_cast<int>(number))
      model::fail("a region is used that is registered no more");
  }
  // Retires that region, if nobody uses it, and registers another window in its place.
  void replace(std::uint32_t i, std::uint32_t number) {
    std::uint32_t which[] = {i};
    if (table.close(which, 1) == 0) return;
    registered[i] = 0;
    table.free(i);
    put(number);
  }
};

void check(std::vector<void (*)(scene&)> threads, std::uint64_t runs) {
  const auto r = model::sample(
      [&] {
        auto s = std::make_shared<scene>();
        s->put(1), s->put(2);
        model::trial t;
        for (const auto f : threads) t.threads.push_back([s, f] { f(*s); });
        return t;
      },
      1, runs);
  CHECK_MESSAGE(r.ok(), r.text());
}

}  // namespace

TEST_CASE(
    "a region that is leased is not retired, and a lease is of the region that was asked for") {
  check({[](scene& s) { (void)s.use(1), (void)s.use(2), (void)s.use(3); },
         [](scene& s) { (void)s.use(2), (void)s.use(1), (void)s.use(3); },
         [](scene& s) { s.replace(1, 3), s.replace(2, 4), s.replace(1, 1); }},
        20'000);
}

TEST_CASE("a thread that leases a region again and again is done with it before it is retired") {
  check({[](scene& s) { (void)s.use(1), (void)s.use(1), (void)s.use(1); },
         [](scene& s) { s.replace(1, 3), s.replace(1, 1); }},
        60'000);
}

TEST_CASE("a region that was not retired, since it was in use, is whole for who comes later") {
  check({[](scene& s) {
           const lease kept = s.use(3);
           (void)s.use(2);
         },
         [](scene& s) { (void)s.use(3), (void)s.use(3); },
         [](scene& s) { s.replace(1, 3), s.replace(1, 4); }},
        20'000);
}

TEST_CASE("a region whose retiring was given up is whole for a thread that sees it live again") {
  check({[](scene& s) {
           s.replace(1, 3);
           const lease kept = s.use(3);
           s.replace(1, 4);
         },
         [](scene& s) { (void)s.use(3), (void)s.use(3); }},
        60'000);
}

TEST_CASE("hits are counted, by who has counted none yet, too") {
  check({[](scene& s) { (void)s.use(1), (void)s.use(2); }, [](scene& s) { (void)s.use(2); },
         [](scene& s) {
           for (int i = 0; i < 3; ++i)
             if (s.table.hits() > 3) model::fail("more hits than there were");
         }},
        5'000);
}

TEST_CASE("a lease that another thread returns keeps its region until then") {
  const auto r = model::sample(
      [] {
        struct handed : scene {
          lease given;
          model::scheduled<int> there{0};
        };
        auto s = std::make_shared<handed>();
        s->put(1), s->put(2);
        return model::trial{{[s] {
                               s->given = s->use(1);
                               s->there.store(1, std::memory_order_release);
                               (void)s->use(1);
                             },
                             [s] {
                               if (s->there.load(std::memory_order_acquire) == 0) return;
                               if (s->given) s->look(s->given, 1);
                               s->given.reset();
                             },
                             [s] { s->replace(1, 3), s->replace(1, 1); }}};
      },
      1, 20'000);
  CHECK_MESSAGE(r.ok(), r.text());
}
