// The single-producer ring: order, room, wrapping, and impossible values from the other side.
#include <doctest/doctest.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "lib/base/backoff.hpp"
#include "lib/base/clock.hpp"
#include "nic/shm/ring.hpp"

using namespace penstock::nic::shm;

namespace {

struct both_ends {
  ring_geometry geometry;
  std::unique_ptr<void, decltype(&std::free)> memory;
  ring_tx tx;
  ring_rx rx;
  explicit both_ends(ring_geometry g)
      : geometry(g),
        memory(std::aligned_alloc(64, (g.memory() + 63) & ~std::size_t{63}), &std::free) {
    std::memset(memory.get(), 0, g.memory());
    tx = ring_tx(ring_memory(memory.get(), g));
    rx = ring_rx(ring_memory(memory.get(), g));
  }
  bool push(std::uint64_t header, std::uint32_t data = 0) {
    return tx.try_push(1, header, data, [&](std::byte* body, std::byte* to) {
      std::memcpy(body, &header, sizeof header);
      if (to != nullptr) std::memset(to, static_cast<int>(header & 0xff), data);
    });
  }
};

}  // namespace

TEST_CASE("a ring takes as many messages as it has slots, then says that it is full") {
  both_ends r({8, 1024});
  for (std::uint64_t i = 0; i < 8; ++i) CHECK(r.push(i));
  CHECK_FALSE(r.push(8));
  CHECK(r.tx.pushed() == 8);
  auto m = r.rx.front();
  REQUIRE(m);
  CHECK(m.slot->header == 0);
  r.rx.pop(m);
  CHECK(r.push(8));
  CHECK_FALSE(r.push(9));
}

TEST_CASE("an empty ring has nothing to offer, also after many laps") {
  both_ends r({8, 1024});
  for (std::uint64_t i = 0; i < 1000; ++i) {
    CHECK_FALSE(r.rx.front());
    REQUIRE(r.push(i));
    auto m = r.rx.front();
    REQUIRE(m);
    CHECK(m.slot->header == i);
    r.rx.pop(m);
  }
  CHECK_FALSE(r.rx.front());
}

TEST_CASE("data of every length lies whole in the data ring, wherever it wraps") {
  both_ends r({16, 1024});
  std::mt19937 random(7);
  std::vector<std::pair<std::uint64_t, std::uint32_t>> in;
  std::uint64_t next = 0;
  std::size_t taken = 0;
  while (taken < 5000) {
    const std::uint32_t n = random() % 513;
    if (r.push(next, n)) in.emplace_back(next++, n);
    if (random() % 2 != 0 && taken < in.size()) {
      auto m = r.rx.front();
      REQUIRE(m);
      REQUIRE(m.slot->header == in[taken].first);
      REQUIRE(m.data_bytes == in[taken].second);
      for (std::uint32_t i = 0; i < m.data_bytes; ++i)
        REQUIRE(m.data[i] == static_cast<std::byte>(in[taken].first & 0xff));
      r.rx.pop(m);
      ++taken;
    }
  }
}

TEST_CASE("the longest piece always fits an empty ring, wherever the ring stands") {
  both_ends r({16, 1024});
  for (std::uint32_t shift = 1; shift < 512; shift += 37) {
    REQUIRE(r.push(1, shift));
    auto m = r.rx.front();
    REQUIRE(m);
    r.rx.pop(m);
    r.rx.publish();
    REQUIRE(r.push(2, r.geometry.longest()));
    m = r.rx.front();
    REQUIRE(m);
    CHECK(m.data + m.data_bytes <= static_cast<std::byte*>(r.memory.get()) + r.geometry.memory());
    r.rx.pop(m);
    r.rx.publish();
  }
}

