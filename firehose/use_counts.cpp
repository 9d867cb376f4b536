// Cold part of use_counts.hpp: the barrier, the threads' blocks, the sums.
#include "firehose/use_counts.hpp"

#include <linux/membarrier.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <new>

#include "lib/base/log.hpp"

namespace penstock::firehose {

const bool has_membarrier = [] {
  return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}();

void heavy_barrier() noexcept {
  std::atomic_thread_fence(std::memory_order_seq_cst);  // R1 before R2 on this thread
  if (has_membarrier) syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
}

use_counts::~use_counts() {
  for (auto& slot : blocks_)
    if (block* b = slot.load(std::memory_order_relaxed); b != nullptr) munmap(b, block_bytes());
}

use_counts::block* use_counts::mine_slow() noexcept {
  // mmap, not malloc: zero-filled, lazily backed, and usable wherever a lease is.
  void* p =
      mmap(nullptr, block_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  block* b = new (p) block;
  const std::uint32_t tag = thread_tag();
  // B1 publish  store-release blocks_[tag]  -> B2
  blocks_[tag].store(b, std::memory_order_release);
  std::uint32_t high = highest_.load(std::memory_order_relaxed);
  while (high < tag && !highest_.compare_exchange_weak(high, tag, std::memory_order_relaxed)) {
  }
  // A retirer that misses B1 or the new highest_ has run its heavy barrier before our U2, which
  // then sees closing.
  return b;
}

void use_counts::orphans(std::uint32_t) noexcept {
  log(log_level::warning, "firehose: no memory to count a returned lease; its region stays pinned");
}

use_counts::sum use_counts::total(std::uint32_t region) const noexcept {
  std::uint64_t n = 0;
  const std::uint32_t high = highest_.load(std::memory_order_relaxed);
  for (std::uint32_t t = 1; t <= high; ++t) {
    // B2 find  load-acquire blocks_[t]  <- B1   the block is zero-filled
    block* b = blocks_[t].load(std::memory_order_acquire);
    // R2 read  load-acquire uses  <- G1
    if (b != nullptr) n += b->use(region).load(std::memory_order_acquire);
  }
  return {static_cast<std::uint32_t>(n >> 32), static_cast<std::uint32_t>(n)};
}

std::uint64_t use_counts::hits() const noexcept {
  std::uint64_t n = 0;
  const std::uint32_t high = highest_.load(std::memory_order_relaxed);
  for (std::uint32_t t = 1; t <= high; ++t)
    if (const block* b = blocks_[t].load(std::memory_order_acquire); b != nullptr)  // <- B1
      n += b->hits.load(std::memory_order_relaxed);
  return n;
}

}  // namespace penstock::firehose
