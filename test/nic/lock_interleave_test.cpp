#include "nic/shm/lock.hpp"

#include <doctest/doctest.h>

#include <memory>

#include "test/model/model.hpp"

using namespace penstock;
using nic::shm::favouring_lock;

namespace {

bool no_fence_possible() noexcept { return false; }

template <bool (*Fence)() noexcept, std::uint32_t TooMany>
struct scene {
  favouring_lock<model::scheduled, Fence, 4, TooMany> lock;
  int inside = 0;
  model::var<int> visits{0};  // guarded by the lock

  void visit(std::uintptr_t who) {
    if (!lock.try_lock_as(who)) return;
    if (++inside != 1) model::fail("two hold the lock");
    model::scheduled<int> place{0};
    place.store(1);  // gives the others a chance to come in
    visits = visits + 1;
    --inside;
    lock.unlock();
  }
};

// Thread 16 has come alone often enough to be favoured.
template <bool (*Fence)() noexcept, std::uint32_t TooMany>
model::trial meeting() {
  auto s = std::make_shared<scene<Fence, TooMany>>();
  for (int i = 0; i < 8; ++i) s->visit(16);
  return model::trial{{[s] { s->visit(16), s->visit(16); }, [s] { s->visit(32), s->visit(32); }},
                      [s] { return s->inside <= 1; },
                      [s] { return s->inside == 0; }};
}

}  // namespace

TEST_CASE("a lock lets one thread in at a time, favoured or not") {
  const auto r = model::search(meeting<model::fence_all, 100>);
  CHECK_MESSAGE(r.ok(), r.text());
  CHECK(r.complete);
}

TEST_CASE("a lock lets one thread in at a time while the favour ends") {
  const auto r = model::search(meeting<model::fence_all, 1>);
  CHECK_MESSAGE(r.ok(), r.text());
  CHECK(r.complete);
}

TEST_CASE("where threads cannot be fenced a lock favours nobody, and lets one in at a time") {
  const auto r = model::search(meeting<no_fence_possible, 100>);
  CHECK_MESSAGE(r.ok(), r.text());
  CHECK(r.complete);
}

TEST_CASE("a lock lets one of three threads in at a time") {
  const auto r = model::sample(
      [] {
        auto s = std::make_shared<scene<model::fence_all, 2>>();
        return model::trial{{[s] {
                               for (int i = 0; i < 8; ++i) s->visit(16);
                             },
                             [s] { s->visit(32), s->visit(32), s->visit(32); },
                             [s] { s->visit(48), s->visit(48), s->visit(48); }},
                            [s] { return s->inside <= 1; },
                            [s] { return s->inside == 0; }};
      },
      1, 40'000);
  CHECK_MESSAGE(r.ok(), r.text());
}
