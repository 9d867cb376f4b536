// Registered memory in pieces. An arena grows by blocks, each a segment of its own (memfd-backed,
// registered once). Rings, chunk pools and the jemalloc heap take their memory here. Pieces are
// never given back one by one: code that recycles them keeps its own free list.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "lib/base/result.hpp"
#include "memreg/registrar.hpp"
#include "memreg/segment.hpp"

namespace penstock::memreg {

/// A piece of an arena: registered memory that a same-host peer can map as [offset, offset+bytes)
/// of fd. Belongs to the arena.
struct piece {
  std::byte* base = nullptr;
  std::size_t bytes = 0;
  registration keys;
  int fd = -1;
  std::uint64_t offset = 0;
};

struct arena_options {
  std::size_t block_bytes = std::size_t{2}
                            << 20;   ///< least growth; larger requests get a block alone
  std::size_t max_bytes = SIZE_MAX;  ///< refuse to grow beyond
  unsigned access_bits = access::all;
  bool huge_pages = true;
  const char* name = "penstock-arena";
};

/// Hands out pieces until it is destroyed, which deregisters and unmaps everything. Any thread;
/// set-up and slow paths only (a mutex, and system calls when it grows).
class arena {
 public:
  /// device may be null: the memory is then shared but not registered. It must outlive the arena.
  explicit arena(registrar* device, const arena_options& options = {})
      : device_(device), options_(options) {}
  arena(const arena&) = delete;
  arena& operator=(const arena&) = delete;

  /// A piece of `bytes` (> 0), zero-filled, aligned to `align` (a power of two, at most a page).
  /// It never crosses blocks, so one registration covers it. Errors: memory, max_bytes, the device.
  result<piece> take(std::size_t bytes, std::size_t align = 64);

  /// Bytes of all blocks.
  [[nodiscard]] std::size_t bytes() const;

 private:
  registrar* const device_;
  const arena_options options_;
  mutable std::mutex lock_;
  std::vector<std::unique_ptr<segment>> blocks_;
  std::size_t bytes_ = 0;
  std::size_t used_ = 0;  // bytes used of the last block
};

}  // namespace penstock::memreg
