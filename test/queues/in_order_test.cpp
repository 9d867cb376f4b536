#include "queues/in_order.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <vector>

#include "test/model/model.hpp"

using namespace penstock;

namespace {

struct scene {
  queues::in_order<thread_mode::par, model::scheduled> count;
  std::uint64_t finished = 0;
  int inside = 0;

  void report(std::uint64_t number) {
    count.report(number, [this](std::uint64_t i) {
      if (++inside != 1) model::fail("two threads finish at once");
      if (i != finished + 1) model::fail("out of order, or twice");
      model::scheduled<int> place{0};
      place.store(1);  // gives the others a chance to come in
      finished = i;
      --inside;
    });
  }
  // A poster would take the room of a number that is done.
  bool never_early() const { return count.done() <= finished; }
};

// Each thread reports its numbers; whatever the order, all are finished at the end.
model::trial trial(const std::vector<std::vector<std::uint64_t>>& numbers, std::uint64_t last) {
  auto s = std::make_shared<scene>();
  model::trial t;
  for (const auto& mine : numbers)
    t.threads.push_back([s, mine] {
      for (const std::uint64_t n : mine) s->report(n);
    });
  t.always = [s] { return s->never_early(); };
  t.finally = [s, last] { return s->finished == last && s->count.done() == last; };
  return t;
}

}  // namespace

TEST_CASE("two threads' reports are finished once, in order, and none is left behind") {
  const auto r = model::search([] { return trial({{1, 3}, {2}}, 3); });
  CHECK_MESSAGE(r.ok(), r.text());
  CHECK(r.complete);
}

TEST_CASE("a later report may come first, and covers those before it") {
  const auto r = model::search([] { return trial({{2}, {1, 3}}, 3); });
  CHECK_MESSAGE(r.ok(), r.text());
  CHECK(r.complete);
}

TEST_CASE("three threads' reports are finished once, in order, and none is left behind") {
  const auto r = model::sample([] { return trial({{1, 5}, {2, 6}, {4}}, 6); }, 1, 20'000);
  CHECK_MESSAGE(r.ok(), r.text());
}

TEST_CASE(
    "who finishes a number sees what its reporter did, and who finds it done what finish did") {
  const auto r = model::sample(
      [] {
        struct known {
          queues::in_order<thread_mode::par, model::scheduled> count;
          model::var<int> work[4], result[4];

          // Number 2 covers number 1, whose reporter may come later: of that work nothing is known.
          void report(std::uint64_t number) {
            work[number] = static_cast<int>(number);
            count.report(number, [this](std::uint64_t i) {
              if (i == 2 && work[2] != 2) model::fail("not its work");
              result[i] = static_cast<int>(10 * i);
            });
          }
          void look() {
            for (std::uint64_t i = 1, done = count.done(); i <= done; ++i)
              if (result[i] != static_cast<int>(10 * i)) model::fail("not its result");
          }
        };
        auto s = std::make_shared<known>();
        return model::trial{
            {[s] { s->report(2); }, [s] { s->report(1); }, [s] { s->look(), s->look(); }}};
      },
      1, 20'000);
  CHECK_MESSAGE(r.ok(), r.text());
}
