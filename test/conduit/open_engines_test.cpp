// The list of engines from which counters are read: numbers, and who waits for whom.
#include "lib/conduit/report/open_engines.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <thread>

using namespace penstock::conduit;

namespace {

// The list keeps addresses, and looks at no engine.
alignas(64) std::byte memory[3][64];
const engine& engine_at(int i) { return reinterpret_cast<const engine&>(memory[i]); }

bool is_open(unsigned number, int at) {
  const engine* found = nullptr;
  return open_engine::with(number, [&](const engine& e) { found = &e; }) && found == &engine_at(at);
}
bool is_free(unsigned number) {
  return !open_engine::with(number, [](const engine&) {});
}

}  // namespace

TEST_CASE("an engine takes the lowest free number and gives it back") {
  CHECK(is_free(0));
  auto zero = std::make_unique<open_engine>(engine_at(0));
  const open_engine one(engine_at(1));
  CHECK(is_open(0, 0));
  CHECK(is_open(1, 1));
  CHECK(is_free(2));
  zero.reset();
  CHECK(is_free(0));
  CHECK(is_open(1, 1));
  const open_engine again(engine_at(2));
  CHECK(is_open(0, 2));
}

TEST_CASE("readers wait for nobody, and an engine that ends waits for its readers") {
  auto zero = std::make_unique<open_engine>(engine_at(0));
  const open_engine one(engine_at(1));
  std::atomic<bool> inside{false}, go{false}, ended{false};
  std::thread reader([&] {
    (void)open_engine::with(0, [&](const engine&) {
      inside = true;
      while (!go) std::this_thread::yield();
      CHECK_FALSE(ended);
    });
  });
  while (!inside) std::this_thread::yield();
  CHECK(is_open(1, 1));  // beside a reader that takes its time
  std::thread writer([&] {
    zero.reset();
    ended = true;
  });
  while (!is_free(0)) std::this_thread::yield();        // the engine has begun to end
  for (int i = 0; i < 1000; ++i) CHECK(is_open(1, 1));  // beside a writer that waits
  std::thread newcomer([] { CHECK(is_open(1, 1)); });   // whose first reading it is
  newcomer.join();
  CHECK_FALSE(ended);
  go = true;
  reader.join();
  writer.join();
  CHECK(ended);
}

TEST_CASE("engines come and go while threads read") {
  std::atomic<bool> over{false};
  std::thread readers[2];
  for (auto& r : readers)
    r = std::thread([&] {
      while (!over)
        for (unsigned n = 0; n < 3; ++n)
          (void)open_engine::with(n, [](const engine& e) {
            const bool known = &e == &engine_at(0) || &e == &engine_at(1) || &e == &engine_at(2);
            CHECK(known);
          });
    });
  for (int i = 0; i < 200; ++i) {
    const open_engine a(engine_at(i % 3)), b(engine_at((i + 1) % 3));
  }
  over = true;
  for (auto& r : readers) r.join();
  CHECK(is_free(0));
}
