// Arenas: pieces never overlap, never cross blocks, and growth is counted and limited.
#include "memreg/arena.hpp"

#include <doctest/doctest.h>
#include <sys/mman.h>

#include <algorithm>
#include <thread>

#include "memreg/host_memory.hpp"
#include "test/memreg/fake_registrar.hpp"

using namespace penstock;
using namespace penstock::memreg;

TEST_CASE("pieces are disjoint, aligned, and each is covered by one registration") {
  fake_registrar device;
  arena_options o;
  o.block_bytes = 16 * page_bytes();
  arena a(&device, o);
  std::vector<piece> all;
  for (std::size_t i = 1; i < 60; ++i) {
    const std::size_t align = std::size_t{1} << (i % 13);
    auto p = a.take(i * 997, align);
    REQUIRE(p);
    CHECK(reinterpret_cast<std::uintptr_t>(p->base) % align == 0);
    CHECK(device.covers(p->keys.lkey, p->base, p->bytes));
    all.push_back(*p);
  }
  std::sort(all.begin(), all.end(), [](auto& x, auto& y) { return x.base < y.base; });
  for (std::size_t i = 1; i < all.size(); ++i)
    CHECK(all[i - 1].base + all[i - 1].bytes <= all[i].base);
  CHECK(device.live_bytes() == a.bytes());
}

TEST_CASE("a piece larger than a block gets a block of its own") {
  fake_registrar device;
  arena_options o;
  o.block_bytes = page_bytes();
  arena a(&device, o);
  auto p = a.take(10 * page_bytes());
  REQUIRE(p);
  CHECK(device.covers(p->keys.lkey, p->base, 10 * page_bytes()));
}

TEST_CASE("the same bytes are seen through the piece's descriptor and offset") {
  arena a(nullptr);
  REQUIRE(a.take(100));
  auto p = a.take(4096, 4096);
  REQUIRE(p);
  const std::size_t bytes = p->offset + p->bytes;
  void* const there = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, p->fd, 0);
  REQUIRE(there != MAP_FAILED);
  p->base[77] = std::byte{9};
  CHECK(static_cast<std::byte*>(there)[p->offset + 77] == std::byte{9});
  munmap(there, bytes);
}

TEST_CASE("an arena refuses to grow beyond its limit and goes on serving what fits") {
  fake_registrar device;
  arena_options o;
  o.block_bytes = 4 * page_bytes();
  o.max_bytes = 4 * page_bytes();
  arena a(&device, o);
  REQUIRE(a.take(page_bytes()));
  CHECK(!a.take(4 * page_bytes()));
  CHECK(a.take(page_bytes()));
}

TEST_CASE("an arena whose device refuses says so and holds nothing") {
  fake_registrar device;
  device.refuse = true;
  arena a(&device);
  CHECK(!a.take(64));
  CHECK(a.bytes() == 0);
}

TEST_CASE("impossible requests are refused") {
  arena a(nullptr);
  CHECK(!a.take(0));
  CHECK(!a.take(64, 3));
  CHECK(!a.take(64, 2 * page_bytes()));
}

TEST_CASE("threads that take at once get disjoint pieces") {
  arena_options o;
  o.block_bytes = 8 * page_bytes();
  arena a(nullptr, o);
  std::vector<piece> got[4];
  std::vector<std::thread> threads;
  for (auto& mine : got)
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i)
        if (auto p = a.take(512)) mine.push_back(*p);
    });
  for (auto& t : threads) t.join();
  std::vector<std::byte*> bases;
  for (auto& mine : got)
    for (auto& p : mine) bases.push_back(p.base);
  CHECK(bases.size() == 400);
  std::sort(bases.begin(), bases.end());
  for (std::size_t i = 1; i < bases.size(); ++i) CHECK(bases[i] - bases[i - 1] >= 512);
}
