// The memory model itself: for each of the textbook's small programs, whether the outcome that
// C++20 allows is found, and the one that it forbids is not. The names are those of the literature.
#include <doctest/doctest.h>

#include <memory>

#include "test/model/model.hpp"

namespace model = penstock::model;

namespace {

constexpr auto rlx = std::memory_order_relaxed;
constexpr auto acq = std::memory_order_acquire;
constexpr auto rel = std::memory_order_release;
constexpr auto both = std::memory_order_acq_rel;
constexpr auto sc = std::memory_order_seq_cst;
constexpr std::memory_order none{};

struct words {
  model::scheduled<int> x{0}, y{0};
  model::var<int> data{0};
  int r[4] = {};
};
using shared = std::shared_ptr<words>;
using thread = void (*)(words&);

// Whether an execution of these threads ends so.
bool possible(std::vector<thread> threads, bool (*outcome)(const words&),
              std::vector<int> processes = {}) {
  const auto make = [&] {
    auto w = std::make_shared<words>();
    model::trial t;
    for (const thread f : threads) t.threads.push_back([w, f] { f(*w); });
    t.finally = [w, outcome] { return !outcome(*w); };
    t.processes = processes;
    return t;
  };
  const auto all = model::explore(make, {.old = 4});
  CHECK((all.complete || !all.ok()));
  const auto some = model::sample(make, 1, 20'000);
  CHECK_MESSAGE(all.ok() == some.ok(), "the searches differ: " << all.text() << some.text());
  return !all.ok();
}

bool stale(const words& w) { return w.r[0] == 1 && w.r[1] == 0; }
bool both_stale(const words& w) { return w.r[0] == 0 && w.r[1] == 0; }
void fence(words&) { model::fence_all(); }

template <std::memory_order S, std::memory_order F = none>
void publish(words& w) {
  w.x.store(1, rlx);
  if constexpr (F != none) model::thread_fence(F);
  w.y.store(1, S);
}
template <std::memory_order L, std::memory_order F = none>
void look(words& w) {
  w.r[0] = w.y.load(L);
  if constexpr (F != none) model::thread_fence(F);
  w.r[1] = w.x.load(rlx);
}
template <std::memory_order O, std::memory_order F = none>
void store_x_load_y(words& w) {
  w.x.store(1, O);
  if constexpr (F != none) model::thread_fence(F);
  w.r[0] = w.y.load(O);
}
template <std::memory_order O, std::memory_order F = none>
void store_y_load_x(words& w) {
  w.y.store(1, O);
  if constexpr (F != none) model::thread_fence(F);
  w.r[1] = w.x.load(O);
}

}  // namespace

TEST_CASE("MP: a message is passed by release and acquire, or by fences, and by nothing less") {
  CHECK(possible({publish<rlx>, look<rlx>}, stale));
  CHECK(possible({publish<rel>, look<rlx>}, stale));
  CHECK(possible({publish<rlx>, look<acq>}, stale));
  CHECK_FALSE(possible({publish<rel>, look<acq>}, stale));
  CHECK_FALSE(possible({publish<rlx, rel>, look<rlx, acq>}, stale));
  CHECK_FALSE(possible({publish<rel>, look<rlx, acq>}, stale));
  CHECK_FALSE(possible({publish<rlx, rel>, look<acq>}, stale));
}

TEST_CASE("SB: two that store and look at each other both miss only without seq_cst") {
  CHECK(possible({store_x_load_y<rlx>, store_y_load_x<rlx>}, both_stale));
  CHECK(possible({store_x_load_y<sc>, store_y_load_x<rlx>}, both_stale));
  CHECK(possible({store_x_load_y<rlx, sc>, store_y_load_x<rlx>}, both_stale));
  CHECK_FALSE(possible({store_x_load_y<sc>, store_y_load_x<sc>}, both_stale));
  CHECK_FALSE(possible({store_x_load_y<rlx, sc>, store_y_load_x<rlx, sc>}, both_stale));
}

TEST_CASE("SB: a fence on all threads by one serves both, but not one in another process") {
  const thread with_fence = [](words& w) {
    w.y.store(1, rlx);
    fence(w);
    w.r[1] = w.x.load(rlx);
  };
  CHECK_FALSE(possible({store_x_load_y<rlx>, with_fence}, both_stale));
  CHECK(possible({store_x_load_y<rlx>, with_fence}, both_stale, {0, 1}));
}

TEST_CASE("IRIW: two observers see two stores in one order only by seq_cst") {
  const auto differ = [](const words& w) {
    return w.r[0] == 1 && w.r[1] == 0 && w.r[2] == 1 && w.r[3] == 0;
  };
  const auto by = [&]<std::memory_order S, std::memory_order L>() {
    return possible({[](words& w) { w.x.store(1, S); }, [](words& w) { w.y.store(1, S); },
                     [](words& w) { w.r[0] = w.x.load(L), w.r[1] = w.y.load(L); },
                     [](words& w) { w.r[2] = w.y.load(L), w.r[3] = w.x.load(L); }},
                    differ);
  };
  CHECK(by.operator()<rel, acq>());
  CHECK_FALSE(by.operator()<sc, sc>());
}

TEST_CASE("CoRR: a thread does not see a word go back, and a store comes behind what it has seen") {
  CHECK_FALSE(possible({[](words& w) { w.x.store(1, rlx); },
                        [](words& w) { w.r[0] = w.x.load(rlx), w.r[1] = w.x.load(rlx); }},
                       stale));
}

TEST_CASE("2+2W: two words that two threads write may end with the first store of each") {
  CHECK(possible({[](words& w) { w.x.store(1, rlx), w.y.store(2, rlx); },
                  [](words& w) { w.y.store(1, rlx), w.x.store(2, rlx); }},
                 [](const words& w) { return w.x.load() == 1 && w.y.load() == 1; }));
  CHECK_FALSE(possible({[](words& w) { w.x.store(1, sc), w.y.store(2, sc); },
                        [](words& w) { w.y.store(1, sc), w.x.store(2, sc); }},
                       [](const words& w) { return w.x.load() == 1 && w.y.load() == 1; }));
}

TEST_CASE(
    "a release sequence goes on through RMWs, and ends with a store, also of the same thread") {
  const auto seen = [](const words& w) { return w.r[0] == 2 && w.r[1] == 0; };
  const thread add = [](words& w) {
    int one = 1;
    w.y.compare_exchange_strong(one, 2, rlx, rlx);
  };
  CHECK_FALSE(possible({publish<rel>, add, look<acq>}, seen));
  CHECK(possible({[](words& w) { publish<rel>(w), w.y.store(2, rlx); }, look<acq>}, seen));
}

TEST_CASE("of two RMWs each reads what the other has not read") {
  const thread add = [](words& w) { w.x.fetch_add(1, rlx); };
  CHECK_FALSE(possible({add, add, add}, [](const words& w) { return w.x.load() != 3; }));
  CHECK_FALSE(possible({[](words& w) { w.r[0] = w.x.exchange(1, both); },
                        [](words& w) { w.r[1] = w.x.exchange(1, both); }},
                       both_stale));
}

TEST_CASE("plain data that a message hands over race when the message does not order them") {
  const auto races = [](thread one, thread other) {
    return !model::explore(
                [=] {
                  auto w = std::make_shared<words>();
                  return model::trial{{[=] { one(*w); }, [=] { other(*w); }}};
                },
                {.old = 3})
                .ok();
  };
  const thread write = [](words& w) { w.data = 1, w.x.store(1, rel); };
  CHECK_FALSE(races(write, [](words& w) { w.x.load(acq) == 1 ? w.r[0] = w.data : 0; }));
  CHECK(races(write, [](words& w) { w.x.load(rlx) == 1 ? w.r[0] = w.data : 0; }));
  CHECK(races([](words& w) { w.data = 1, w.x.store(1, rlx); },
              [](words& w) { w.x.load(acq) == 1 ? w.r[0] = w.data : 0; }));
  CHECK(races([](words& w) { w.x.store(1, rel), w.data = 1; },
              [](words& w) { w.x.load(acq) == 1 ? w.r[0] = w.data : 0; }));
  CHECK_FALSE(races([](words& w) { w.r[0] = w.data; }, [](words& w) { w.r[1] = w.data; }));
  CHECK(races([](words& w) { w.r[0] = w.data; }, [](words& w) { w.data = 1; }));
}

TEST_CASE("words in raw memory are the same words by atomic_ref; forgotten ones begin anew") {
  const auto r = model::explore(
      [] {
        auto raw = std::make_shared<std::array<std::uint64_t, 2>>();
        const auto at = [raw](unsigned i) { return model::scheduled_ref((*raw)[i]); };
        return model::trial{{[=] { at(0).store(1, rlx), at(1).store(1, rel); },
                             [=] {
                               if (at(1).load(acq) == 1 && at(0).load(rlx) == 0)
                                 model::fail("stale");
                             }}};
      },
      {.old = 3});
  CHECK_MESSAGE(r.ok(), r.text());
  const auto again = model::explore(
      [] {
        auto w = std::make_shared<words>();
        return model::trial{{[w] {
          w->x.store(1, rlx);
          *w->x.at() = 0;  // as new pages
          model::forget(w->x.at(), sizeof(int));
          if (w->x.load(rlx) != 0) model::fail("old pages");
        }}};
      },
      {.old = 3});
  CHECK_MESSAGE(again.ok(), again.text());
}

TEST_CASE("a plain store to a word of others fails the run") {
  const auto r = model::explore([] {
    auto w = std::make_shared<words>();
    return model::trial{{[w] {
      w->x.store(1, rlx);
      *w->x.at() = 2;
      w->x.load(rlx);
    }}};
  });
  CHECK_FALSE(r.ok());
}

TEST_CASE("a run that fails says what each thread read and wrote") {
  const auto r = model::sample(
      [] {
        auto w = std::make_shared<words>();
        return model::trial{{[w] { publish<rlx>(*w); }, [w] { look<rlx>(*w); }}, nullptr, [w] {
                              return !stale(*w);
                            }};
      },
      1, 10'000);
  REQUIRE_FALSE(r.ok());
  CHECK(r.trace.find("thread 1  load") != std::string::npos);
  CHECK(r.trace.find("1 behind the newest") != std::string::npos);
}
