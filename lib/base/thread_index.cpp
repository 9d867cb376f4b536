#include "lib/base/thread_index.hpp"

#include <algorithm>
#include <atomic>
#include <bit>

#include "lib/base/log.hpp"

namespace penstock {

thread_local constinit std::uint32_t thread_tag_ = 0;

namespace {

std::atomic<std::uint64_t> taken[max_threads / 64];  // bit set: the number is in use
std::atomic<std::uint32_t> limit{max_threads};

[[noreturn]] void too_many() {
  fatal(1, "more than %u threads use the library at once (PENSTOCK_MAX_THREADS, up to %u)",
        limit.load(std::memory_order_relaxed), max_threads);
}

// Gives the number back when its thread ends.
struct holder {
  std::uint32_t index = max_threads;
  ~holder() {
    if (index == max_threads) return;
    thread_tag_ = 0;
    // R1 give back  release  taken  -> A1: the next holder sees what this thread wrote
    taken[index / 64].fetch_and(~(1ull << (index % 64)), std::memory_order_release);
  }
};
thread_local holder mine;

}  // namespace

void limit_threads(std::uint32_t n) noexcept {
  limit.store(std::min(n, max_threads), std::memory_order_relaxed);  // relaxed: a number alone
}

std::uint32_t claim_thread_index() noexcept {
  for (std::uint32_t w = 0; w < max_threads / 64; ++w) {
    std::uint64_t bits = taken[w].load(std::memory_order_relaxed);
    while (bits != ~0ull) {
      const auto bit = static_cast<std::uint32_t>(std::countr_one(bits));
      if (w * 64 + bit >= limit.load(std::memory_order_relaxed)) too_many();
      // A1 claim  acquire  taken  <- R1
      if (taken[w].compare_exchange_weak(bits, bits | (1ull << bit), std::memory_order_acquire,
                                         std::memory_order_relaxed))
        return mine.index = w * 64 + bit;
    }
  }
  too_many();
}

std::uint32_t client_threads() noexcept {
  std::uint32_t n = 0;
  // The numbers of the client's threads are dense from 0 on, so the first empty word ends them.
  for (const auto& word : taken) {
    const auto here = static_cast<std::uint32_t>(
        std::popcount(word.load(std::memory_order_relaxed)));  // relaxed: a hint
    if (here == 0) break;
    n += here;
  }
  return n;
}

void claim_last_thread_index() noexcept {
  for (std::uint32_t i = max_threads; i-- > 0;) {
    const std::uint64_t bit = 1ull << (i % 64);
    // A1 claim  acquire  taken  <- R1
    if ((taken[i / 64].fetch_or(bit, std::memory_order_acquire) & bit) != 0) continue;
    mine.index = i;
    thread_tag_ = i + 1;
    return;
  }
  too_many();
}

}  // namespace penstock
