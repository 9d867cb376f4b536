// Large copies that the progress thread makes while the program computes: words and functions,
// without the engine. transfers (rma.hpp) uses it where there is a progress thread.
//
//   left       pieces that are not copied yet; 0: the place is free
//   unclaimed  pieces that no thread has begun: the last one is begun first
//
// Who with whom: any thread begins a copy, and any thread takes a step, which is one piece: the
// progress thread, and threads that wait for transfers. So a copy ends though the progress thread
// gets no core. A thread that claims a piece by compare-and-swap has the place's other words until
// it counts the piece as copied: (HC-a) they are written by the thread that took the place, before
// unclaimed says that there are pieces, and not again before left is 0. Nothing waits, and nothing
// allocates.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "penstock/mode.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

class handed_copies {
 public:
  explicit handed_copies(std::size_t bytes_of_a_piece = std::size_t{128} << 10) noexcept
      : piece_bytes_(bytes_of_a_piece) {}

  /// Has `bytes` bytes copied by steps, and 1 added to pending, which the last step takes away.
  /// False: there is no place for it now.
  [[nodiscard]] bool begin(std::byte* to, const std::byte* from, std::size_t bytes,
                           std::atomic<std::uint32_t>& pending) noexcept {
    const auto pieces = static_cast<std::uint32_t>((bytes + piece_bytes_ - 1) / piece_bytes_);
    for (place& p : places_) {
      std::uint32_t free = 0;
      // HC1 take  cas acquire left  <- HC4: who copied there has read the words
      if (!p.left.compare_exchange_strong(free, pieces, std::memory_order_acquire,
                                          std::memory_order_relaxed))
        continue;
      p.to = to;
      p.from = from;
      p.bytes = bytes;
      p.pending = &pending;
      pending.fetch_add(1, std::memory_order_relaxed);  // relaxed: as HC2
      // HC2 begin  release unclaimed  -> HC3: the words above
      p.unclaimed.store(pieces, std::memory_order_release);
      return true;
    }
    return false;
  }

  /// Has copy(to, from, bytes) copy a piece, if one is left. Returns whether there was one.
  template <class Copy>
  bool step(Copy&& copy) noexcept {
    for (place& p : places_) {
      std::uint32_t n = p.unclaimed.load(std::memory_order_relaxed);
      while (n != 0) {
        // HC3 claim  cas acquire unclaimed  <- HC2: the words of the copy
        if (!p.unclaimed.compare_exchange_weak(n, n - 1, std::memory_order_acquire,
                                               std::memory_order_relaxed))
          continue;
        const std::size_t at = std::size_t{n - 1} * piece_bytes_;
        copy(p.to + at, p.from + at, std::min<std::size_t>(piece_bytes_, p.bytes - at));
        std::atomic<std::uint32_t>& pending = *p.pending;
        // HC4 copied  acq_rel left  -> HC1; -> the last piece's HC4: what others have copied
        if (p.left.fetch_sub(1, std::memory_order_acq_rel) == 1)
          // R1 complete  release pending  -> P1 (rma.hpp): the bytes are there
          pending.fetch_sub(1, std::memory_order_release);
        return true;
      }
    }
    return false;
  }

 private:
  struct place {
    std::atomic<std::uint32_t> left{0}, unclaimed{0};
    std::byte* to = nullptr;
    const std::byte* from = nullptr;
    std::size_t bytes = 0;
    std::atomic<std::uint32_t>* pending = nullptr;
  };
  const std::size_t piece_bytes_;
  place places_[4];
};

}  // namespace penstock::conduit::PENSTOCK_ABI
