// ReqSB and RplSB: registered send chunks of one size, taken and given back by any thread without a
// lock. A request's chunk also receives its reply, so a chunk records the rank to which its request
// went.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "lib/base/build_mode.hpp"
#include "lib/base/index_pool.hpp"
#include "lib/base/result.hpp"
#include "memreg/arena.hpp"

namespace penstock::queues::PENSTOCK_ABI {

class chunk_pool {
 public:
  static constexpr std::uint32_t nobody = ~0u;

  /// At most 65,535 chunks (0xffff is no number) of `bytes` each.
  static result<std::unique_ptr<chunk_pool>> open(memreg::arena& memory, std::uint32_t chunks,
                                                  std::uint32_t bytes) {
    auto piece = memory.take(std::size_t{chunks} * bytes);
    if (!piece) return piece.error();
    return std::unique_ptr<chunk_pool>(new chunk_pool(*piece, chunks, bytes));
  }

  [[nodiscard]] std::optional<std::uint32_t> take() noexcept { return free_.take(); }
  void give(std::uint32_t c) noexcept { free_.give(c); }
  [[nodiscard]] bool empty() const noexcept { return free_.empty(); }

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
  chunk_pool(const memreg::piece& memory, std::uint32_t chunks, std::uint32_t bytes)
      : memory_(memory),
        chunks_(chunks),
        bytes_(bytes),
        free_(chunks),
        target_(std::make_unique<std::atomic<std::uint32_t>[]>(chunks)) {
    for (std::uint32_t i = 0; i < chunks; ++i) target_[i].store(nobody, std::memory_order_relaxed);
  }
  memreg::piece memory_;
  std::uint32_t chunks_, bytes_;
  index_pool<build_mode> free_;
  std::unique_ptr<std::atomic<std::uint32_t>[]> target_;
};

}  // namespace penstock::queues::PENSTOCK_ABI
