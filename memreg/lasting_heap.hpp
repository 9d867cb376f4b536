// Memory that stays registered for as long as it lives, with an allocator over it: the part of a
// registered heap that the engine knows. The heap itself is a component of its own (heap.hpp,
// libpenstock-heap), so that the libraries that every program links do not choose its malloc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "lib/base/result.hpp"
#include "memreg/registrar.hpp"

namespace penstock::memreg {

/// Every call but the destructor: any thread, several at once.
class lasting_heap {
 public:
  lasting_heap() = default;
  lasting_heap(const lasting_heap&) = delete;
  lasting_heap& operator=(const lasting_heap&) = delete;
  /// By then everything allocated must have been freed or be unused, and no thread may use the
  /// heap.
  virtual ~lasting_heap() = default;

  /// Memory of at least `bytes` aligned to `align` (a power of two), or null when the heap is full
  /// or the device refuses to register more.
  [[nodiscard]] virtual void* allocate(std::size_t bytes, std::size_t align) noexcept = 0;
  /// Gives back what allocate() returned; null is allowed.
  virtual void deallocate(void* p) noexcept = 0;
  /// Why the last growth failed; only meaningful after allocate() returned null.
  [[nodiscard]] virtual failure last_failure() const = 0;

  [[nodiscard]] bool contains(const void* p) const noexcept {
    const auto a = reinterpret_cast<std::uintptr_t>(p);
    return a - base_ < max_bytes_;
  }
  /// The registration that covers the block at p; contains(p) must be true. Every block lies in one
  /// registration. About 2 ns.
  [[nodiscard]] const registration& keys_of(const void* p) const noexcept {
    return chunks_[(reinterpret_cast<std::uintptr_t>(p) - base_) >> chunk_shift_];
  }

 protected:
  std::uintptr_t base_ = 0;
  std::size_t max_bytes_ = 0;
  unsigned chunk_shift_ = 0;
  std::unique_ptr<registration[]> chunks_;
};

/// The function through which the engine gets a heap: it makes one whose memory `device` registers.
using heap_maker = result<std::unique_ptr<lasting_heap>> (*)(registrar& device);

}  // namespace penstock::memreg
