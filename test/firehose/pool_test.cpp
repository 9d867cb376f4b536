// The local pool over a device that only hands out keys: which memory is registered, when, and how
// much.
#include "firehose/pool.hpp"

#include <doctest/doctest.h>
#include <sys/mman.h>

#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "memreg/host_memory.hpp"
#include "test/memreg/fake_registrar.hpp"

using namespace penstock;
using namespace penstock::firehose;

namespace {

constexpr std::size_t page = 4096;

// Refuses write access to one range, as a device does for read-only memory.
class picky_registrar : public memreg::fake_registrar {
 public:
  result<memreg::registration> reg(void* addr, std::size_t bytes, unsigned bits) override {
    const auto a = reinterpret_cast<std::uintptr_t>(addr);
    if ((bits & memreg::access::local_write) != 0 && a < read_only_end && read_only < a + bytes)
      return failure{"fake registration", EFAULT, ""};
    if (a < hole_end && hole < a + bytes) return failure{"fake registration", EFAULT, ""};
    return memreg::fake_registrar::reg(addr, bytes, bits);
  }
  std::uintptr_t read_only = 0, read_only_end = 0, hole = 0, hole_end = 0;
};

// Address space to register; nothing is ever accessed there.
struct space {
  explicit space(std::size_t bytes) : bytes_(bytes + (1 << 20)) {
    room_ = mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    base = reinterpret_cast<std::byte*>(
        memreg::round_up(reinterpret_cast<std::uintptr_t>(room_), 1 << 20));
  }
  ~space() { munmap(room_, bytes_); }
  std::byte* base;
  void* room_;
  std::size_t bytes_;
};

// Tests of bookkeeping keep everything: what may be kept is the stale tests' matter.
std::unique_ptr<pool> make(memreg::registrar& device, pool_settings s = {}) {
  s.protect = protection::none;
  auto p = pool::create(device, s);
  REQUIRE(p);
  return std::move(*p);
}

}  // namespace

TEST_CASE("a buffer is registered at its first use, whole pages, and found at the second") {
  memreg::fake_registrar device;
  const space m(1 << 20);
  auto p = make(device);
  lease a, b;
  CHECK_FALSE(p->try_hit(m.base + 100, 50, purpose::source, a));
  REQUIRE(p->acquire(m.base + 100, 50, purpose::source, a) == status::ok);
  CHECK(a.bytes() == 50);
  CHECK(device.covers(a.lkey(), m.base, page));
  CHECK(device.live_bytes() == page);
  REQUIRE(p->try_hit(m.base + 4000, 96, purpose::destination, b));
  CHECK(b.lkey() == a.lkey());
  CHECK(b.rkey() == a.rkey());
  const pool_statistics s = p->statistics();
  CHECK(s.hits == 1);
  CHECK(s.misses == 1);
  CHECK(s.bytes_pinned == page);
}

