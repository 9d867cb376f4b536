// The table of regions behind both kinds of firehose: regions that are registered here (pool.hpp),
// and regions that peers have registered for us (remote.hpp). Lookup is lock-free; every change is
// made by one thread at a time, under its owner's lock.
//
//   heads_[hash(space, window)] -> region 7 -> region 3 -> 0
//   region: start bytes keys state next     one cache line, written only when the region changes
//
// Address space is cut into windows of the maximum region size (a power of two); a region lies in
// one window, so a lookup has one chain to walk, mostly of length one (four heads a region).
// Invariants: (T-a) a region's range, space and keys change only in states absent and filling;
//   (T-b) state leaves live only under the lock; (T-c) a region becomes absent only after its uses
//   summed to zero in state closing (see use_counts.hpp), so who holds a lease reads stable fields.
// A reader that is overtaken by changes may walk into another chain or miss its region: then it
// asks under the lock. It checks the region itself after taking it, so a reused region is either
// right for it or refused: there is no ABA. The walk is bounded. Removed memory: regions are an
// array that lives as long as the table. Cost of a hit: 3 lines read (head, region, own words), own
// words written; no RMW, no fence.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "firehose/use_counts.hpp"
#include "lib/base/mode.hpp"
#include "memreg/registrar.hpp"

namespace penstock::firehose {

enum class region_state : std::uint32_t {
  absent,   ///< unused slot
  filling,  ///< being registered or asked for: changes find it, lookups never do
  live,     ///< may be leased
  closing,  ///< being retired: uses are summed
  dead,     ///< no new leases; given up when the last lease is returned
};

/// What a local buffer is for: a source may be read-only memory.
enum class purpose : std::uint32_t { source = 0, destination = 1 };

struct alignas(cache_line) region {
  std::atomic<std::uint64_t> start{0};
  std::atomic<std::uint64_t> bytes{0};
  std::atomic<std::uint32_t> lkey{0};
  std::atomic<std::uint32_t> rkey{0};
  std::atomic<std::uint32_t> space{0};  ///< 0 here; the peer's number + 1 for remote regions
  std::atomic<region_state> state{region_state::absent};
  std::atomic<std::uint32_t> next{0};  ///< in the chain; 0 ends it
  std::atomic<std::uint32_t> writable{0};
  // under the lock only
  void* handle = nullptr;        ///< the device's, or the owner's note
  std::uint32_t taken_then = 0;  ///< use count when the clock's hand last passed
  std::uint32_t mark = 0;        ///< owner's note
};
static_assert(sizeof(region) == 64);

class region_table;

/// The right to use a region: it stays registered until the lease has ended. Move only; may be
/// given to another thread. Keep it until the transfer is complete.
class lease {
 public:
  lease() = default;
  lease(lease&& o) noexcept { *this = std::move(o); }
  lease& operator=(lease&& o) noexcept {
    std::swap(table_, o.table_);
    std::swap(region_, o.region_);
    std::swap(lkey_, o.lkey_);
    std::swap(rkey_, o.rkey_);
    std::swap(bytes_, o.bytes_);
    return *this;
  }
  ~lease() { reset(); }

  /// Returns the lease before the object is destroyed.
  inline void reset() noexcept;
  [[nodiscard]] std::uint32_t lkey() const noexcept { return lkey_; }
  [[nodiscard]] std::uint32_t rkey() const noexcept { return rkey_; }
  /// How many bytes from the address asked for are covered: at least 1, at most what was asked.
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  /// Number of the region in its table; for the table's owner.
  [[nodiscard]] std::uint32_t number() const noexcept { return region_; }
  explicit operator bool() const noexcept { return table_ != nullptr; }

 private:
  friend class region_table;
  region_table* table_ = nullptr;
  std::uint32_t region_ = 0;
  std::uint32_t lkey_ = 0;
  std::uint32_t rkey_ = 0;
  std::size_t bytes_ = 0;
};

class region_table {
 public:
  /// regions: how many there may be; window_bytes: a power of two.
  region_table(std::uint32_t regions, std::uint64_t window_bytes);

  // ---- any thread, lock-free
  /// Leases the live region that holds [addr, addr+1) in `space`, covering as many of `len` (> 0)
  /// bytes as it can. False: none found; ask again under the lock.
  bool hit(std::uint32_t space, std::uint64_t addr, std::size_t len, purpose use,
           lease& out) noexcept;
  void give(std::uint32_t i) noexcept { uses_.give(i); }
  [[nodiscard]] std::uint64_t hits() const noexcept { return uses_.hits(); }

  // ---- under the owner's lock
  [[nodiscard]] region& at(std::uint32_t i) noexcept { return regions_[i]; }
  [[nodiscard]] const region& at(std::uint32_t i) const noexcept { return regions_[i]; }
  [[nodiscard]] std::uint32_t size() const noexcept { return size_; }
  [[nodiscard]] std::uint64_t window_bytes() const noexcept { return std::uint64_t{1} << shift_; }
  [[nodiscard]] std::uint64_t window_of(std::uint64_t addr) const noexcept {
    return addr >> shift_;
  }
  /// First region of the chain of a window; follow `next`. Chains hold other windows' regions too.
  [[nodiscard]] std::uint32_t first(std::uint32_t space, std::uint64_t window) const noexcept {
    return heads_[slot(space, window)].load(std::memory_order_relaxed);
  }
  /// Calls f(i) for the regions in chains that overlap [start, end) of a space, except those
  /// closing.
  template <class F>
  void overlapping(std::uint32_t space, std::uint64_t start, std::uint64_t end, F f) noexcept;
  /// An absent region, or 0.
  std::uint32_t allocate() noexcept;
  /// Puts a region (filling) with its range and space into its chain.
  void link(std::uint32_t i) noexcept;
  void unlink(std::uint32_t i) noexcept;
  /// Back to absent. It must be unlinked and its uses zero.
  void free(std::uint32_t i) noexcept;
  /// Leases a region in any state for the calling thread; the caller knows that the region stays.
  /// False when the thread cannot count (out of memory).
  bool take(std::uint32_t i, std::uint64_t addr, std::size_t len, lease& out) noexcept;
  [[nodiscard]] use_counts::sum uses(std::uint32_t i) const noexcept { return uses_.total(i); }

