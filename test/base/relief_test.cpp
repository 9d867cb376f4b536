#include "lib/base/relief.hpp"

#include <doctest/doctest.h>

#include <memory>

#include "lib/base/owner.hpp"
#include "test/model/model.hpp"

using namespace penstock;

namespace {

// Threads take messages inside an owner. Each runs a function for its message, in which others may
// take its place, and take the next message.
template <std::uint32_t Alone>
struct scene {
  using end = owner<thread_mode::par, model::scheduled, model::fence_all, Alone>;
  end o;
  relief<thread_mode::par, model::scheduled, model::fence_all> places[4];
  int inside = 0;   // threads that touch what the owner protects
  int waiting = 0;  // messages that nobody has taken
  int begun = 0, ended = 0, relieved = 0;
  model::var<int> visits{0};  // what the owner protects

  void touch() {
    if (++inside != 1) model::fail("two threads inside at once");
    model::scheduled<int> place{0};
    place.store(1);  // gives the others a chance to come in
    visits += 1;
    --inside;
  }
  // Inside: takes messages until none is left, or another thread has come in its place.
  void take(std::uint32_t tag) {
    while (waiting != 0) {
      touch();
      --waiting, ++begun;
      places[tag].lend(&o);
      model::scheduled<int> function{0};
      function.store(1);
      const bool back = places[tag].back();
      if (back) {
        touch();
        places[tag].lend(&o);  // as after a reply
        function.store(2);
        if (places[tag].back()) {
          touch();
          ++ended;
          continue;
        }
      }
      o.give_bias_up(tag);
      places[tag].outside();
      ++relieved, ++ended;
      return;
    }
    o.leave(tag);
  }
  void poll(std::uint32_t tag) {
    if (o.try_enter(tag) || o.try_relieve(tag, [&](std::uint32_t who, auto&& before) {
          return places[who].try_take(&o, before);
        }))
      take(tag);
  }
};

// Thread 1 has been alone long enough to have the bias, or not.
template <std::uint32_t Alone>
std::shared_ptr<scene<Alone>> scene_of(int messages, bool biased) {
  auto s = std::make_shared<scene<Alone>>();
  for (int i = 0; biased && i < 12; ++i) s->poll(1);
  s->waiting = messages;
  return s;
}

template <std::uint32_t Alone>
model::trial two_threads(int messages, bool biased) {
  auto s = scene_of<Alone>(messages, biased);
  return model::trial{{[s] { s->poll(1), s->poll(1); }, [s] { s->poll(2), s->poll(2); }},
                      [s] { return s->inside <= 1; },
                      [s] {
                        s->poll(3);  // the owner is free, and takes what is left
                        return s->inside == 0 && s->waiting == 0 && s->ended == s->begun;
                      }};
}

template <std::uint32_t Alone>
model::trial three_threads(int messages, bool biased) {
  auto s = scene_of<Alone>(messages, biased);
  return model::trial{{[s] { s->poll(1), s->poll(1), s->poll(1); }, [s] { s->poll(2), s->poll(2); },
                       [s] { s->poll(3), s->poll(3); }},
                      [s] { return s->inside <= 1; },
                      [s] {
                        s->poll(1);
                        return s->inside == 0 && s->waiting == 0 && s->ended == s->begun;
                      }};
}

}  // namespace

TEST_CASE("a thread that takes another's place inside is alone there, and so is who comes later") {
  for (const bool biased : {true, false}) {
    const auto r = model::sample([&] { return two_threads<4>(3, biased); }, 1, 30'000);
    CHECK_MESSAGE(r.ok(), r.text());
  }
}

TEST_CASE("places are taken from threads that have taken them, whichever way the first came in") {
  for (const bool biased : {true, false}) {
    const auto often = model::sample([&] { return three_threads<1>(5, biased); }, 1, 30'000);
    CHECK_MESSAGE(often.ok(), often.text());
    const auto seldom = model::sample([&] { return three_threads<4>(5, biased); }, 1, 30'000);
    CHECK_MESSAGE(seldom.ok(), seldom.text());
  }
}

TEST_CASE("a function that is running is relieved, and the thread that ran it finds out") {
  bool once = false;
  const auto r = model::sample(
      [&] {
        auto s = scene_of<4>(2, true);
        return model::trial{{[s] { s->poll(1); }, [s] { s->poll(2); }},
                            [s] { return s->inside <= 1; },
                            [s, &once] {
                              once |= s->relieved != 0;
                              return true;
                            }};
      },
      1, 2000);
  CHECK_MESSAGE(r.ok(), r.text());
  CHECK(once);
}
