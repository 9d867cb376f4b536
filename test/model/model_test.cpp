// The harness itself: it runs every interleaving, finds the faults that are built into its
// examples, and says how.
#include <doctest/doctest.h>

#include <memory>

#include "lib/base/mode.hpp"
#include "test/model/model.hpp"

using penstock::thread_mode;
using penstock::word;
namespace model = penstock::model;

namespace {

using par_word = word<thread_mode::par, int, model::scheduled>;

model::trial lost_update() {
  auto w = std::make_shared<par_word>(0);
  const auto add = [w] {
    w->store(w->load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  };
  return {{add, add}, nullptr, [w] { return w->load(std::memory_order_relaxed) == 2; }};
}

model::trial counted() {
  auto w = std::make_shared<par_word>(0);
  const auto add = [w] { w->fetch_add(1, std::memory_order_relaxed); };
  return {{add, add, add}, nullptr, [w] { return w->load(std::memory_order_relaxed) == 3; }};
}

}  // namespace

TEST_CASE("a lost update is found, and its schedule shows it again") {
  const model::report r = model::explore(lost_update);
  REQUIRE_FALSE(r.ok());
  CHECK_FALSE(model::replay(lost_update, r.choices).ok());
}

TEST_CASE("random schedules find a lost update too, and name the seed") {
  const model::report r = model::sample(lost_update, 1, 100);
  REQUIRE_FALSE(r.ok());
  CHECK_FALSE(model::sample(lost_update, r.seed, 1).ok());
}

TEST_CASE("three conflicting operations have six orders") {
  const model::report r = model::explore(counted);
  CHECK_MESSAGE(r.ok(), r.text());
  CHECK(r.complete);
  CHECK(r.runs == 6);
}

TEST_CASE("operations on different words need one order only") {
  const model::report r = model::explore([] {
    auto a = std::make_shared<par_word>(0);
    auto b = std::make_shared<par_word>(0);
    return model::trial{{[a] { a->fetch_add(1, std::memory_order_relaxed); },
                         [b] { b->fetch_add(1, std::memory_order_relaxed); }}};
  });
  CHECK(r.complete);
  CHECK(r.runs == 1);
}

TEST_CASE("an invariant is checked after every step, not only at the end") {
  const model::report r = model::explore([] {
    auto w = std::make_shared<par_word>(0);
    return model::trial{{[w] {
                          w->fetch_add(1, std::memory_order_relaxed);
                          w->fetch_sub(1, std::memory_order_relaxed);
                        }},
                        [w] { return w->load(std::memory_order_relaxed) == 0; }};
  });
  CHECK_FALSE(r.ok());
}

TEST_CASE("a failure noted within a thread fails the run") {
  const model::report r = model::explore([] {
    auto w = std::make_shared<par_word>(0);
    return model::trial{{[w] {
      if (w->fetch_add(1, std::memory_order_relaxed) == 0) model::fail("seen");
    }}};
  });
  CHECK(r.failure == "seen");
}

TEST_CASE("the search stops at its limit and says that it is not complete") {
  const model::report r = model::explore(counted, {.most_runs = 3});
  CHECK(r.runs == 3);
  CHECK_FALSE(r.complete);
}
