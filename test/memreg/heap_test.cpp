// The registered heap: every block lies inside one live registration, containers work over it, and
// no registration is left behind.
#include "memreg/heap.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "test/memreg/fake_registrar.hpp"

using namespace penstock;
using namespace penstock::memreg;

namespace {
std::unique_ptr<heap> make(registrar& device, std::size_t max_bytes = std::size_t{256} << 20) {
  heap_options o;
  o.max_bytes = max_bytes;
  auto h = heap::create(device, o);
  REQUIRE_MESSAGE(h.has_value(), (h ? "" : h.error().message()));
  return std::move(*h);
}
}  // namespace

TEST_CASE("every block of the heap is covered by the registration that keys_of names") {
  fake_registrar device;
  auto h = make(device);
  std::mt19937 random(1);
  std::vector<std::pair<char*, std::size_t>> live;
  for (int i = 0; i < 2000; ++i) {
    const std::size_t n = std::size_t{1} << (random() % 20) | random() % 100;
    auto* p = static_cast<char*>(h->allocate(n, std::size_t{1} << (random() % 13)));
    REQUIRE(p != nullptr);
    REQUIRE(h->contains(p));
    REQUIRE(device.covers(h->keys_of(p).lkey, p, n));
    std::memset(p, i & 0xff, n);
    live.emplace_back(p, n);
    if (live.size() > 100) {
      const std::size_t victim = random() % live.size();
      h->deallocate(live[victim].first);
      live[victim] = live.back();
      live.pop_back();
    }
  }
  for (auto& [p, n] : live) h->deallocate(p);
}

TEST_CASE("a block larger than a chunk lies in one registration") {
  fake_registrar device;
  auto h = make(device);
  constexpr std::size_t n = std::size_t{19} << 20;
  void* p = h->allocate(n);
  REQUIRE(p != nullptr);
  CHECK(device.covers(h->keys_of(p).lkey, p, n));
  h->deallocate(p);
}

TEST_CASE("freed memory is used again without another registration") {
  fake_registrar device;
  auto h = make(device);
  for (int i = 0; i < 50; ++i) {
    void* p = h->allocate(std::size_t{3} << 20);
    REQUIRE(p != nullptr);
    h->deallocate(p);
  }
  CHECK(h->registered_bytes() <= std::size_t{16} << 20);
}

TEST_CASE("the heap goes with all its registrations") {
  fake_registrar device;
  {
    auto h = make(device);
    h->deallocate(h->allocate(100));
    CHECK(device.registered > 0);
  }
  CHECK(device.live().empty());
  CHECK(device.wrong == 0);
  CHECK(device.declared == 0);
}

TEST_CASE("a full heap answers null and says why") {
  fake_registrar device;
  auto h = make(device, std::size_t{16} << 20);
  CHECK(h->allocate(std::size_t{64} << 20) == nullptr);
  CHECK(h->last_failure().what.find("full") != std::string::npos);
  void* small = h->allocate(100);
  CHECK(small != nullptr);
  h->deallocate(small);
}

TEST_CASE("a device that refuses makes the heap answer null, and it recovers") {
  fake_registrar device;
  auto h = make(device);
  device.refuse = true;
  CHECK(h->allocate(std::size_t{32} << 20) == nullptr);
  CHECK(h->last_failure().code != 0);
  device.refuse = false;
  void* p = h->allocate(std::size_t{32} << 20);
  CHECK(p != nullptr);
  h->deallocate(p);
}

TEST_CASE("containers live in registered memory") {
  fake_registrar device;
  auto h = make(device);
  {
    std::vector<int, registered_allocator<int>> v(registered_allocator<int>{*h});
    for (int i = 0; i < 100'000; ++i) v.push_back(i);
    CHECK(device.covers(h->keys_of(v.data()).lkey, v.data(), v.size() * sizeof(int)));
    using entry = std::pair<const int, int>;
    std::map<int, int, std::less<>, registered_allocator<entry>> m(
        (registered_allocator<entry>(*h)));
    for (int i = 0; i < 1000; ++i) m[i] = i;
    for (auto& e : m) CHECK(h->contains(&e));
  }
}

TEST_CASE("threads allocate and free across each other") {
  fake_registrar device;
  auto h = make(device);
  std::vector<std::thread> threads;
  std::atomic<int> bad{0};
  for (unsigned t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      std::vector<std::pair<unsigned char*, std::size_t>> live;
      for (int i = 0; i < 3000; ++i) {
        const std::size_t n = 1 + random() % 20'000;
        auto* p = static_cast<unsigned char*>(h->allocate(n));
        if (p == nullptr) {
          bad.fetch_add(1, std::memory_order_relaxed);
          continue;
        }
        std::memset(p, static_cast<int>(t), n);
        live.emplace_back(p, n);
        if (live.size() > 20) {
          auto [q, m] = live.front();
          if (q[0] != t || q[m - 1] != t) bad.fetch_add(1, std::memory_order_relaxed);
          h->deallocate(q);
          live.erase(live.begin());
        }
      }
      for (auto& [p, n] : live) h->deallocate(p);
    });
  for (auto& t : threads) t.join();
  CHECK(bad.load(std::memory_order_relaxed) == 0);
}

TEST_CASE(
    "each of two heaps gives out blocks of its own, whatever a thread has freed of the other") {
  fake_registrar device;
  auto one = make(device), two = make(device);
  for (int i = 0; i < 1000; ++i)
    for (heap* h : {one.get(), two.get()}) {
      void* const p = h->allocate(64);
      REQUIRE(h->contains(p));
      h->deallocate(p);
    }
}

TEST_CASE("threads that end leave what they have freed to those that follow") {
  fake_registrar device;
  auto h = make(device, std::size_t{64} << 20);
  for (int i = 0; i < 200; ++i)
    std::thread([&h] {
      std::vector<void*> all;
      for (int k = 0; k < 100; ++k) all.push_back(h->allocate(8192));
      for (void* p : all) h->deallocate(p);
    }).join();
  CHECK(h->registered_bytes() <= std::size_t{16} << 20);
}

TEST_CASE("a thread goes on while heaps that it has used come and go") {
  fake_registrar device;
  for (int i = 0; i < 20; ++i) {
    std::vector<std::unique_ptr<heap>> heaps;
    for (int k = 0; k < 6; ++k) heaps.push_back(make(device, std::size_t{16} << 20));  // > 4 caches
    for (auto& h : heaps) {
      void* const p = h->allocate(100);
      REQUIRE(h->contains(p));
      void* const q = h->allocate(100);
      REQUIRE(q != p);
      h->deallocate(p);
      h->deallocate(q);
    }
  }
  CHECK(device.live().empty());
}

TEST_CASE("chunks that are no power of two are refused") {
  fake_registrar device;
  heap_options o;
  o.chunk_bytes = 3 << 20;
  CHECK(!heap::create(device, o));
}
