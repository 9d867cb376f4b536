// Copies that threads share, and rests of transfers that they hand to each other, by C++'s memory
// model: whoever finds an operation complete sees all of its bytes, and each piece is copied once,
// of the copy that it belongs to; one thread at a time has a rest, as the last one left it.
#include "lib/conduit/one_sided/handed_copies.hpp"
#include "lib/conduit/one_sided/handed_rest.hpp"

#include <doctest/doctest.h>

#include <memory>

#include "test/model/model.hpp"

using namespace penstock;
using conduit::handed_copies, conduit::handed_rest;

namespace {

constexpr std::size_t pieces = 2;
constexpr int most_looks = 30;  // a schedule may keep a thread waiting for ever

// A place of memory is an address that nobody reads: what lies there is a variable of the model.
struct scene {
  handed_copies copies{1};
  std::byte there[3 * pieces] = {}, here[3 * pieces] = {};
  model::scheduled<std::uint32_t> pending[3]{};
  model::var<int> value[3 * pieces], wanted[3 * pieces];

  void copy(std::byte* to, const std::byte* from, std::size_t bytes) {
    if (bytes != 1 || to - there != from - here) model::fail("a piece is of two copies");
    value[to - there] = value[to - there] + wanted[from - here];
  }
  bool step() {
    return copies.step([this](auto* to, auto* from, std::size_t n) { copy(to, from, n); });
  }
  // Has the numbers of `part` copied, and helps while it waits. False: it was kept waiting.
  bool carry_out(std::size_t part) {
    const std::size_t at = part * pieces;
    for (std::size_t i = at; i < at + pieces; ++i) wanted[i] = static_cast<int>(i) + 1;
    if (!copies.begin(there + at, here + at, pieces, pending[part]))
      return true;  // no place: not now
    for (int i = 0; pending[part].load(std::memory_order_acquire) != 0; ++i) {
      if (i == most_looks) return false;
      (void)step();
    }
    for (std::size_t i = at; i < at + pieces; ++i)
      if (value[i] != static_cast<int>(i) + 1) model::fail("a complete operation lacks bytes");
    return true;
  }
};

}  // namespace

TEST_CASE("who finds a copy complete that others have helped with sees all of its bytes") {
  const auto r = model::sample(
      [] {
        auto s = std::make_shared<scene>();
        const auto help = [s] {
          for (int i = 0; i < 4; ++i) (void)s->step();
        };
        return model::trial{{[s] { (void)(s->carry_out(0) && s->carry_out(1)); },
                             [s] { (void)s->carry_out(2); }, help}};
      },
      1, 10'000);
  CHECK_MESSAGE(r.ok(), r.text());
}

TEST_CASE("a copy that nobody else helps with is made by who waits for it") {
  const auto r = model::sample(
      [] {
        auto s = std::make_shared<scene>();
        return model::trial{{[s] {
          if (!s->carry_out(0)) model::fail("nobody copies");
        }}};
      },
      1, 10);
  CHECK_MESSAGE(r.ok(), r.text());
}

TEST_CASE("where all places are taken a copy is refused, and taken again once one is free") {
  scene s;
  model::scheduled<std::uint32_t> pending{0};
  int begun = 0;
  while (begun < 100 && s.copies.begin(s.there, s.here, 1, pending)) ++begun;
  REQUIRE(begun > 0);
  REQUIRE(begun < 100);
  CHECK(pending.load(std::memory_order_relaxed) == static_cast<std::uint32_t>(begun));
  CHECK(s.step());
  CHECK(s.copies.begin(s.there, s.here, 1, pending));
}

TEST_CASE("a rest goes from thread to thread as the last one left it, and ends once") {
  constexpr int steps_of_a_rest = 3;
  struct rest {
    std::shared_ptr<model::var<int>> left;
  };
  struct handing {
    handed_rest<rest> rests;
    std::shared_ptr<model::var<int>> left[2] = {std::make_shared<model::var<int>>(0),
                                                std::make_shared<model::var<int>>(0)};
    model::scheduled<int> ended{0};
    void step() {
      (void)rests.step([this](rest& r) {
        *r.left = *r.left - 1;
        if (*r.left < 0) model::fail("a rest has ended twice");
        if (*r.left == 0) ended.fetch_add(1, std::memory_order_relaxed);
        return *r.left == 0;
      });
    }
    void begin(int which) {
      *left[which] = steps_of_a_rest;
      if (!rests.begin({left[which]})) model::fail("there is no place for two");
    }
  };
  const auto r = model::sample(
      [] {
        auto s = std::make_shared<handing>();
        const auto hand = [s](int which) {
          return [s, which] {
            s->begin(which);
            for (int i = 0; i < 3; ++i) s->step();
          };
        };
        return model::trial{{hand(0), hand(1),
                             [s] {
                               for (int i = 0; i < 4; ++i) s->step();
                             }},
                            nullptr,
                            [s] {
                              while (s->ended.load(std::memory_order_relaxed) != 2) s->step();
                              return !s->rests.has_any();
                            }};
      },
      1, 10'000);
  CHECK_MESSAGE(r.ok(), r.text());
}
