// A ring's three threads, by C++'s memory model: one produces, one consumes in another process, and
// one of the producer's process watches. The ring has a few slots, so that laps are short.
#include <doctest/doctest.h>

#include <cstring>
#include <memory>

#include "nic/shm/ring.hpp"
#include "test/model/model.hpp"

using namespace penstock;
using namespace penstock::nic::shm;

namespace {

constexpr ring_geometry small{4, 512};

struct ring {
  alignas(4096) std::byte memory[2 * 4096] = {};
  ring_tx tx{ring_memory(memory, small)};
  ring_rx rx{ring_memory(memory, small)};
  std::uint64_t pushed = 0, popped = 0;
  bool only_data = false;  // two messages fill the data, and the slots are never short

  // Each third message has data, or each.
  bool push() {
    const std::uint32_t bytes = only_data ? 192 : pushed % 3 == 2 ? 64 : 0;
    const bool done = tx.try_push(1, pushed, bytes, [&](std::byte* body, std::byte* data) {
      model::plain(body, true);
      std::memcpy(body, &pushed, sizeof pushed);
      if (data == nullptr) return;
      model::plain(data, true);
      std::memcpy(data, &pushed, sizeof pushed);
    });
    pushed += done ? 1 : 0;
    return done;
  }
  // What the engine looks by: at any message, at one of a known size, or at one without data.
  enum class look { any, known, plain } by = look::any;
  ring_rx::message front() {
    const ring_slot* slot;
    switch (by) {
      case look::any:
        return rx.front();
      case look::known:
        return rx.front_of(1, popped % 3 == 2 ? 64 : 0);
      case look::plain:
        if (rx.peek(1, slot) != ring_rx::sight::plain) return rx.front_of(1, 64);
        return {slot, 0, 1, nullptr};
    }
    return {};
  }
  void pop() {
    const auto m = front();
    if (!m || m.op == op_turn) return;
    std::uint64_t body = 0, data = popped;
    model::plain(m.slot->body, false);
    std::memcpy(&body, m.slot->body, sizeof body);
    if (m.data != nullptr) {
      model::plain(m.data, false);
      std::memcpy(&data, m.data, sizeof data);
    }
    if (body != popped || data != popped || m.slot->header != popped)
      model::fail("another message came than the next one");
    ++popped;
    rx.pop(m);
  }
  void watch() {
    if (!tx.intact()) model::fail("the producer's look finds slots that are not as written");
  }
  void watch_consumer() {
    if (!rx.credible()) model::fail("the consumer's look finds a slot that cannot be");
    (void)rx.mend();  // to what the consumer is about to write
  }
  /// Two messages a lap, then a mark.
  void turn_after_two() { tx = ring_tx(ring_memory(memory, small), ring_length{2, 512}); }
  void follow() {
    const ring_slot* slot;
    if (rx.peek(1, slot) == ring_rx::sight::mark && !rx.follow()) model::fail("no such mark");
  }
  void follow_hint() {
    if (rx.mark_hint() && !rx.follow()) model::fail("no such mark, behind a hint");
  }
  bool told_no_more_than_taken() const { return rx.memory().shared->head.load() <= popped; }
};

std::shared_ptr<ring> used(int messages, bool only_data = false) {
  auto r = std::make_shared<ring>();
  r->only_data = only_data;
  for (int i = 0; i < messages; ++i) r->push(), r->pop();
  return r;
}

template <class F>
auto times(int n, F f) {
  return [n, f] {
    for (int i = 0; i < n; ++i) f();
  };
}

void check(const model::trial_maker& make, std::uint64_t runs) {
  const auto r = model::sample(make, 1, runs);
  CHECK_MESSAGE(r.ok(), r.text());
}

}  // namespace

