// No stale registration: every way in which the memory behind an address can be replaced, once with
// each protection that promises to notice, and once without, where the same transfer must go wrong.
#include <dlfcn.h>
#include <doctest/doctest.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <thread>

#include "firehose/interpose.hpp"
#include "firehose/kernel_events.hpp"
#include "firehose/pool.hpp"
#include "test/firehose/splice_device.hpp"

using namespace penstock;
using namespace penstock::firehose;

namespace {

constexpr std::size_t page = 4096;

struct rig {
  explicit rig(protection how) {
    offer_interposing();
    pool_settings s;
    s.protect = how;
    s.max_regions = 32;
    auto made = pool::create(device, s);
    REQUIRE(made);
    cache = std::move(*made);
  }

  // Fills [at, at+n) with fresh bytes and sends them: true if the device read what was written.
  bool transfer(void* at, std::size_t n) {
    auto* p = static_cast<unsigned char*>(at);
    ++seed;
    for (std::size_t i = 0; i < n; ++i) p[i] = static_cast<unsigned char>(seed * 31 + i);
    return sends(at, n);
  }
  // Sends [at, at+n) as it is.
  bool sends(const void* at, std::size_t n) {
    const auto* p = static_cast<const unsigned char*>(at);
    while (n > 0) {
      lease l;
      if (cache->acquire(p, n, purpose::source, l) != status::ok) return false;
      std::vector<unsigned char> got(l.bytes());
      if (!device.read(l.lkey(), p, l.bytes(), got.data())) return false;
      if (std::memcmp(got.data(), p, l.bytes()) != 0) return false;
      p += l.bytes();
      n -= l.bytes();
    }
    return true;
  }

  splice_device device;
  std::unique_ptr<pool> cache;
  unsigned seed = 0;
};

// Fresh memory, or memory at `at`. Far below where the kernel puts what asks for no address, so
// that nobody else (a sanitizer, a thread's stack) takes a hole before it is filled again.
void* map(std::size_t n, void* at = nullptr) {
  static std::byte* const from = [] {
    void* p = mmap(nullptr, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(p != MAP_FAILED);
    munmap(p, page);
    constexpr std::uintptr_t below = std::uintptr_t{64} << 30, window = 1 << 20;
    return reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(p) - below) &
                                        ~(window - 1));
  }();
  static std::atomic<std::size_t> used{0};
  if (at == nullptr) at = from + used.fetch_add(1 << 20, std::memory_order_relaxed);
  void* p =
      mmap(at, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  REQUIRE(p == at);
  return p;
}

bool events_here() {
  static const bool here = kernel_events::get().has_value();
  return here;
}
// Whether libc's calls can be interposed: not under ThreadSanitizer, nor on other processors.
bool calls_here() {
  offer_interposing();
  static const bool here = changes::gate_word() != nullptr && changes::activate();
  return here;
}
bool is_on(protection how) {
  switch (how) {
    case protection::calls:
      return calls_here();
    case protection::events:
      return events_here();
    default:
      return calls_here() && events_here();
  }
}

// Runs `scenario`, which answers whether the transfer after the change was right.
void check(const std::function<bool(rig&)>& scenario,
           std::initializer_list<protection> good = {protection::calls, protection::events,
                                                     protection::both}) {
  for (const protection how : good) {
    if (!is_on(how)) continue;
    CAPTURE(static_cast<int>(how));
    rig r(how);
    CHECK(scenario(r));
    CHECK(r.cache->statistics().invalidations > 0);
  }
  rig bare(protection::none);
  CHECK_FALSE(scenario(bare));
}

}  // namespace

TEST_CASE("libc's calls are interposed, and the kernel's events stand in where they cannot be") {
  rig r(protection::automatic);
  const std::string text = r.cache->protection_text();
  CHECK(text == (calls_here()    ? "interposed calls"
                 : events_here() ? "kernel events"
                                 : "nothing is kept"));
  if (dlsym(RTLD_DEFAULT, "__tsan_init") == nullptr) CHECK(calls_here());
}

TEST_CASE("an unchanged buffer is registered once and read right, however it is protected") {
  for (const protection how : {protection::calls, protection::events, protection::both}) {
    if (!is_on(how)) continue;
    rig r(how);
    void* p = map(16 * page);
    for (int i = 0; i < 20; ++i) CHECK(r.transfer(p, 16 * page));
    CHECK(r.device.registered.load(std::memory_order_relaxed) <= 2);  // one a window
    munmap(p, 16 * page);
  }
}

TEST_CASE("memory unmapped and mapped again") {
  check([](rig& r) {
    void* p = map(4 * page);
    REQUIRE(r.transfer(p, 4 * page));
    munmap(p, 4 * page);
    map(4 * page, p);
    const bool right = r.transfer(p, 4 * page);
    munmap(p, 4 * page);
    return right;
  });
}

