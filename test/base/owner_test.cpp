#include "lib/base/owner.hpp"

#include <doctest/doctest.h>

#include <memory>

#include "test/model/model.hpp"

using namespace penstock;

namespace {

bool no_fence_possible() noexcept { return false; }

template <bool (*Fence)() noexcept, std::uint32_t Alone = 4>
struct scene {
  owner<thread_mode::par, model::scheduled, Fence, Alone> o;
  int inside = 0;             // how many threads believe they are the owner
  model::var<int> visits{0};  // what the owner alone touches

  void visit(std::uint32_t tag) {
    if (!o.try_enter(tag)) return;
    if (++inside != 1) model::fail("two owners at once");
    model::scheduled<int> place{0};
    place.store(1);  // gives the others a chance to come in
    visits += 1;
    --inside;
    o.leave(tag);
  }
};

// Thread 1 is alone long enough to be given the bias.
template <class Scene>
std::shared_ptr<Scene> biased_scene() {
  auto s = std::make_shared<Scene>();
  for (int i = 0; i < 12; ++i) s->visit(1);
  return s;
}

}  // namespace

TEST_CASE("an owner admits one thread at a time, whoever had it before") {
  const auto r = model::search([] {
    auto s = biased_scene<scene<model::fence_all>>();
    return model::trial{{[s] { s->visit(1), s->visit(1); }, [s] { s->visit(2), s->visit(2); }},
                        [s] { return s->inside <= 1; },
                        [s] { return s->inside == 0; }};
  });
  CHECK_MESSAGE(r.ok(), r.text());
  CHECK(r.complete);
}

TEST_CASE("a thread that was biased long ago disturbs nobody who is biased now") {
  const auto r = model::sample(
      [] {
        auto s = biased_scene<scene<model::fence_all, 1>>();
        return model::trial{{[s] { s->visit(1), s->visit(1); },
                             [s] {
                               for (int i = 0; i < 5; ++i) s->visit(2);
                             }},
                            [s] { return s->inside <= 1; },
                            [s] { return s->inside == 0; }};
      },
      1, 30'000);
  CHECK_MESSAGE(r.ok(), r.text());
}

TEST_CASE("an owner admits one of three threads at a time") {
  const auto r = model::sample(
      [] {
        auto s = biased_scene<scene<model::fence_all>>();
        return model::trial{{[s] { s->visit(1), s->visit(1), s->visit(1); },
                             [s] { s->visit(2), s->visit(2), s->visit(2); },
                             [s] { s->visit(3), s->visit(3), s->visit(3); }},
                            [s] { return s->inside <= 1; },
                            [s] { return s->inside == 0; }};
      },
      1, 20000);
  CHECK_MESSAGE(r.ok(), r.text());
}

TEST_CASE("without a fence on all threads nobody gets a bias, and one is admitted at a time") {
  const auto r = model::search([] {
    auto s = biased_scene<scene<no_fence_possible>>();
    return model::trial{{[s] { s->visit(1), s->visit(1); }, [s] { s->visit(2), s->visit(2); }},
                        [s] { return s->inside <= 1; },
                        [s] { return s->inside == 0; }};
  });
  CHECK_MESSAGE(r.ok(), r.text());
  CHECK(r.complete);
}

namespace {

// A thread that finds another inside leaves something and goes on; whoever leaves sees to it.
template <std::uint32_t Alone>
struct asking_scene : scene<model::fence_all, Alone> {
  model::scheduled<int> left{0};
  int seen = 0;

  void see(std::uint32_t tag) {
    while (true) {
      this->o.heard();
      seen += left.exchange(0);
      if (!this->o.asked()) return;  // as one that takes all there is
      if (!this->o.try_enter_or_ask(tag)) return;
      this->o.leave(tag);
    }
  }
  void visit_and_see(std::uint32_t tag) {
    this->visit(tag);
    if (this->o.asked()) see(tag);
  }
  void leave_something(std::uint32_t tag) {
    if (this->o.try_enter(tag)) {
      ++seen;
      this->o.leave(tag);
      if (this->o.asked()) see(tag);
      return;
    }
    left.fetch_add(1);
    if (this->o.try_enter_or_ask(tag)) {
      this->o.leave(tag);
      see(tag);
    }
  }
};

}  // namespace

TEST_CASE("what is left for the thread inside is seen to when it leaves") {
  const auto r = model::search([] {
    auto s = biased_scene<asking_scene<4>>();
    return model::trial{
        {[s] { s->visit_and_see(1), s->visit_and_see(1); }, [s] { s->leave_something(2); }},
        [s] { return s->inside <= 1; },
        [s] { return s->seen == 1; }};
  });
  CHECK_MESSAGE(r.ok(), r.text());
  CHECK(r.complete);
}

TEST_CASE("what two threads leave for a third is seen to, whichever of them looked in vain") {
  const auto r = model::sample(
      [] {
        auto s = biased_scene<asking_scene<4>>();
        return model::trial{{[s] { s->visit_and_see(1), s->visit_and_see(1); },
                             [s] { s->leave_something(2); }, [s] { s->leave_something(3); }},
                            [s] { return s->inside <= 1; },
                            [s] { return s->seen == 2; }};
      },
      1, 60'000);
  CHECK_MESSAGE(r.ok(), r.text());
}
