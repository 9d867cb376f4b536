// The malloc side of program_heap.hpp, in libpenstock-heap.so only: jemalloc, with a cache for each
// thread, over one region of address space. Extents are chunks of the region; none goes back to the
// kernel, so that no registration of it can become stale. Memory that was allocated before this
// code ran, or when the region is full, comes from other places, and is registered like any other
// memory.
#include <jemalloc/jemalloc.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdio>

#include "memreg/program_heap.hpp"

namespace {

constexpr std::size_t chunk = std::size_t{4} << 20;

std::uintptr_t base = 0;  // set once, before the hooks are installed
std::size_t region = 0;
std::atomic<std::size_t> used{0};  // relaxed: claims addresses; jemalloc hands them on

constexpr std::size_t up(std::size_t n, std::size_t to) noexcept { return (n + to - 1) / to * to; }

// Memory outside the region, for when the region is full.
void* elsewhere(std::size_t size, std::size_t align) noexcept {
  void* const p =
      mmap(nullptr, size + align, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  const auto from = reinterpret_cast<std::uintptr_t>(p);
  const std::uintptr_t to = up(from, align);
  if (to > from) munmap(p, to - from);
  munmap(reinterpret_cast<void*>(to + size), from + align - to);
  return reinterpret_cast<void*>(to);
}

void* take(extent_hooks_t*, void* wanted, std::size_t size, std::size_t align, bool* zero,
           bool* commit, unsigned) {
  if (wanted != nullptr) return nullptr;
  *zero = *commit = true;
  std::size_t old = used.load(std::memory_order_relaxed), from = 0;
  const std::size_t bytes = up(size, chunk);
  do {
    from = up(old, std::max(chunk, align));
    if (from > region || bytes > region - from || bytes < size) return elsewhere(size, align);
  } while (!used.compare_exchange_weak(old, from + bytes, std::memory_order_relaxed));
  void* const p = reinterpret_cast<void*>(base + from);
  return mprotect(p, bytes, PROT_READ | PROT_WRITE) == 0 ? p : elsewhere(size, align);
}
bool keep(extent_hooks_t*, void*, std::size_t, bool, unsigned) { return true; }
void nothing(extent_hooks_t*, void*, std::size_t, bool, unsigned) {}
bool split(extent_hooks_t*, void*, std::size_t, std::size_t, std::size_t, bool, unsigned) {
  return false;
}
bool inside(const void* p) noexcept { return reinterpret_cast<std::uintptr_t>(p) - base < region; }
bool merge(extent_hooks_t*, void* a, std::size_t, void* b, std::size_t, bool, unsigned) {
  return inside(a) != inside(b);
}

extent_hooks_t hooks{take, keep, nothing, nullptr, nullptr, nullptr, nullptr, split, merge};

// Memory that was set aside before the hooks were installed (by constructors that ran earlier) is
// allocated here and left alone, so that no large block is given out of it later. No code touches
// it, so it costs no memory.
void spend_the_rest() noexcept {
  constexpr int from_first = MALLOCX_ARENA(0) | MALLOCX_TCACHE_NONE;
  constexpr std::size_t sizes = 7;  // 1 MiB to 16 KiB
  void* held[sizes] = {};           // ours; freed last, or they would be handed out first
  unsigned left = 1000;             // of 2 MiB at most
  for (std::size_t i = 0; i < sizes; ++i)
    while (left-- > 0) {
      void* const p = mallocx((std::size_t{1} << 20) >> i, from_first);
      if (p == nullptr) break;
      if (!inside(p)) continue;
      held[i] = p;
      break;
    }
  for (void* const p : held)
    if (p != nullptr) dallocx(p, MALLOCX_TCACHE_NONE);
}

// Runs before main: takes as much address space as there is, and makes all arenas that threads will
// be given.
[[gnu::constructor]] void begin() {
  for (std::size_t size = std::size_t{1} << 38; size >= std::size_t{1} << 30; size /= 2) {
    void* const p =
        mmap(nullptr, size + chunk, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) continue;
    base = up(reinterpret_cast<std::uintptr_t>(p), chunk);
    region = size;
    break;
  }
  if (region == 0) return;
  unsigned arenas = 0;
  std::size_t size = sizeof arenas;
  if (mallctl("opt.narenas", &arenas, &size, nullptr, 0) != 0) return;
  extent_hooks_t* mine = &hooks;
  for (unsigned i = 0; i < arenas; ++i) {
    char name[40];
    (void)std::snprintf(name, sizeof name, "arena.%u.extent_hooks", i);
    (void)mallctl(name, nullptr, nullptr, &mine, sizeof mine);
  }
  spend_the_rest();
}

}  // namespace

extern "C" bool penstock_program_memory(std::uintptr_t* at, std::size_t* bytes,
                                        std::size_t* chunk_bytes) noexcept {
  *at = base;
  *bytes = region;
  *chunk_bytes = chunk;
  return region != 0;
}