TEST_CASE("one page in the middle of a buffer unmapped and mapped again") {
  check([](rig& r) {
    auto* p = static_cast<std::byte*>(map(8 * page));
    REQUIRE(r.transfer(p, 8 * page));
    munmap(p + 3 * page, page);
    map(page, p + 3 * page);
    const bool right = r.transfer(p, 8 * page);
    munmap(p, 8 * page);
    return right;
  });
}

TEST_CASE("memory mapped over") {
  check([](rig& r) {
    void* p = map(4 * page);
    REQUIRE(r.transfer(p, 4 * page));
    REQUIRE(mmap(p, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                 0) == p);
    const bool right = r.transfer(p, 4 * page);
    munmap(p, 4 * page);
    return right;
  });
}

TEST_CASE("memory moved away by mremap, and other memory mapped where it was") {
  check([](rig& r) {
    void* p = map(4 * page);
    REQUIRE(r.transfer(p, 4 * page));
    void* to = map(4 * page);
    REQUIRE(mremap(p, 4 * page, 4 * page, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to);
    map(4 * page, p);
    const bool right = r.transfer(p, 4 * page) && r.transfer(to, 4 * page);
    munmap(p, 4 * page);
    munmap(to, 4 * page);
    return right;
  });
}

TEST_CASE("memory moved by mremap over a registered buffer") {
  check([](rig& r) {
    void* p = map(4 * page);
    void* to = map(4 * page);
    REQUIRE(r.transfer(to, 4 * page));
    std::memset(p, 7, 4 * page);
    REQUIRE(mremap(p, 4 * page, 4 * page, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to);
    const bool right = r.transfer(to, 4 * page);
    munmap(to, 4 * page);
    return right;
  });
}

TEST_CASE("memory shrunk by mremap and grown again") {
  check([](rig& r) {
    auto* p = static_cast<std::byte*>(map(4 * page));
    REQUIRE(r.transfer(p, 4 * page));
    REQUIRE(mremap(p, 4 * page, page, 0) == p);
    map(3 * page, p + page);
    const bool right = r.transfer(p + page, 3 * page);
    munmap(p, 4 * page);
    return right;
  });
}

TEST_CASE("memory discarded by madvise") {
  check([](rig& r) {
    void* p = map(4 * page);
    REQUIRE(r.transfer(p, 4 * page));
    REQUIRE(madvise(p, 4 * page, MADV_DONTNEED) == 0);
    const bool right = r.transfer(p, 4 * page);
    munmap(p, 4 * page);
    return right;
  });
}

// malloc moves the end of the heap as well. From here on it has room to spare and gives nothing
// back, so that it leaves the end alone between two calls of sbrk.
void keep_malloc_off_the_break() {
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_TOP_PAD, 16 << 20);            // less than the large block below, which is to be mapped
  void* const a = std::malloc(120 << 10);  // one of the two needs more than the heap has
  void* const b = std::malloc(120 << 10);
  REQUIRE((a != nullptr && b != nullptr));
  std::free(b);
  std::free(a);
}

TEST_CASE("the heap's end lowered and raised again") {
  keep_malloc_off_the_break();
  check([](rig& r) {
    auto* p = static_cast<std::byte*>(sbrk(16 * page));
    REQUIRE(p != reinterpret_cast<std::byte*>(-1));
    REQUIRE(r.transfer(p, 16 * page));
    REQUIRE(sbrk(-16 * static_cast<int>(page)) != reinterpret_cast<void*>(-1));
    REQUIRE(sbrk(16 * page) == p);
    const bool right = r.transfer(p, 16 * page);
    sbrk(-16 * static_cast<int>(page));
    return right;
  });
}

TEST_CASE("shared memory detached and another attached at the same address") {
  // The kernel reports no event for shmdt, so the calls must do it.
  check(
      [](rig& r) {
        const int a = shmget(IPC_PRIVATE, 4 * page, IPC_CREAT | 0600);
        const int b = shmget(IPC_PRIVATE, 4 * page, IPC_CREAT | 0600);
        void* p = shmat(a, nullptr, 0);
        REQUIRE(p != reinterpret_cast<void*>(-1));
        const bool before = r.transfer(p, 4 * page);
        shmdt(p);
        REQUIRE(shmat(b, p, 0) == p);
        const bool right = r.transfer(p, 4 * page);
        shmdt(p);
        shmctl(a, IPC_RMID, nullptr);
        shmctl(b, IPC_RMID, nullptr);
        REQUIRE(before);
        return right;
      },
      {protection::calls, protection::both});
}

TEST_CASE("memory unmapped by a system call of the client's own, seen by the kernel's events") {
  if (!events_here()) return;
  check(
      [](rig& r) {
        void* p = map(4 * page);
        REQUIRE(r.transfer(p, 4 * page));
        syscall(SYS_munmap, p, 4 * page);
        map(4 * page, p);
        const bool right = r.transfer(p, 4 * page);
        munmap(p, 4 * page);
        return right;
      },
      {protection::events, protection::both});
}

TEST_CASE("a large block given back by libc's own free") {
  // libc's allocator, whatever the program's malloc is: it unmaps through no symbol.
  void* libc = dlopen("libc.so.6", RTLD_NOLOAD | RTLD_LAZY);
  const auto libc_malloc = reinterpret_cast<void* (*)(std::size_t)>(dlsym(libc, "malloc"));
  const auto libc_free = reinterpret_cast<void (*)(void*)>(dlsym(libc, "free"));
  constexpr std::size_t n = 40 << 20;  // above the largest threshold below which blocks are kept
  check([&](rig& r) {
    // The kernel hands out the same address, unless another thread has mapped something meanwhile.
    bool same = false, right = false;
    for (int tries = 0; !same && tries < 20; ++tries) {
      auto* p = static_cast<std::byte*>(libc_malloc(n));
      REQUIRE(p != nullptr);
      REQUIRE(r.transfer(p, 8 * page));
      libc_free(p);
      auto* q = static_cast<std::byte*>(libc_malloc(n));
      same = q == p;
      right = r.transfer(q, 8 * page);
      libc_free(q);
    }
    REQUIRE(same);
    return right;
  });
}

TEST_CASE("the stack of a thread that ended, used by the next one") {
  check([](rig& r) {
    bool right[2] = {};
    void* where[2] = {};
    const auto run = [&](int i) {
      std::thread([&, i] {
        alignas(page) unsigned char buffer[32 * page];
        where[i] = buffer;
        right[i] = r.transfer(buffer, sizeof buffer);
      }).join();
    };
    run(0);
    REQUIRE(right[0]);
    run(1);
    REQUIRE(where[0] == where[1]);
    return right[1];
  });
}

TEST_CASE("memory written by the parent after a fork") {
  check([](rig& r) {
    void* p = map(4 * page);
    REQUIRE(r.transfer(p, 4 * page));
    int hold[2];
    REQUIRE(pipe(hold) == 0);
    const pid_t child =
        fork();  // shares the pages, so that the parent's next write moves to a copy
    if (child == 0) {
      char c;
      close(hold[1]);
      _exit(read(hold[0], &c, 1) == 0 ? 0 : 1);
    }
    close(hold[0]);
    const bool right = r.transfer(p, 4 * page);
    close(hold[1]);
    waitpid(child, nullptr, 0);
    munmap(p, 4 * page);
    return right;
  });
}

TEST_CASE("a forked child finds nothing and is told so") {
  rig r(protection::calls);
  void* p = map(page);
  REQUIRE(r.transfer(p, page));
  for (const bool raw : {false, true}) {
    const pid_t child = raw ? static_cast<pid_t>(syscall(SYS_fork)) : fork();
    if (child == 0) {
      lease l;
      const bool hit = r.cache->try_hit(p, 1, purpose::source, l);
      const status s = r.cache->acquire(p, 1, purpose::source, l);
      munmap(p, page);
      _exit(!hit && s == status::unsupported ? 0 : 1);
    }
    int code = -1;
    waitpid(child, &code, 0);
    CHECK(code == 0);
    CHECK(r.sends(p, page));
  }
  munmap(p, page);
}

TEST_CASE("read-only memory is sent, and stays right after it is replaced") {
  for (const protection how : {protection::calls, protection::events}) {
    rig r(how);
    static const char text[] = "a constant in a read-only page of this program";
    CHECK(r.sends(text, sizeof text));
    void* p = map(2 * page);
    std::memset(p, 5, 2 * page);
    mprotect(p, 2 * page, PROT_READ);
    CHECK(r.sends(p, 2 * page));
    munmap(p, 2 * page);
    map(2 * page, p);
    CHECK(r.transfer(p, 2 * page));
    munmap(p, 2 * page);
  }
}

// Four threads change and send pieces of one arena whose windows they share; returns how many
// transfers read wrong bytes.
static int stress(protection how) {
  rig r(how);
  constexpr std::size_t span = 24 * page;
  auto* arena = static_cast<std::byte*>(map(4 * span));
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      std::mt19937 random(t + 100);
      for (unsigned i = 0; i < 400; ++i) {
        const std::size_t n = (1 + random() % 4) * page;
        std::byte* at = arena + t * span + random() % 20 * page;
        const unsigned what = random() % 4;
        if (what == 0) munmap(at, n);
        if (what <= 1)
          mmap(at, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        if (what == 2) madvise(at, n, MADV_DONTNEED);
        for (std::size_t b = 0; b < n; b += 64) at[b] = static_cast<std::byte>(i * 7 + t + b / 64);
        if (!r.sends(at, n)) wrong.fetch_add(1, std::memory_order_relaxed);
      }
    });
  for (auto& t : threads) t.join();
  r.cache.reset();
  munmap(arena, 4 * span);
  return wrong.load(std::memory_order_relaxed);
}

TEST_CASE("threads that unmap, remap and discard while others send: every byte is right") {
  CHECK(stress(protection::calls) == 0);
  CHECK(stress(protection::both) == 0);
  CHECK(stress(protection::events) == 0);
  CHECK(stress(protection::none) > 0);
}
