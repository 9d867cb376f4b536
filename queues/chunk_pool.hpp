// ReqSB and RplSB: registered send chunks of one size, taken and given back by any thread without a
// lock. A request's chunk also receives its reply, so a chunk records the rank to which its request
// went, and comes back only when that rank has polled.
//
// So half of the chunks are set aside for ranks that hold few (claim 24 of credit/DEADLOCK.md): a
// request to a rank takes one of these only while the rank holds fewer chunks than are left of
// them, and a sixteenth of all goes to no request. One-sided transfers, whose chunks come back by
// completions alone, take any chunk. A request that finds one of the other half pays nothing for
// this. Threads that take at the same moment may each take one more than the share.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "lib/base/assert.hpp"
#include "lib/base/build_mode.hpp"
#include "lib/base/index_pool.hpp"
#include "lib/base/result.hpp"
#include "memreg/arena.hpp"

namespace penstock::queues::PENSTOCK_ABI {

class chunk_pool {
 public:
  static constexpr std::uint32_t nobody = ~0u;

  /// At most 65,535 chunks (0xffff is no number) of `bytes` each. ranks: how many share them by
  /// take_for(); for one alone, only those for one-sided transfers are set aside.
  static result<std::unique_ptr<chunk_pool>> open(memreg::arena& memory, std::uint32_t chunks,
                                                  std::uint32_t bytes, std::uint32_t ranks = 0) {
    auto piece = memory.take(std::size_t{chunks} * bytes);
    if (!piece) return piece.error();
    return std::unique_ptr<chunk_pool>(new chunk_pool(*piece, chunks, bytes, ranks));
  }

  /// For what completions alone bring back.
  [[nodiscard]] std::optional<std::uint32_t> take() noexcept {
    const std::optional<std::uint32_t> c = free_.take();
    return c ? c : take_set_aside(0);
  }
  /// For a request to that rank, which lend() names.
  [[nodiscard]] std::optional<std::uint32_t> take_for(std::uint32_t rank) noexcept {
    const std::optional<std::uint32_t> c = free_.take();
    return c ? c : take_share(rank);
  }
  /// For a holder that can do without: none of those set aside.
  [[nodiscard]] std::optional<std::uint32_t> take_spare() noexcept { return free_.take(); }
  void give(std::uint32_t c) noexcept {
    PENSTOCK_ASSERT(c, <, chunks_);
    if (c >= aside_) return free_.give(c);
    set_aside_.give(c);
    [[maybe_unused]] const auto before = left_.fetch_add(1, std::memory_order_relaxed);
    PENSTOCK_ASSERT(before, <, aside_);  // it was taken
  }

  [[nodiscard]] bool empty() const noexcept {
    return free_.empty() && left_.load(std::memory_order_relaxed) == 0;
  }

  [[nodiscard]] std::byte* at(std::uint32_t c) const noexcept {
    return memory_.base + std::size_t{c} * bytes_;
  }
  [[nodiscard]] std::uint32_t chunks() const noexcept { return chunks_; }
  [[nodiscard]] std::uint32_t chunk_bytes() const noexcept { return bytes_; }
  [[nodiscard]] const memreg::registration& keys() const noexcept { return memory_.keys; }
  [[nodiscard]] std::uint64_t base() const noexcept {
    return reinterpret_cast<std::uintptr_t>(memory_.base);
  }
  [[nodiscard]] std::size_t pinned() const noexcept { return std::size_t{chunks_} * bytes_; }

  /// Records that `rank` may answer into chunk c; while no request is out, no rank may. Checked
  /// when a reply names the chunk.
  void lend(std::uint32_t c, std::uint32_t rank) noexcept {
    PENSTOCK_ASSERT(c, <, chunks_);
    // R1 lend  release target_[c]  -> A1: what was built in the chunk comes before its answer
    target_[c].store(rank, std::memory_order_release);
  }
  /// Ends that right; true if it was rank's. Each lent chunk is answered once, or taken back.
  [[nodiscard]] bool settle(std::uint32_t c, std::uint32_t rank) noexcept {
    // A1 settle  acquire target_[c]  <- R1. The answer came by way of the device and the peer; this
    // says it also within this process.
    if (c >= chunks_ || target_[c].load(std::memory_order_acquire) != rank) return false;
    // By compare-and-swap: one thread may take the answer while another one takes the chunk back.
    if constexpr (concurrent(build_mode))
      return target_[c].compare_exchange_strong(rank, nobody, std::memory_order_relaxed);
    target_[c].store(nobody, std::memory_order_relaxed);
    return true;
  }
  /// The rank that may answer into chunk c, or nobody. A hint: settle() decides.
  [[nodiscard]] std::uint32_t lent_to(std::uint32_t c) const noexcept {
    return target_[c].load(std::memory_order_relaxed);
  }

 private:
  chunk_pool(const memreg::piece& memory, std::uint32_t chunks, std::uint32_t bytes,
             std::uint32_t ranks)
      : memory_(memory),
        chunks_(chunks),
        bytes_(bytes),
        one_sided_(ranks == 0 || chunks < 8 ? 0 : std::max(chunks / 16, 1u)),
        aside_(ranks > 1 ? chunks / 2 : one_sided_),
        free_(chunks, aside_),
        set_aside_(aside_),
        left_(aside_),
        target_(std::make_unique<std::atomic<std::uint32_t>[]>(chunks)) {
    for (std::uint32_t i = 0; i < chunks; ++i) target_[i].store(nobody, std::memory_order_relaxed);
  }
  /// Takes one of those set aside, if more than `but` of them are left.
  [[gnu::noinline]] std::optional<std::uint32_t> take_set_aside(std::uint32_t but) noexcept {
    std::uint32_t left = left_.load(std::memory_order_relaxed);
    // X1 left  cas relaxed left: a count; set_aside_ carries the chunk, and has no fewer
    do {
      if (left <= but) return std::nullopt;
    } while (!left_.compare_exchange_weak(left, left - 1, std::memory_order_relaxed,
                                          std::memory_order_relaxed));
    const std::optional<std::uint32_t> c = set_aside_.take();
    PENSTOCK_ASSERT(c.has_value(), ==, true);  // X1
    return c;
  }
  [[gnu::noinline]] std::optional<std::uint32_t> take_share(std::uint32_t rank) noexcept {
    const std::uint32_t left = left_.load(std::memory_order_relaxed);
    std::uint32_t held = 0;
    for (std::uint32_t c = 0; c < chunks_ && held + one_sided_ < left; ++c)
      held += lent_to(c) == rank ? 1u : 0u;
    return take_set_aside(held + one_sided_);
  }

  memreg::piece memory_;
  std::uint32_t chunks_, bytes_;
  std::uint32_t one_sided_, aside_;  // the numbers below aside_ are set aside
  index_pool<build_mode> free_, set_aside_;
  word<build_mode, std::uint32_t> left_;  // of set_aside_
  std::unique_ptr<std::atomic<std::uint32_t>[]> target_;
};

}  // namespace penstock::queues::PENSTOCK_ABI
