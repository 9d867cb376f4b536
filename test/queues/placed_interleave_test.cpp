#include <doctest/doctest.h>

#include <array>
#include <memory>
#include <vector>

#include "queues/placed_ring.hpp"
#include "test/model/model.hpp"

using namespace penstock;
using queues::placing;

namespace {

// A space of eight units; whoever is told that something is due collects, one thread at a time. One
// that finds another at it leaves it to a later poll; nothing else looks again.
struct scene {
  std::array<std::byte, 8 * placing::unit> space{};
  std::uint32_t freed = 0;
  std::uint64_t word = 0;  // the sender's
  queues::placed_tx tx;
  queues::placed_rx<thread_mode::par, model::scheduled> rx;
  std::vector<std::uint32_t> sent;  // immediates of messages of one unit
  std::array<bool, 8> read{};
  std::array<model::var<int>, 8> bytes{};  // of each unit
  model::scheduled<int> inside{0}, put_off{0};
  bool sends = false;  // a thread does

  explicit scene(std::uint32_t messages) {
    tx.open(0, 0, space.size(), &word);
    if (!rx.open(space.data(), space.size())) model::fail("no memory");
    for (std::uint32_t i = 0; i < messages; ++i) {
      const auto p = tx.find(placing::unit);
      if (!p) model::fail("no room");
      tx.take(*p, placing::unit);
      sent.push_back(p->immediate());
    }
  }
  void handle(std::uint32_t which) {
    read[which] = static_cast<int>(bytes[which]) == 0;
    if (!rx.free(sent[which], placing::unit)) return;
    if (inside.exchange(1, std::memory_order_acquire) != 0)
      return put_off.store(1, std::memory_order_release);
    if (const auto all = rx.collect()) tell(*all);
    inside.store(0, std::memory_order_release);
  }
  // Writes over what is free, as the sender would.
  void tell(std::uint32_t all) {
    if (sends)
      return model::scheduled_ref(word).store(placing::word_of(all), std::memory_order_release);
    while (freed != all) bytes[freed++] = 1;
  }
  // The sender's next message.
  void send() {
    const auto p = tx.find(placing::unit);
    if (!p) return;
    tx.take(*p, placing::unit);
    bytes[p->at] = 1;
  }
  bool never_early() const {
    for (std::uint32_t i = 0; i < (sends ? static_cast<std::uint32_t>(word) : freed); ++i)
      if (!read[i]) return false;
    return true;
  }
};

model::trial trial(const std::vector<std::vector<std::uint32_t>>& handled, std::uint32_t messages) {
  auto s = std::make_shared<scene>(messages);
  model::trial t;
  for (const auto& mine : handled)
    t.threads.push_back([s, mine] {
      for (const std::uint32_t m : mine) s->handle(m);
    });
  t.always = [s] { return s->never_early(); };
  t.finally = [s, messages] {
    if (s->put_off.load(std::memory_order_acquire) != 0 && s->rx.due())
      if (const auto all = s->rx.collect()) s->freed = *all;
    return !s->rx.due() && messages - s->freed < 2 && s->never_early();
  };
  return t;
}

}  // namespace

TEST_CASE("the sender is told of what was read, in whatever order, and never of anything else") {
  const auto r = model::search([] { return trial({{1, 2}, {0}}, 3); });
  CHECK_MESSAGE(r.ok(), r.text());
  CHECK(r.complete);
}

TEST_CASE("three threads that handle messages leave less than a quarter untold") {
  const auto r = model::sample([] { return trial({{0, 5}, {3, 1}, {4, 2, 6}}, 7); }, 1, 20'000);
  CHECK_MESSAGE(r.ok(), r.text());
}

TEST_CASE("a sender that finds room writes over nothing that a handler may still read") {
  const auto r = model::search([] {
    auto s = std::make_shared<scene>(8);
    s->sends = true;
    return model::trial{{[s] { s->handle(0), s->handle(1); }, [s] { s->send(), s->send(); }},
                        [s] { return s->never_early(); }};
  });
  CHECK_MESSAGE(r.ok(), r.text());
  CHECK(r.complete);
}
