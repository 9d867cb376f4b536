#include "lib/base/hand_over.hpp"

#include <doctest/doctest.h>

#include <memory>

#include "test/model/model.hpp"

using namespace penstock;

namespace {

struct item {
  item* next = nullptr;
  model::var<int> taken{0};
};

struct scene {
  hand_over<item, model::scheduled> pending;
  item items[3];
  void push(item& i) {
    i.taken = 0;  // the last that its owner does
    pending.push(i);
  }
  void take(bool again) {
    for (item* i = pending.take_all(); i != nullptr;) {
      item* const next = i->next;
      if (again)
        pending.push(*i);  // as a message that still finds no room
      else
        i->taken = i->taken + 1;
      i = next;
    }
  }
  bool each_once() {
    take(false);
    return items[0].taken == 1 && items[1].taken == 1 && items[2].taken == 1;
  }
};

}  // namespace

TEST_CASE("what several threads hand over is taken once, also if it is put back meanwhile") {
  const auto r = model::search([] {
    auto s = std::make_shared<scene>();
    s->pending.push(s->items[0]);
    return model::trial{{[s] { s->push(s->items[1]); }, [s] { s->push(s->items[2]); },
                         [s] { s->take(true); }, [s] { s->take(false); }},
                        nullptr,
                        [s] { return s->each_once(); }};
  });
  CHECK_MESSAGE(r.ok(), r.text());
  CHECK(r.complete);
}

TEST_CASE("what one thread hands over is taken in its order") {
  hand_over<item> pending;
  item a, b;
  CHECK(pending.take_all() == nullptr);
  pending.push(a), pending.push(b);
  item* const first = pending.take_all();
  CHECK(first == &a);
  CHECK(first->next == &b);
  CHECK(b.next == nullptr);
  CHECK(pending.take_all() == nullptr);
}
