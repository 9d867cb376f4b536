#include "lib/base/leave_behind.hpp"

#include <doctest/doctest.h>

#include <memory>

#include "lib/base/hand_over.hpp"
#include "lib/base/owner.hpp"
#include "test/model/model.hpp"

using namespace penstock;

namespace {

struct item {
  item* next = nullptr;
  int seen = 0;
  bool again = false;  // it is put off when it is seen first
};

// An end of a queue: threads that find it held leave an item to the thread inside.
struct scene {
  owner<thread_mode::par, model::scheduled, model::fence_all> o;
  hand_over<item, model::scheduled> left;
  item items[2];
  int inside = 0;  // how many threads believe that they are inside

  scene() {
    for (int i = 0; i < 12; ++i) visit(1);  // thread 1 gets the bias
  }
  void be_inside() {
    if (++inside != 1) model::fail("two owners at once");
    model::scheduled<int> place{0};
    place.store(1);  // gives the others a chance to come in
    --inside;
  }
  void see(item& i) {
    be_inside();
    if (i.again) {
      i.again = false;
      left.push(i);
    } else {
      ++i.seen;
    }
  }
  void see_to(std::uint32_t tag) {
    see_to_left(o, left, tag, [this](item& i) { see(i); });
  }
  void leave(std::uint32_t tag) {
    o.leave(tag);
    if (o.asked()) see_to(tag);
  }
  void visit(std::uint32_t tag) {
    if (!o.try_enter(tag)) return;
    be_inside();
    leave(tag);
  }
  void send(std::uint32_t tag, item& i) {
    if (o.try_enter(tag)) {
      see(i);
      leave(tag);
    } else {
      leave_behind(o, left, i, tag, [this](item& x) { see(x); });
    }
  }
  // What a poll does where something was put off.
  void poll(std::uint32_t tag) {
    if (left.any() && !o.asked()) see_to(tag);
  }
  bool each_once() { return items[0].seen == 1 && items[1].seen == 1 && !left.any(); }
};

}  // namespace

TEST_CASE("what is left for a thread that is inside is seen to once, when it leaves") {
  const auto r = model::sample(
      [] {
        auto s = std::make_shared<scene>();
        s->items[1].seen = 1;
        return model::trial{{[s] { s->visit(1), s->visit(1); }, [s] { s->send(2, s->items[0]); }},
                            [s] { return s->inside <= 1; },
                            [s] { return s->each_once(); }};
      },
      1, 30'000);
  CHECK_MESSAGE(r.ok(), r.text());
}

TEST_CASE("what two threads leave while a third comes and goes is seen to once") {
  const auto r = model::sample(
      [] {
        auto s = std::make_shared<scene>();
        return model::trial{{[s] { s->visit(1), s->visit(1); }, [s] { s->send(2, s->items[0]); },
                             [s] { s->send(3, s->items[1]); }},
                            [s] { return s->inside <= 1; },
                            [s] { return s->each_once(); }};
      },
      1, 60'000);
  CHECK_MESSAGE(r.ok(), r.text());
}

TEST_CASE("what is put off is seen to by polls, and not twice") {
  const auto r = model::sample(
      [] {
        auto s = std::make_shared<scene>();
        s->items[0].again = true;
        return model::trial{{[s] { s->visit(1), s->poll(1); }, [s] { s->send(2, s->items[0]); },
                             [s] { s->send(3, s->items[1]), s->poll(3); }},
                            [s] { return s->inside <= 1; },
                            [s] {
                              if (s->items[0].seen > 1 || s->items[1].seen > 1) return false;
                              s->poll(1);  // the next poll, whenever it comes
                              return s->each_once();
                            }};
      },
      1, 60'000);
  CHECK_MESSAGE(r.ok(), r.text());
}