  /// The next live region (of one space) that was not used since the hand last passed, or 0 when a
  /// whole round found none. Does not change its state.
  std::uint32_t next_victim(std::uint32_t space = any_space) noexcept;
  static constexpr std::uint32_t any_space = UINT32_MAX;
  /// Retires up to `count` regions given in `which`, live or dead: sets closing, waits for the
  /// barrier, and keeps in `which` those that nobody uses, now unlinked and still closing. The
  /// others get their state back. Returns how many are kept.
  std::uint32_t close(std::uint32_t* which, std::uint32_t count) noexcept;

 private:
  friend class lease;
  [[nodiscard]] std::size_t slot(std::uint32_t space, std::uint64_t window) const noexcept {
    return ((window ^ (std::uint64_t{space} << 40)) * 0x9e3779b97f4a7c15u) >> head_shift_;
  }
  static constexpr int max_walk = 64;  // a reader that was overtaken gives up then

  const std::uint32_t size_;  // regions 1 … size_-1 exist
  const unsigned shift_;
  const unsigned head_shift_;
  std::unique_ptr<std::atomic<std::uint32_t>[]> heads_;
  std::unique_ptr<region[]> regions_;
  use_counts uses_;
  // under the lock
  alignas(cache_line) std::uint32_t free_ = 0;  // list through `mark`
  std::uint32_t hand_ = 0;
};

inline void lease::reset() noexcept {
  if (table_ == nullptr) return;
  table_->give(region_);
  table_ = nullptr;
}

template <class F>
void region_table::overlapping(std::uint32_t space, std::uint64_t start, std::uint64_t end,
                               F f) noexcept {
  const auto test = [&](std::uint32_t i) {
    const region& r = regions_[i];
    const std::uint64_t from = r.start.load(std::memory_order_relaxed);
    const region_state s = r.state.load(std::memory_order_relaxed);
    if (s != region_state::absent && s != region_state::closing && from < end &&
        r.space.load(std::memory_order_relaxed) == space &&
        start < from + r.bytes.load(std::memory_order_relaxed))
      f(i);
  };
  const std::uint64_t first_window = window_of(start);
  const std::uint64_t last_window = window_of(end - 1);
  if (last_window - first_window >= size_) {
    for (std::uint32_t i = 1; i < size_; ++i) test(i);
    return;
  }
  for (std::uint64_t w = first_window; w <= last_window; ++w)
    for (std::uint32_t i = first(space, w); i != 0;) {
      const std::uint32_t next = regions_[i].next.load(std::memory_order_relaxed);
      // A chain holds other windows' regions too: each is tested in its own window only.
      if (window_of(regions_[i].start.load(std::memory_order_relaxed)) == w) test(i);
      i = next;
    }
}

inline bool region_table::hit(std::uint32_t space, std::uint64_t addr, std::size_t len, purpose use,
                              lease& out) noexcept {
  // relaxed, as is `next` below: what is read of a region counts only when it is read again
  // behind U2
  std::uint32_t i = heads_[slot(space, addr >> shift_)].load(std::memory_order_relaxed);
  for (int walk = 0; i != 0 && walk < max_walk; ++walk) {
    region& r = regions_[i];
    if (addr - r.start.load(std::memory_order_relaxed) < r.bytes.load(std::memory_order_relaxed) &&
        r.space.load(std::memory_order_relaxed) == space) [[likely]] {
      use_counts::block* mine = uses_.mine();
      if (mine == nullptr) [[unlikely]]
        return false;
      use_counts::take(mine, i);  // U1
      light_barrier();
      // U2 check  load-acquire state  <- V1 (pool.cpp, remote.cpp): keys and range are those of the
      // live region
      const bool live = r.state.load(std::memory_order_acquire) == region_state::live;
      const std::uint64_t offset = addr - r.start.load(std::memory_order_relaxed);
      const std::uint64_t bytes = r.bytes.load(std::memory_order_relaxed);
      if (live && offset < bytes && r.space.load(std::memory_order_relaxed) == space &&
          r.writable.load(std::memory_order_relaxed) >= static_cast<std::uint32_t>(use))
          [[likely]] {
        out.reset();
        out.table_ = this;
        out.region_ = i;
        out.lkey_ = r.lkey.load(std::memory_order_relaxed);
        out.rkey_ = r.rkey.load(std::memory_order_relaxed);
        out.bytes_ = len < bytes - offset ? len : bytes - offset;
        use_counts::hit(mine);
        return true;
      }
      use_counts::untake(mine, i);
    }
    i = r.next.load(std::memory_order_relaxed);
  }
  return false;
}

}  // namespace penstock::firehose
