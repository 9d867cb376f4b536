// Rings as long as their producer decides: marks, growing, shrinking, and the pages that are given
// back.
#include <doctest/doctest.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <random>
#include <thread>
#include <vector>

#include "lib/base/backoff.hpp"
#include "lib/base/page.hpp"
#include "nic/shm/ring.hpp"

using namespace penstock::nic::shm;

namespace {

constexpr ring_geometry full;

// Both ends of a ring in shared memory, whose pages can be given back.
struct ends {
  std::size_t bytes = (full.memory() + 65535) & ~std::size_t{65535};
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ring_tx tx;
  ring_rx rx;
  std::uint64_t pushed = 0, popped = 0;
  std::deque<std::uint32_t> sizes;

  explicit ends(ring_length l) : tx(ring_memory(memory, full), l), rx(ring_memory(memory, full)) {}
  ~ends() { ::munmap(memory, bytes); }
  ends(const ends&) = delete;
  ends& operator=(const ends&) = delete;

  bool push(std::uint32_t data = 0) {
    const std::uint64_t n = pushed;
    if (!tx.try_push(1, n, data, [&](std::byte* body, std::byte* to) {
          std::memcpy(body, &n, sizeof n);
          if (to != nullptr) std::memset(to, static_cast<int>(n & 0xff), data);
        }))
      return false;
    ++pushed;
    sizes.push_back(data);
    return true;
  }
  // The next message, if there is one; it must be the right one.
  bool pop() {
    while (rx.mark_hint()) REQUIRE(rx.follow());
    const auto m = rx.front();
    if (!m) return false;
    REQUIRE(m.slot->header == popped);
    REQUIRE(m.data_bytes == sizes.front());
    REQUIRE(std::count(m.data, m.data + m.data_bytes, static_cast<std::byte>(popped & 0xff)) ==
            m.data_bytes);
    rx.pop(m);
    ++popped;
    sizes.pop_front();
    return true;
  }
  // Bytes that have memory. The kernel's own pages, also where wider ones are played.
  [[nodiscard]] std::size_t resident() const {
    const std::size_t page = ::getauxval(AT_PAGESZ);
    std::vector<unsigned char> there(bytes / page);
    REQUIRE(::syscall(SYS_mincore, memory, bytes, there.data()) == 0);
    std::size_t n = 0;
    for (const unsigned char c : there) n += c & 1;
    return n * page;
  }
};

}  // namespace

TEST_CASE("a short ring holds as many messages as it has slots, lap after lap, on the same slots") {
  ends r({10, 0});
  for (int lap = 0; lap < 200; ++lap) {
    std::uint32_t n = 0;
    if (r.push())
      ++n;
    else
      (void)r.pop();  // of so few little is told before a mark
    while (n < 10 && r.push()) ++n;
    CHECK(n == 10);
    CHECK(r.tx.pushed() == r.pushed);
    while (r.pop()) {
    }
    CHECK(r.popped == r.pushed);
    CHECK(r.tx.intact());
    CHECK(r.rx.credible());
  }
  CHECK(r.resident() <= penstock::page_bytes());
}

TEST_CASE("a ring without data takes none until it is longer") {
  ends r({10, 0});
  CHECK_FALSE(r.push(100));
  REQUIRE(r.tx.lengthen({10, 4096}));
  CHECK(r.push(100));
  CHECK(r.pop());
}

TEST_CASE("what is used of a ring is used again: no page behind it is touched") {
  const auto l = ring_length::holding(20, 8192);
  ends r(l);
  std::mt19937 random(3);
  for (int i = 0; i < 20'000; ++i) {
    if (random() % 2 != 0) (void)r.push(random() % 3 == 0 ? random() % 4000 : 0);
    if (random() % 2 != 0) (void)r.pop();
  }
  CHECK(r.popped > 3000);
  CHECK(r.resident() <= l.memory());
}