TEST_CASE("words lie in the slot's body, however many") {
  both_ends r({8, 1024});
  const std::uint32_t words[12] = {11, 22, 33, 44, 55, 66, 77, 88, 99, 110, 121, 132};
  for (unsigned n = 0; n <= 12; ++n) {
    r.tx.push_words(1, 100 + n, words, n);
    const auto m = r.rx.front_of(1, 0);
    REQUIRE(m);
    CHECK(m.slot->header == 100 + n);
    CHECK(std::memcmp(m.slot->body, words, 4 * n) == 0);
    r.rx.pop(m);
  }
}

TEST_CASE("the front is given as what it is alone") {
  both_ends r({8, 1024});
  CHECK_FALSE(r.rx.front_of(1, 0));
  for (int lap = 0; lap < 50; ++lap) {
    REQUIRE(r.push(7, 100));
    CHECK_FALSE(r.rx.front_of(1, 0));
    CHECK_FALSE(r.rx.front_of(1, 99));
    CHECK_FALSE(r.rx.front_of(2, 100));
    const auto m = r.rx.front_of(1, 100);
    REQUIRE(m);
    CHECK(m.data == r.rx.front().data);
    CHECK(m.data[99] == std::byte{7});
    r.rx.pop(m);
    CHECK_FALSE(r.rx.front_of(1, 100));
  }
}

TEST_CASE("no piece is longer than half the data ring, whatever the other side says") {
  both_ends r({8, 1024});
  REQUIRE(r.push(1));
  const std::uint32_t said = r.geometry.longest() + 1;
  const_cast<ring_slot*>(r.rx.front().slot)->state.store(ring_slot::filled(0, said, 1));
  CHECK_FALSE(r.rx.front_of(1, said));
  CHECK(r.rx.front().op == 255);
}

TEST_CASE("a position is passed when the consumer has said so") {
  both_ends r({64, 1024});
  REQUIRE(r.push(1));
  const std::uint64_t at = r.tx.pushed();
  CHECK_FALSE(r.tx.passed(at));
  auto m = r.rx.front();
  r.rx.pop(m);
  CHECK_FALSE(r.tx.passed(at));  // popped, not yet told
  r.rx.publish();
  CHECK(r.tx.passed(at));
}

TEST_CASE("a length that cannot be is marked as rubbish and yields no data") {
  both_ends r({8, 1024});
  REQUIRE(r.push(1));
  auto* slot =
      reinterpret_cast<ring_slot*>(static_cast<std::byte*>(r.memory.get()) + sizeof(ring_shared));
  slot->state.fetch_or(0xffffffffull << 32, std::memory_order_relaxed);
  auto m = r.rx.front();
  REQUIRE(m);
  CHECK(m.op == 255);
  CHECK(m.data == nullptr);
  CHECK(m.data_bytes == 0);
}

TEST_CASE("positions that cannot be make the ring look full at worst") {
  both_ends r({8, 1024});
  auto* shared = static_cast<ring_shared*>(r.memory.get());
  std::mt19937_64 random(11);
  int pushed = 0;
  for (int i = 0; i < 1000; ++i) {
    shared->head.store(random());
    shared->data_head.store(random());
    pushed += r.push(1, 100);
  }
  CHECK(pushed <= 8);
}