TEST_CASE("messages come in order, with their header, body and data, over several laps") {
  for (const int before : {0, 3})
    check(
        [=] {
          auto r = used(before);
          return model::trial{{times(7, [r] { r->push(); }), times(9, [r] { r->pop(); })},
                              nullptr,
                              [r] { return r->popped <= r->pushed; },
                              {0, 1}};
        },
        10'000);
}

TEST_CASE(
    "a message is whole by whichever look it is found, and none is counted before it is there") {
  for (const auto by : {ring::look::known, ring::look::plain})
    check(
        [=] {
          auto r = used(0);
          r->by = by;
          return model::trial{{times(4, [r] { r->push(); }), times(5, [r] { r->pop(); }),
                               times(2,
                                     [r] {
                                       if (r->tx.pushed() > 4) model::fail("more than were pushed");
                                     })},
                              nullptr,
                              [r] { return r->tx.pushed() == r->pushed; },
                              {0, 1, 0}};
        },
        5'000);
}

TEST_CASE("who watches a healthy ring finds its slots as written, however late its stores are") {
  struct start {
    int used, waiting;  // messages that were taken, and that are there
  };
  // From the last one slots of the next lap are seen that the watcher cannot count yet.
  for (const start at : {start{0, 0}, start{3, 0}, start{0, 3}})
    check(
        [=] {
          auto r = used(at.used);
          for (int i = 0; i < at.waiting; ++i) r->push();
          return model::trial{{times(4, [r] { r->push(); }), times(4, [r] { r->pop(); }),
                               times(2, [r] { r->watch(); })},
                              nullptr,
                              nullptr,
                              {0, 1, 0}};
        },
        20'000);
}

TEST_CASE(
    "who watches a healthy ring's consumer finds its counters and its next slot as they are") {
  for (const int before : {0, 3})
    check(
        [=] {
          auto r = used(before);
          return model::trial{{times(5, [r] { r->push(); }), times(5, [r] { r->pop(); }),
                               times(2, [r] { r->watch_consumer(); })},
                              [r] { return r->told_no_more_than_taken(); },
                              [r] { return r->rx.publish(), r->tx.passed(r->popped); },
                              {0, 1, 1}};
        },
        20'000);
}

TEST_CASE("data are written over only after they were read, where they alone are short") {
  for (const int before : {0, 3})
    check(
        [=] {
          auto r = used(before, true);
          return model::trial{{times(6, [r] { r->push(); }), times(7, [r] { r->pop(); })},
                              nullptr,
                              [r] { return r->popped <= r->pushed; },
                              {0, 1}};
        },
        10'000);
}

TEST_CASE("who watches a healthy ring's consumer puts no counter back") {
  for (const int before : {0, 3})
    check(
        [=] {
          auto r = used(before, true);
          return model::trial{{times(5, [r] { r->push(); }), times(5, [r] { r->pop(); }),
                               times(2, [r] { r->watch_consumer(); })},
                              nullptr,
                              [r] { return r->tx.refusals() == 0; },
                              {0, 1, 1}};
        },
        10'000);
}

TEST_CASE("a ring that turns counts no message before it is there") {
  check(
      [] {
        auto r = std::make_shared<ring>();
        r->turn_after_two();
        // For a moment the places that a mark skips count, too.
        const auto count = [r] {
          if (r->tx.pushed() > 6 + small.slots) model::fail("more than were pushed");
        };
        return model::trial{{times(6, [r] { r->push(); }), times(8, [r] { r->follow(), r->pop(); }),
                             times(4, count)},
                            nullptr,
                            [r] { return r->tx.pushed() == r->pushed; },
                            {0, 1, 0}};
      },
      10'000);
}

TEST_CASE("behind a hint of a mark stands the mark") {
  check(
      [] {
        auto r = std::make_shared<ring>();
        r->turn_after_two();
        return model::trial{
            {times(5, [r] { r->push(); }), times(8, [r] { r->follow_hint(), r->pop(); })},
            nullptr,
            [r] { return r->popped <= r->pushed; },
            {0, 1}};
      },
      10'000);
}

TEST_CASE("who finds an answer finds, too, that its question was taken") {
  check(
      [] {
        struct talk {
          ring there, back;
        };
        auto t = std::make_shared<talk>();
        t->there.push();
        return model::trial{{[t] {
                               if (t->back.rx.ready() && !t->there.tx.passed(1))
                                 model::fail("an answer to what nobody has taken");
                             },
                             [t] { t->there.pop(), t->back.push(); }},
                            nullptr,
                            nullptr,
                            {0, 1}};
      },
      2'000);
}
