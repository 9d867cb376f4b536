#include "lib/base/index_pool.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <set>

#include "test/model/model.hpp"

using namespace penstock;

TEST_CASE("a pool gives each number once, lowest first, and then none") {
  index_pool<thread_mode::seq> p(5, 2);
  CHECK(p.take() == 2u);
  CHECK(p.take() == 3u);
  CHECK(p.take() == 4u);
  CHECK(!p.take());
  CHECK(p.empty());
  p.give(0);
  CHECK(p.take() == 0u);
}

TEST_CASE("two threads that take and give never hold the same number") {
  struct scene {
    index_pool<thread_mode::par, model::scheduled> pool{3};
    int held[3] = {};
    void visit() {
      if (const auto i = pool.take()) {
        if (++held[*i] != 1) model::fail("a number was given twice");
        const auto j = pool.take();
        if (j && ++held[*j] != 1) model::fail("a number was given twice");
        --held[*i];
        pool.give(*i);
        if (j) {
          --held[*j];
          pool.give(*j);
        }
      }
    }
  };
  const auto r = model::search([] {
    auto s = std::make_shared<scene>();
    return model::trial{{[s] { s->visit(); }, [s] { s->visit(); }},
                        [] { return true; },
                        [s] {
                          std::set<std::uint32_t> all;
                          while (const auto i = s->pool.take()) all.insert(*i);
                          return all.size() == 3;
                        }};
  });
  CHECK_MESSAGE(r.ok(), r.text());
}
