// The jemalloc side of heap.hpp: extent hooks over one sparse shared region, registered chunk by
// chunk as jemalloc asks for extents.
#include "memreg/heap.hpp"

#include <jemalloc/jemalloc.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <mutex>
#include <string>

#include "memreg/host_memory.hpp"
#include "memreg/segment.hpp"

namespace penstock::memreg {

struct heap::growth {
  extent_hooks_t hooks{};  // jemalloc hands its address back to every hook
  heap* owner = nullptr;
  registrar* device = nullptr;
  unsigned access_bits = 0;
  segment memory;
  std::mutex lock;  // held while growing: never while jemalloc calls back into the same heap
  std::atomic<std::size_t> used{0};  // bytes of `memory` handed to jemalloc; a count, relaxed
  failure last;
};

// The hooks. jemalloc calls them with its locks for this arena held, but lets the code inside
// allocate elsewhere (from another arena), which registering does.
struct heap_hooks {
  static heap& of(extent_hooks_t* h) noexcept {
    return *reinterpret_cast<heap::growth*>(h)->owner;  // hooks is growth's first member
  }

  // A new extent: whole chunks, registered as one, so that no block ever crosses registrations.
  // What rounding up to chunks leaves over stays unused: only jemalloc's own metadata asks for
  // less.
  static void* alloc(extent_hooks_t* hooks, void* wanted, std::size_t size, std::size_t align,
                     bool* zero, bool* commit, unsigned) {
    heap& h = of(hooks);
    heap::growth& g = *h.growth_;
    if (wanted != nullptr) return nullptr;  // growing in place would cross registrations
    const std::lock_guard guard(g.lock);
    const std::size_t chunk = std::size_t{1} << h.chunk_shift_;
    const std::size_t from =
        round_up(g.used.load(std::memory_order_relaxed), std::max(chunk, align));
    const std::size_t bytes = round_up(size, chunk);
    if (from > h.max_bytes_ || bytes < size || bytes > h.max_bytes_ - from) {
      g.last = failure{"registered heap of " + human_bytes(h.max_bytes_) + " is full", ENOMEM,
                       "make the heap larger"};
      return nullptr;
    }
    if (auto done = g.memory.commit(from, bytes); !done) {
      g.last = done.error();
      return nullptr;
    }
    std::byte* base = g.memory.base() + from;
    auto r = g.device->reg(base, bytes, g.access_bits);
    if (!r) {
      g.last = r.error();
      return nullptr;
    }
    for (std::size_t i = 0; i < bytes; i += chunk) h.chunks_[(from + i) >> h.chunk_shift_] = *r;
    g.used.store(from + bytes, std::memory_order_relaxed);
    *zero = true;  // fresh pages of a memfd
    *commit = true;
    return base;
  }
  // Refused, so that jemalloc keeps the extent and its registration for later.
  static bool dalloc(extent_hooks_t*, void*, std::size_t, bool, unsigned) { return true; }
  static void destroy(extent_hooks_t*, void*, std::size_t, bool, unsigned) {}
  static bool split(extent_hooks_t*, void*, std::size_t, std::size_t, std::size_t, bool, unsigned) {
    return false;  // allowed
  }
  // Allowed inside one registration only.
  static bool merge(extent_hooks_t* hooks, void* a, std::size_t, void* b, std::size_t, bool,
                    unsigned) {
    const heap& h = of(hooks);
    return h.keys_of(a).handle != h.keys_of(b).handle || h.keys_of(a).lkey != h.keys_of(b).lkey;
  }
};

heap::heap() : growth_(std::make_unique<growth>()) {}

result<std::unique_ptr<heap>> heap::create(registrar& device, const heap_options& o) {
  if (!std::has_single_bit(o.chunk_bytes) || o.chunk_bytes < (std::size_t{2} << 20))
    return failure{"registered heap with chunks of " + human_bytes(o.chunk_bytes), EINVAL,
                   "use a power of two of at least 2 MiB"};
  std::unique_ptr<heap> h(new heap);
  growth& g = *h->growth_;
  segment_options s;
  s.bytes =
      round_down(std::min<std::uint64_t>(o.max_bytes, probe_host_memory().physical), o.chunk_bytes);
  s.commit = commit_policy::lazy;
  s.huge_pages = false;  // hugetlb would reserve all of it now
  s.name = "penstock-heap";
  auto memory = segment::create(s);
  if (!memory) return memory.error();
  g.memory = std::move(*memory);
  // A child after fork would share, and spoil, this heap: better that it cannot see it.
  (void)madvise(g.memory.base(), g.memory.bytes(), MADV_DONTFORK);
  (void)madvise(g.memory.base(), g.memory.bytes(), MADV_HUGEPAGE);  // advice only
  g.owner = h.get();
  g.device = &device;
  g.access_bits = o.access_bits;
  g.hooks.alloc = heap_hooks::alloc;
  g.hooks.dalloc = heap_hooks::dalloc;
  g.hooks.destroy = heap_hooks::destroy;
  g.hooks.split = heap_hooks::split;
  g.hooks.merge = heap_hooks::merge;
  h->base_ = reinterpret_cast<std::uintptr_t>(g.memory.base());
  h->max_bytes_ = g.memory.bytes();
  h->chunk_shift_ = static_cast<unsigned>(std::countr_zero(o.chunk_bytes));
  h->chunks_ = std::make_unique<registration[]>(h->max_bytes_ >> h->chunk_shift_);
  device.declare_shared(g.memory.base(), g.memory.bytes(), g.memory.fd(), 0);

  extent_hooks_t* hooks = &g.hooks;
  unsigned index = 0;
  std::size_t size = sizeof index;
  if (const int code = mallctl("arenas.create", &index, &size, &hooks, sizeof hooks); code != 0) {
    device.forget_shared(g.memory.base());
    g.owner = nullptr;
    return failure{"creating a jemalloc arena over registered memory: " + g.last.what, code,
                   g.last.hint};
  }
  h->arena_ = index;
  // Grow by a chunk at a time, not by jemalloc's ever larger steps: chunks are pinned.
  std::size_t step = o.chunk_bytes;
  const std::string limit = "arena." + std::to_string(index) + ".retain_grow_limit";
  (void)mallctl(limit.c_str(), nullptr, nullptr, &step, sizeof step);
  return h;
}

result<std::unique_ptr<lasting_heap>> make_heap(registrar& device) {
  auto made = heap::create(device);
  if (!made) return made.error();
  return std::unique_ptr<lasting_heap>(std::move(*made));
}

heap::~heap() {
  growth& g = *growth_;
  if (g.owner == nullptr) return;  // create() failed half-way
  const std::string destroy = "arena." + std::to_string(arena_) + ".destroy";
  (void)mallctl(destroy.c_str(), nullptr, nullptr, nullptr, 0);
  const void* last = nullptr;
  for (std::size_t i = 0; i < max_bytes_ >> chunk_shift_; ++i) {
    if (chunks_[i].handle == nullptr || chunks_[i].handle == last) continue;
    last = chunks_[i].handle;  // chunks of one registration are neighbours
    g.device->dereg(chunks_[i]);
  }
  g.device->forget_shared(g.memory.base());
}

void* heap::allocate(std::size_t bytes, std::size_t align) noexcept {
  // No thread cache: it would mix with the caches of other arenas, and outlive this one.
  return mallocx(std::max<std::size_t>(bytes, 1),
                 MALLOCX_ARENA(arena_) | MALLOCX_TCACHE_NONE | MALLOCX_ALIGN(align));
}

void heap::deallocate(void* p) noexcept {
  if (p != nullptr) dallocx(p, MALLOCX_TCACHE_NONE);
}

std::size_t heap::registered_bytes() const noexcept {
  return growth_->used.load(std::memory_order_relaxed);
}

failure heap::last_failure() const {
  const std::lock_guard guard(growth_->lock);
  return growth_->last;
}

}  // namespace penstock::memreg