TEST_CASE("counters that somebody has written over are found, refused and put right") {
  both_ends r({8, 1024});
  for (std::uint64_t i = 0; i < 20; ++i) {
    REQUIRE(r.push(i, 100));
    r.rx.pop(r.rx.front());
  }
  CHECK_FALSE(r.rx.miscounted());
  CHECK_FALSE(r.rx.mend());
  auto* shared = static_cast<ring_shared*>(r.memory.get());
  for (std::atomic<std::uint64_t>* counter : {&shared->head, &shared->data_head}) {
    const std::uint64_t right = counter->load();
    for (const std::uint64_t wrong : {std::uint64_t{0}, right + 100'000, right - 1, ~right}) {
      counter->store(wrong);
      CHECK(r.rx.miscounted());
      const std::uint32_t before = r.tx.refusals();
      CHECK_FALSE(r.tx.has_room(9, 0));                         // looks at the counters
      CHECK((r.tx.refusals() > before || wrong == right - 1));  // that one could be true
      CHECK(r.rx.mend());
      CHECK(counter->load() == right);
      CHECK_FALSE(r.rx.miscounted());
    }
  }
  CHECK(r.push(20, 100));
}

TEST_CASE("slot states that somebody has written over are found") {
  for (const std::uint64_t taken : {0u, 3u, 8u, 21u})
    for (std::uint64_t waiting = 0; waiting <= 8; ++waiting)
      for (std::uint64_t at = 0; at < waiting; ++at) {
        both_ends r({8, 1024});
        for (std::uint64_t i = 0; i < taken; ++i) {
          REQUIRE(r.push(i));
          r.rx.pop(r.rx.front());
        }
        for (std::uint64_t i = 0; i < waiting; ++i) REQUIRE(r.push(taken + i));
        CHECK(r.rx.credible());
        CHECK(r.tx.intact());
        auto& state = r.tx.memory().slots[(taken + at) % 8].state;
        const std::uint64_t now = state.load();
        state.store(now ^ 0x5000);
        const bool oldest_of_full = waiting == 8 && at == 0;
        CHECK((!r.tx.intact() || oldest_of_full));
        CHECK(r.rx.credible() == (at != 0));
        // Empty again, as it was a lap ago.
        state.store(taken + at < 8 ? 0 : now - 8);
        CHECK((!r.tx.intact() || oldest_of_full || taken + at == 0));
        CHECK(r.rx.credible() == (at != 0 || waiting == 1));
      }
}

TEST_CASE("who watches a ring in use sees nothing wrong") {
  both_ends r({16, 4096});
  // Where three threads do not have a core each, or share them with other programs, a slice of the
  // scheduler's goes by for each sixteen messages: then it ends after ten seconds.
  constexpr std::uint64_t count = 200'000;
  const std::uint64_t until = penstock::now_ns() + 10'000'000'000;
  std::atomic<bool> over{false};
  std::thread producer([&] {
    penstock::backoff wait(100);
    for (std::uint64_t i = 0; i < count && !over.load();)
      if (r.push(i, i % 8 == 0 ? static_cast<std::uint32_t>(i % 300) : 0))
        ++i;
      else
        wait.idle();
  });
  std::uint64_t wrong = 0;
  std::thread watcher([&] {
    while (!over.load()) wrong += !r.rx.credible() + !r.tx.intact() + (r.tx.refusals() != 0);
  });
  penstock::backoff wait(100);
  for (std::uint64_t i = 0; i < count && penstock::now_ns() < until;)
    if (auto m = r.rx.front()) {
      r.rx.pop(m);
      ++i;
    } else {
      wait.idle();
    }
  over.store(true);
  producer.join();
  watcher.join();
  CHECK(wrong == 0);
}

TEST_CASE("two threads pass a million messages in order") {
  both_ends r({256, 64 * 1024});
  constexpr std::uint64_t count = 1'000'000;
  std::thread producer([&] {
    penstock::backoff wait(100);
    for (std::uint64_t i = 0; i < count;)
      if (r.push(i, i % 8 == 0 ? static_cast<std::uint32_t>(i % 300) : 0))
        ++i;
      else
        wait.idle();
  });
  penstock::backoff wait(100);
  std::uint64_t wrong = 0;
  for (std::uint64_t i = 0; i < count;) {
    auto m = r.rx.front();
    if (!m) {
      wait.idle();
      continue;
    }
    std::uint64_t body;
    std::memcpy(&body, m.slot->body, sizeof body);
    wrong += m.slot->header != i || body != i;
    if (m.data_bytes != 0) wrong += m.data[m.data_bytes - 1] != static_cast<std::byte>(i & 0xff);
    r.rx.pop(m);
    ++i;
  }
  producer.join();
  CHECK(wrong == 0);
}
