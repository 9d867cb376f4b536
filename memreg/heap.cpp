// The jemalloc side of heap.hpp: extent hooks over one sparse shared region, registered chunk by
// chunk as jemalloc asks for extents.
#include "memreg/heap.hpp"

#include <jemalloc/jemalloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#include "lib/base/immortal.hpp"
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
  // Guarded by live_heaps::lock: jemalloc's numbers of all thread caches of this heap, and of those
  // that no thread has; `idle` has room for all.
  std::vector<unsigned> caches, idle;
  std::uint64_t number = 0;  // no other heap of this process has it
};

// Thread caches. jemalloc's automatic ones would mix with those of other arenas, and outlive this
// one; so each thread has one of its own for each heap that it uses, up to four. A heap that ends
// takes its caches along. A thread that ends empties its own and leaves them to other threads.
// No two threads use a cache at a time: it is one thread's from when live_heaps::lock was held
// until it is held again. In a child of fork, which does not see heaps, nothing is emptied.
struct heap_caches {
  struct live_heaps {
    std::mutex lock;
    std::vector<heap::growth*> all;
    std::uint64_t made = 0;
    [[nodiscard]] heap::growth* find(std::uint64_t number) const noexcept {
      const auto at = std::ranges::find(all, number, &heap::growth::number);
      return at != all.end() ? *at : nullptr;
    }
  };
  static live_heaps& live() noexcept {
    static immortal<live_heaps> of_process;
    return of_process.value;
  }

  static void add(heap::growth& g) {
    live_heaps& l = live();
    const std::lock_guard guard(l.lock);
    l.all.push_back(&g);
    g.number = ++l.made;
  }
  static void end(heap::growth& g) noexcept {
    live_heaps& l = live();
    const std::lock_guard guard(l.lock);
    std::erase(l.all, &g);
    for (unsigned id : g.caches) (void)mallctl("tcache.destroy", nullptr, nullptr, &id, sizeof id);
  }

  struct entry {
    std::uint64_t heap = 0;  // its number; 0: none
    unsigned id = 0;
  };
  entry mine[4];
  pid_t process = ::getpid();
  static thread_local constinit bool thread_ended;
  static thread_local heap_caches of_thread;
  ~heap_caches() {
    thread_ended = true;
    if (process != ::getpid()) return;
    live_heaps& l = live();
    const std::lock_guard guard(l.lock);
    for (entry& e : mine)
      if (heap::growth* const g = l.find(e.heap); g != nullptr) {
        (void)mallctl("tcache.flush", nullptr, nullptr, &e.id, sizeof e.id);
        g->idle.push_back(e.id);
      }
  }

  // The flag of mallocx that names this thread's cache of that heap.
  static int flag(heap::growth& g) noexcept {
    if (thread_ended) [[unlikely]]
      return MALLOCX_TCACHE_NONE;
    for (const entry& e : of_thread.mine)
      if (e.heap == g.number) [[likely]]
        return static_cast<int>(MALLOCX_TCACHE(e.id));
    return first_flag(g);
  }
  [[gnu::noinline]] static int first_flag(heap::growth& g) noexcept try {
    live_heaps& l = live();
    const std::lock_guard guard(l.lock);
    for (entry& e : of_thread.mine) {
      if (e.heap != 0 && l.find(e.heap) != nullptr) continue;
      if (!g.idle.empty()) {
        e.id = g.idle.back();
        g.idle.pop_back();
      } else {
        g.caches.reserve(g.caches.size() + 1);
        g.idle.reserve(g.caches.size() + 1);
        std::size_t size = sizeof e.id;
        if (mallctl("tcache.create", &e.id, &size, nullptr, 0) != 0) break;
        g.caches.push_back(e.id);
      }
      e.heap = g.number;
      return static_cast<int>(MALLOCX_TCACHE(e.id));
    }
    return MALLOCX_TCACHE_NONE;
  } catch (const std::bad_alloc&) {
    return MALLOCX_TCACHE_NONE;
  }
};
thread_local constinit bool heap_caches::thread_ended = false;
thread_local heap_caches heap_caches::of_thread;

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
  heap_caches::add(g);
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
  heap_caches::end(g);
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
  return mallocx(std::max<std::size_t>(bytes, 1), static_cast<int>(MALLOCX_ARENA(arena_)) |
                                                      heap_caches::flag(*growth_) |
                                                      MALLOCX_ALIGN(align));
}

void heap::deallocate(void* p) noexcept {
  if (p != nullptr) dallocx(p, heap_caches::flag(*growth_));
}

std::size_t heap::registered_bytes() const noexcept {
  return growth_->used.load(std::memory_order_relaxed);
}

failure heap::last_failure() const {
  const std::lock_guard guard(growth_->lock);
  return growth_->last;
}

}  // namespace penstock::memreg