TEST_CASE(
    "the longest message that fits goes through, wherever the ring stands, though little is told") {
  for (std::uint32_t shift = 0; shift < 4096; shift += 64) {
    ends r({61, 8064});
    if (shift != 0) {
      REQUIRE(r.push(shift));
      REQUIRE(r.pop());
    }
    for (int i = 0; i < 20; ++i) {
      int tries = 0;
      while (!r.push(4160) && ++tries < 3) (void)r.pop();  // a mark, if nothing else
      REQUIRE(tries < 3);
      REQUIRE(r.pop());
    }
  }
}

TEST_CASE("a ring that was made shorter gives its pages back, and grows when that has been seen") {
  ends r(ring_length::all());
  while (r.push(1000)) {
  }
  const std::size_t much = r.resident();
  CHECK(much > 40'000);
  while (r.pop()) {
  }
  const auto least = ring_length::holding(1, 0);
  REQUIRE(r.tx.shorten(least));
  CHECK_FALSE(r.tx.lengthen(ring_length::all()));  // nobody has seen the mark
  CHECK_FALSE(r.push(100));
  CHECK(r.push());
  CHECK(r.resident() == much);
  CHECK(r.tx.intact());
  CHECK(r.pop());  // follows the mark
  CHECK(r.resident() <= least.memory());
  CHECK(r.tx.intact());
  CHECK(r.rx.credible());
  REQUIRE(r.tx.lengthen(ring_length::all()));
  for (int i = 0; i < 2000; ++i) {
    CHECK(r.push(1000));
    CHECK(r.pop());
  }
}

TEST_CASE("a consumer maps the first data, and no more") {
  ends r(ring_length::all());
  map_first_data(r.rx.memory());
  CHECK(r.resident() > 0);
  CHECK(r.resident() <= 2 * std::max<std::size_t>(penstock::page_bytes(), 4096));
}

TEST_CASE("memory for the first data is taken ahead, but not again where none were pushed") {
  if (penstock::page_bytes() > 4096) return;  // the first data lie in the slots' page
  const auto least = ring_length::holding(1, 0);
  ends r(least);
  const auto taken_ahead = [&] {
    REQUIRE(r.tx.lengthen(ring_length::all()));
    const std::size_t before = r.resident();
    r.tx.ready_data();
    return r.resident() - before;
  };
  const auto shorten = [&] {
    REQUIRE(r.tx.shorten(least));
    CHECK_FALSE(r.pop());  // follows the mark
  };
  CHECK(taken_ahead() >= 4096);
  const std::size_t ready = r.resident();
  CHECK(ready < 40'000);
  CHECK(r.push(4032));
  CHECK(r.resident() == ready);
  CHECK(r.pop());
  shorten();
  CHECK(taken_ahead() >= 4096);
  CHECK(r.push());
  CHECK(r.pop());
  shorten();
  CHECK(taken_ahead() == 0);
  CHECK(r.push(4032));
  CHECK(r.pop());
  shorten();
  CHECK(taken_ahead() >= 4096);
}

TEST_CASE("rings that grow and shrink as they like lose nothing") {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    ends r(ring_length::holding(1, 0));
    std::mt19937 engine(seed);
    const auto random = [&engine] { return static_cast<std::uint32_t>(engine()); };
    for (int i = 0; i < 4000; ++i) {
      if (random() % 50 == 0) (void)r.tx.lengthen({1 + random() % 256, (random() % 65537) & ~63u});
      if (random() % 60 == 0) (void)r.tx.shorten({1 + random() % 255, (random() % 65536) & ~63u});
      for (auto n = random() % 20; n != 0; --n)
        if (!r.push(random() % 2 == 0 ? random() % 600 : 0)) break;
      for (auto n = random() % 25; n != 0; --n)
        if (!r.pop()) break;
      REQUIRE(r.tx.pushed() == r.pushed);
      REQUIRE(r.tx.intact());
      REQUIRE(r.rx.credible());
      REQUIRE(r.tx.refusals() == 0);
    }
    while (r.pop()) {
    }
    REQUIRE(r.popped == r.pushed);
    REQUIRE(r.pushed > 1000);
  }
}

TEST_CASE("what was allowed lies in one lap, and room that was found is there") {
  ends r({61, 0});
  std::mt19937 random(5);
  for (int i = 0; i < 20'000; ++i) {
    const auto wanted = static_cast<std::uint32_t>(random() % 30);
    if (random() % 2 == 0) {
      if (r.tx.has_room(wanted, 0))
        for (std::uint32_t k = 0; k < wanted; ++k) {
          r.tx.push_words(1, r.pushed++, nullptr, 0);
          r.sizes.push_back(0);
        }
    } else {
      const std::uint32_t words[2] = {1, 2};
      const std::uint32_t n = r.tx.allow(wanted);
      for (std::uint32_t k = 0; k < n; ++k) {
        REQUIRE(r.tx.push_allowed(1, r.pushed++, words, 2));
        r.sizes.push_back(0);
      }
      CHECK_FALSE(r.tx.push_allowed(1, 0, words, 2));
    }
    for (auto n = random() % 32; n != 0; --n)
      if (!r.pop()) break;
  }
  CHECK(r.popped > 100'000);
}

TEST_CASE("a mark that cannot be is followed by nobody") {
  const auto put = [](ends& r, std::uint64_t word) {
    auto* const slot = r.rx.memory().slots;
    slot->header = word;
    slot->state.store(ring_slot::filled(0, turn_mark::decode(word).length_of_slot(), op_turn));
  };
  std::mt19937_64 random(9);
  for (int i = 0; i < 2000; ++i) {
    ends r(ring_length::all());
    put(r, random());
    CHECK_FALSE(r.rx.follow());
    CHECK(r.rx.front().op == op_turn);  // to be refused as any other operation
  }
  for (const turn_mark t :
       {turn_mark{}, turn_mark{true, true, true, 0, 0}, turn_mark{true, true, true, 257, 0},
        turn_mark{true, false, true, 10, 0}, turn_mark{true, true, false, 10, 0},
        turn_mark{true, true, true, 9, 65537}}) {
    ends r(ring_length::all());
    put(r, t.encode());
    CHECK_FALSE(r.rx.follow());
  }
  ends r(ring_length::all());
  put(r, turn_mark{true, true, true, 10, 4096}.encode());
  CHECK(r.rx.follow());
}

TEST_CASE(
    "two threads pass messages while the ring grows and shrinks, and who watches sees nothing") {
  ends r(ring_length::holding(1, 0));
  constexpr std::uint64_t count = 40'000;
  std::atomic<bool> over{false};
  std::thread producer([&] {
    penstock::backoff wait(100);
    std::mt19937 engine(1);
    const auto random = [&engine] { return static_cast<std::uint32_t>(engine()); };
    for (std::uint64_t i = 0; i < count;) {
      if (random() % 256 == 0) (void)r.tx.shorten(ring_length::holding(1 + random() % 200, 0));
      if (random() % 64 == 0)
        (void)r.tx.lengthen(ring_length::holding(1 + random() % 256, random() % 30'000));
      const std::uint32_t bytes =
          i % 8 == 0 && r.tx.length().data >= 300 ? static_cast<std::uint32_t>(i % 300) : 0;
      if (r.tx.try_push(1, i, bytes, [&](std::byte* body, std::byte* data) {
            std::memcpy(body, &i, sizeof i);
            if (data != nullptr) std::memset(data, static_cast<int>(i & 0xff), bytes);
          }))
        ++i;
      else
        wait.idle();
    }
  });
  std::uint64_t unlike = 0;
  std::thread watcher([&] {
    while (!over.load()) unlike += !r.rx.credible() + !r.tx.intact() + (r.tx.refusals() != 0);
  });
  penstock::backoff wait(100);
  std::uint64_t wrong = 0;
  for (std::uint64_t i = 0; i < count;) {
    while (r.rx.mark_hint())
      if (!r.rx.follow()) ++wrong;
    const auto m = r.rx.front();
    if (!m) wait.idle();
    if (!m || m.op == op_turn) continue;  // a mark came since
    wrong += m.slot->header != i;
    if (m.data_bytes != 0) wrong += m.data[m.data_bytes - 1] != static_cast<std::byte>(i & 0xff);
    r.rx.pop(m);
    ++i;
  }
  over.store(true);
  producer.join();
  watcher.join();
  CHECK(wrong == 0);
  CHECK(unlike == 0);
  CHECK(r.tx.pushed() == count);
}