TEST_CASE("a lease ends at the window of the maximum region size") {
  memreg::fake_registrar device;
  const space m(1 << 20);
  pool_settings s;
  s.max_region_bytes = 64 << 10;
  auto p = make(device, s);
  lease a;
  REQUIRE(p->acquire(m.base + 1000, 200'000, purpose::source, a) == status::ok);
  CHECK(a.bytes() == (64 << 10) - 1000);
  std::size_t done = a.bytes(), pieces = 1;
  while (done < 200'000) {
    REQUIRE(p->acquire(m.base + 1000 + done, 200'000 - done, purpose::source, a) == status::ok);
    REQUIRE(a.bytes() > 0);
    CHECK(device.covers(a.lkey(), m.base + 1000 + done, a.bytes()));
    done += a.bytes();
    ++pieces;
  }
  CHECK(pieces == 4);
  CHECK(done == 200'000);
}

TEST_CASE("a maximum region size that is no power of two is rounded down") {
  memreg::fake_registrar device;
  pool_settings s;
  s.max_region_bytes = 100'000;
  CHECK(make(device, s)->settings().max_region_bytes == 65536);
}

TEST_CASE("the limit of bytes follows from regions and their size unless it is set") {
  memreg::fake_registrar device;
  CHECK(make(device)->settings().max_bytes == std::uint64_t{1024} * (128 << 10));
}

TEST_CASE("neighbours grow together into one region, and the old ones go when they are returned") {
  memreg::fake_registrar device;
  const space m(1 << 20);
  auto p = make(device);
  lease a, b, c;
  REQUIRE(p->acquire(m.base, page, purpose::source, a) == status::ok);
  REQUIRE(p->acquire(m.base + page, page, purpose::source, b) == status::ok);
  CHECK(device.live().size() == 2);
  CHECK(device.covers(b.lkey(), m.base, 2 * page));
  REQUIRE(p->try_hit(m.base, 2 * page, purpose::source, c));
  CHECK(c.bytes() == 2 * page);
  p->reap();
  CHECK(device.covers(a.lkey(), m.base, page));  // still leased
  a.reset();
  p->reap();
  CHECK(device.live().size() == 1);
  CHECK(p->statistics().merges == 1);
}

TEST_CASE("regions that do not touch stay apart") {
  memreg::fake_registrar device;
  const space m(1 << 20);
  auto p = make(device);
  lease a, b;
  REQUIRE(p->acquire(m.base, page, purpose::source, a) == status::ok);
  REQUIRE(p->acquire(m.base + 3 * page, page, purpose::source, b) == status::ok);
  CHECK(device.live_bytes() == 2 * page);
  CHECK_FALSE(p->try_hit(m.base + page, 1, purpose::source, a));
}

TEST_CASE("a working set that fits is registered once") {
  memreg::fake_registrar device;
  const space m(64 << 20);
  pool_settings s;
  s.max_regions = 64;
  auto p = make(device, s);
  for (int round = 0; round < 10; ++round)
    for (std::size_t i = 0; i < 64; ++i) {
      lease l;
      REQUIRE(p->acquire(m.base + i * (256 << 10), 5000, purpose::source, l) == status::ok);
    }
  CHECK(device.registered == 64);
  CHECK(p->statistics().evictions == 0);
  CHECK(p->statistics().hits == 9 * 64);
}

TEST_CASE("the limit of regions holds, and idle regions make room") {
  memreg::fake_registrar device;
  const space m(64 << 20);
  pool_settings s;
  s.max_regions = 8;
  auto p = make(device, s);
  for (std::size_t i = 0; i < 100; ++i) {
    lease l;
    REQUIRE(p->acquire(m.base + i * (256 << 10), 100, purpose::source, l) == status::ok);
    CHECK(device.live().size() <= 8);
  }
  CHECK(p->statistics().evictions >= 92);
  CHECK(device.wrong == 0);
}

TEST_CASE("the limit of bytes holds") {
  memreg::fake_registrar device;
  const space m(64 << 20);
  pool_settings s;
  s.max_bytes = 512 << 10;
  auto p = make(device, s);
  for (std::size_t i = 0; i < 100; ++i) {
    lease l;
    REQUIRE(p->acquire(m.base + i * (128 << 10), 100'000, purpose::source, l) == status::ok);
    CHECK(device.live_bytes() <= 512 << 10);
  }
}

TEST_CASE("what is used stays when something must go") {
  memreg::fake_registrar device;
  const space m(64 << 20);
  pool_settings s;
  s.max_regions = 16;
  auto p = make(device, s);
  const auto touch = [&](std::size_t i) {
    lease l;
    REQUIRE(p->acquire(m.base + i * (256 << 10), 100, purpose::source, l) == status::ok);
    return l.lkey();
  };
  const auto hot = touch(0);
  for (std::size_t i = 1; i < 200; ++i) {
    CHECK(touch(0) == hot);
    touch(i);
  }
}

TEST_CASE("leased regions never go: when all are leased the answer is no_ticket") {
  memreg::fake_registrar device;
  const space m(64 << 20);
  pool_settings s;
  s.max_regions = 4;
  auto p = make(device, s);
  lease held[4], more;
  for (std::size_t i = 0; i < 4; ++i)
    REQUIRE(p->acquire(m.base + i * (256 << 10), 100, purpose::source, held[i]) == status::ok);
  CHECK(p->acquire(m.base + 5 * (256 << 10), 100, purpose::source, more) == status::no_ticket);
  CHECK(device.live().size() == 4);
  held[2].reset();
  CHECK(p->acquire(m.base + 5 * (256 << 10), 100, purpose::source, more) == status::ok);
  for (std::size_t i : {0u, 1u, 3u})
    CHECK(device.covers(held[i].lkey(), m.base + i * (256 << 10), 100));
}

TEST_CASE("a lease may be returned by another thread") {
  memreg::fake_registrar device;
  const space m(1 << 20);
  auto p = make(device);
  for (int i = 0; i < 20; ++i) {
    lease l;
    REQUIRE(p->acquire(m.base, 100, purpose::source, l) == status::ok);
    std::thread([moved = std::move(l)]() mutable { moved.reset(); }).join();
  }
  CHECK(p->drop_idle() == 1);
  CHECK(device.live().empty());
}

TEST_CASE("read-only memory serves as a source and is refused as a destination") {
  picky_registrar device;
  const space m(1 << 20);
  device.read_only = reinterpret_cast<std::uintptr_t>(m.base);
  device.read_only_end = device.read_only + 16 * page;
  auto p = make(device);
  lease a, b;
  REQUIRE(p->acquire(m.base + 10, 100, purpose::source, a) == status::ok);
  CHECK(device.live().at(a.lkey()).access_bits == memreg::access::local_read);
  CHECK(p->try_hit(m.base + 10, 100, purpose::source, b));
  CHECK_FALSE(p->try_hit(m.base + 10, 100, purpose::destination, b));
  failure why;
  CHECK(p->acquire(m.base + 10, 100, purpose::destination, b, &why) == status::device_error);
  CHECK(why.code == EFAULT);
}

TEST_CASE("memory that became writable is registered again for writing") {
  picky_registrar device;
  const space m(1 << 20);
  device.read_only = reinterpret_cast<std::uintptr_t>(m.base);
  device.read_only_end = device.read_only + page;
  auto p = make(device);
  lease a, b, c;
  REQUIRE(p->acquire(m.base, 100, purpose::source, a) == status::ok);
  device.read_only_end = device.read_only;
  REQUIRE(p->acquire(m.base, 100, purpose::destination, b) == status::ok);
  CHECK(a.lkey() != b.lkey());
  REQUIRE(p->try_hit(m.base, 100, purpose::source, c));
  CHECK(c.lkey() == b.lkey());
}

TEST_CASE("a neighbour that cannot be registered any more does not stand in the way") {
  picky_registrar device;
  const space m(1 << 20);
  auto p = make(device);
  {
    lease a;
    REQUIRE(p->acquire(m.base, page, purpose::source, a) == status::ok);
  }
  device.hole = reinterpret_cast<std::uintptr_t>(m.base);
  device.hole_end = device.hole + page;
  lease b;
  REQUIRE(p->acquire(m.base + page, page, purpose::source, b) == status::ok);
  CHECK(device.live().at(b.lkey()).bytes == page);
  CHECK(p->statistics().bytes_pinned == 2 * page);
}

TEST_CASE("a device out of memory gets idle regions back before the caller is refused") {
  struct limited : memreg::fake_registrar {
    result<memreg::registration> reg(void* a, std::size_t n, unsigned bits) override {
      if (live().size() >= 3) return failure{"fake registration", ENOMEM, "raise ulimit -l"};
      return memreg::fake_registrar::reg(a, n, bits);
    }
  } device;
  const space m(64 << 20);
  auto p = make(device);
  for (std::size_t i = 0; i < 10; ++i) {
    lease l;
    CHECK(p->acquire(m.base + i * (256 << 10), 100, purpose::source, l) == status::ok);
  }
  lease held[3], more;
  for (std::size_t i = 0; i < 3; ++i)
    REQUIRE(p->acquire(m.base + i * (256 << 10), 100, purpose::source, held[i]) == status::ok);
  failure why;
  CHECK(p->acquire(m.base + (4 << 20), 100, purpose::source, more, &why) == status::device_error);
  CHECK(why.hint == "raise ulimit -l");
}

TEST_CASE("no bytes are refused, and the end of the address space is no trouble") {
  memreg::fake_registrar device;
  const space m(1 << 20);
  auto p = make(device);
  lease l;
  CHECK(p->acquire(m.base, 0, purpose::source, l) == status::bad_arguments);
  REQUIRE(p->acquire(m.base, SIZE_MAX, purpose::source, l) == status::ok);
  CHECK(l.bytes() == 128 << 10);
}

TEST_CASE("the pool goes with all its registrations") {
  memreg::fake_registrar device;
  const space m(64 << 20);
  {
    auto p = make(device);
    for (std::size_t i = 0; i < 50; ++i) {
      lease l;
      REQUIRE(p->acquire(m.base + i * 50'000, 30'000, purpose::source, l) == status::ok);
    }
  }
  CHECK(device.live().empty());
  CHECK(device.wrong == 0);
}

TEST_CASE("a reported change makes what overlaps it miss, and nothing else") {
  memreg::fake_registrar device;
  const space m(4 << 20);
  pool_settings s;
  s.protect =
      protection::events;  // whether or not the kernel has them: watched() is not asked here
  auto made = pool::create(device, s);
  REQUIRE(made);
  pool& p = **made;
  if (std::string(p.protection_text()) != "kernel events") return;
  lease l;
  REQUIRE(p.acquire(m.base, page, purpose::source, l) == status::ok);
  REQUIRE(p.acquire(m.base + (1 << 20), page, purpose::source, l) == status::ok);
  l.reset();
  { const changes::scope c(m.base + 100, 10); }
  CHECK_FALSE(p.try_hit(m.base, 1, purpose::source, l));
  CHECK(p.try_hit(m.base + (1 << 20), 1, purpose::source, l));
  { const changes::scope c(nullptr, SIZE_MAX); }
  CHECK_FALSE(p.try_hit(m.base + (1 << 20), 1, purpose::source, l));
  CHECK(p.statistics().invalidations == 2);
}

TEST_CASE("while a change is in progress what overlaps it is registered for one use only") {
  memreg::fake_registrar device;
  const space m(4 << 20);
  auto p = make(device);
  lease l;
  {
    const changes::scope c(m.base, page);
    REQUIRE(p->acquire(m.base, page, purpose::source, l) == status::ok);
    CHECK_FALSE(p->try_hit(m.base, 1, purpose::source, l));
  }
  l.reset();
  REQUIRE(p->acquire(m.base, page, purpose::source, l) == status::ok);
  CHECK(p->try_hit(m.base, 1, purpose::source, l));
}

TEST_CASE("a change during a registration makes it good for its maker only") {
  struct changing : memreg::fake_registrar {
    result<memreg::registration> reg(void* a, std::size_t n, unsigned bits) override {
      auto r = memreg::fake_registrar::reg(a, n, bits);
      if (change) changes::scope c(a, n);
      return r;
    }
    bool change = true;
  } device;
  const space m(1 << 20);
  pool_settings s;
  s.protect = protection::events;
  auto p = pool::create(device, s);
  REQUIRE(p);
  if (std::string((*p)->protection_text()) != "kernel events") return;
  lease a, b;
  REQUIRE((*p)->acquire(m.base, page, purpose::source, a) == status::ok);
  CHECK_FALSE((*p)->try_hit(m.base, 1, purpose::source, b));
  device.change = false;
  REQUIRE((*p)->acquire(m.base, page, purpose::source, b) == status::ok);
  CHECK((*p)->try_hit(m.base, 1, purpose::source, b));
}

TEST_CASE("threads that miss the same buffer at once register it once") {
  struct slow : memreg::fake_registrar {
    result<memreg::registration> reg(void* a, std::size_t n, unsigned bits) override {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      return memreg::fake_registrar::reg(a, n, bits);
    }
  } device;
  const space m(1 << 20);
  auto p = make(device);
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      lease l;
      if (p->acquire(m.base, 100, purpose::source, l) == status::ok)
        good.fetch_add(1, std::memory_order_relaxed);
    });
  for (auto& t : threads) t.join();
  CHECK(good.load(std::memory_order_relaxed) == 4);
  CHECK(device.registered == 1);
}

TEST_CASE("whatever threads do at once, a lease's key covers its bytes for as long as it is held") {
  memreg::fake_registrar device;
  const space m(64 << 20);
  pool_settings s;
  s.max_regions = 24;
  s.max_region_bytes = 32 << 10;
  auto p = make(device, s);
  std::atomic<int> bad{0};
  std::atomic<std::uint64_t> got{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      struct held {
        lease l;
        std::byte* at = nullptr;
      } mine[3];
      std::mt19937 random(t + 1);
      for (int i = 0; i < 20'000; ++i) {
        held& h = mine[random() % 3];
        if (h.l && !device.covers(h.l.lkey(), h.at, h.l.bytes()))
          bad.fetch_add(1, std::memory_order_relaxed);
        h.l.reset();
        h.at = m.base + random() % (1 << 20);
        const std::size_t n = 1 + random() % 50'000;
        const status st = p->acquire(h.at, n, static_cast<purpose>(random() % 2), h.l);
        if (st == status::no_ticket) continue;
        got.fetch_add(1, std::memory_order_relaxed);
        if (st != status::ok || h.l.bytes() == 0 || h.l.bytes() > n ||
            !device.covers(h.l.lkey(), h.at, h.l.bytes()))
          bad.fetch_add(1, std::memory_order_relaxed);
        if (random() % 64 == 0) changes::scope c(m.base + random() % (1 << 20), 8192);
      }
    });
  for (auto& t : threads) t.join();
  CHECK(bad.load(std::memory_order_relaxed) == 0);
  CHECK(got.load(std::memory_order_relaxed) > 10'000);
  CHECK(device.wrong == 0);
  p->drop_idle();
  CHECK(device.live().empty());
  CHECK(p->statistics().bytes_pinned == 0);
}
