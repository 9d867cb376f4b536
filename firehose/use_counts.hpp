// How often each region is in use, kept by each thread for itself, so that taking and returning a
// lease writes no line that another thread reads in its hot path.
//
//   thread 1:  [use r0 | use r1 | …]      thread 2:  [use r0 | use r1 | …]      …
//
// A word holds, in its upper half, how many leases this thread took of the region, and in its lower
// half taken minus returned by this thread (negative where another thread took them). Summed over
// the threads, modulo 2^64, the lower half is the number of leases out, the upper half a use count
// that tells whether the region was used since it was last looked at.
//
// Threads: each writes only its own words; a thread that retires a region reads all.
// The protocol is Dekker's, with the cost on the retiring side:
//   user:     U1 store own word; light barrier; U2 load region.state; take back unless live
//   retirer:  R1 store region.state = closing; heavy barrier; R2 load all words; undo unless 0
// Either U2 sees closing or R2 sees the use. The heavy barrier (membarrier) makes every running
// thread of the process execute a full fence, so the user needs only a compiler barrier; where the
// kernel has no membarrier both sides take a fence.
// Removed memory: none; a thread's words stay when it ends, for the next thread that gets its
// number. A stalled user delays no thread; its region just stays registered.
// Cost: 2 plain stores a lease, no RMW, no fence; retiring: one system call and a load per thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "lib/base/mode.hpp"
#include "lib/base/thread_index.hpp"

namespace penstock::firehose {

/// True where the kernel offers membarrier; decided once.
extern const bool has_membarrier;

/// The user's side of the pair. Orders: seq_cst, so that U1 comes before U2 for every thread; a
/// signal fence is enough where heavy_barrier() makes the others' fences.
inline void light_barrier() noexcept {
  if (has_membarrier) [[likely]]
    std::atomic_signal_fence(std::memory_order_seq_cst);
  else
    std::atomic_thread_fence(std::memory_order_seq_cst);
}
/// The retirer's side: a system call, a microsecond or a few. No allocation.
void heavy_barrier() noexcept;

class use_counts {
 public:
  /// One thread's words. The array is lazily backed: untouched regions cost address space only.
  struct block {
    alignas(cache_line) std::atomic<std::uint64_t> hits{0};
    /// The words follow the header.
    std::atomic<std::uint64_t>& use(std::uint32_t region) noexcept {
      return reinterpret_cast<std::atomic<std::uint64_t>*>(this + 1)[region];
    }
  };

  explicit use_counts(std::uint32_t regions) noexcept : regions_(regions) {}
  ~use_counts();
  use_counts(const use_counts&) = delete;
  use_counts& operator=(const use_counts&) = delete;

  /// The calling thread's words; made at its first call (one mmap; null when that fails).
  block* mine() noexcept {
    block* b = blocks_[thread_tag()].load(std::memory_order_relaxed);  // own slot, own writes
    if (b == nullptr) [[unlikely]]
      return mine_slow();
    return b;
  }

  static constexpr std::uint64_t one = (std::uint64_t{1} << 32) + 1;

  /// U1. The caller then runs light_barrier() and checks the region's state.
  static void take(block* b, std::uint32_t region) noexcept { add(b, region, one); }
  /// Takes back a take() whose check failed.
  static void untake(block* b, std::uint32_t region) noexcept { add_release(b, region, 0 - one); }
  /// Returns a lease; any thread.
  void give(std::uint32_t region) noexcept {
    if (block* b = mine(); b != nullptr) [[likely]]
      add_release(b, region, std::uint64_t{0} - 1);
    else
      orphans(region);
  }
  static void hit(block* b) noexcept {
    b->hits.store(b->hits.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  struct sum {
    std::uint32_t taken;  ///< leases ever taken, modulo 2^32
    std::uint32_t out;    ///< leases not returned; exact only after R1 and heavy_barrier()
  };
  /// R2.
  [[nodiscard]] sum total(std::uint32_t region) const noexcept;
  /// Hits of all threads; a snapshot.
  [[nodiscard]] std::uint64_t hits() const noexcept;

 private:
  static void add(block* b, std::uint32_t region, std::uint64_t n) noexcept {
    auto& w = b->use(region);
    w.store(w.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  // G1 give  store-release own word  -> R2 (use_counts.cpp): what was done under the lease is done
  // before the region goes. Who takes back has perhaps given before: R2 reads the later store.
  static void add_release(block* b, std::uint32_t region, std::uint64_t n) noexcept {
    auto& w = b->use(region);
    w.store(w.load(std::memory_order_relaxed) + n, std::memory_order_release);
  }
  [[nodiscard]] std::size_t block_bytes() const noexcept {
    return sizeof(block) + std::size_t{regions_} * sizeof(std::uint64_t);
  }
  block* mine_slow() noexcept;
  // Called when a thread that cannot have words of its own (no memory) returns a lease: the region
  // then never counts as free again. This is rare and safe, and it is logged once.
  void orphans(std::uint32_t region) noexcept;

  const std::uint32_t regions_;
  std::atomic<std::uint32_t> highest_{0};
  std::atomic<block*> blocks_[max_threads + 1] = {};
};

}  // namespace penstock::firehose
