// A small allocator over a part of this rank's segment: blocks in which others may put. penstock/
// rpc.hpp takes large values through one. Header only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <span>

#include "penstock/mode.hpp"

namespace penstock::PENSTOCK_ABI {

/// First fit, with neighbours joined when they are freed. What it knows of the blocks lies outside
/// of them, so that nothing that others put can harm it. One thread at a time. Cost: a walk over
/// the free blocks.
class segment_blocks {
 public:
  static constexpr std::size_t align = 64;  ///< of blocks, and the least that one takes

  segment_blocks() = default;
  /// area: a part of the segment, which the program uses for nothing else; it outlives this object.
  explicit segment_blocks(std::span<std::byte> area) {
    const auto first = reinterpret_cast<std::uintptr_t>(area.data());
    const std::size_t skip = (align - first % align) % align;
    if (area.size() < skip + align) return;
    free_.emplace(area.data() + skip, (area.size() - skip) / align * align);
  }

  /// A block of at least `bytes` bytes; null if no free part is large enough.
  [[nodiscard]] std::byte* take(std::size_t bytes) {
    const std::size_t n = bytes == 0 ? align : (bytes + align - 1) / align * align;
    if (n < bytes) return nullptr;
    for (auto i = free_.begin(); i != free_.end(); ++i) {
      if (i->second < n) continue;
      std::byte* const at = i->first;
      taken_.emplace(at, n);
      if (i->second > n) free_.emplace(at + n, i->second - n);
      free_.erase(i);
      return at;
    }
    return nullptr;
  }
  /// Gives a block back. False: there is no such block.
  bool give(std::byte* at) {
    const auto mine = taken_.find(at);
    if (mine == taken_.end()) return false;
    auto i = free_.emplace(at, mine->second).first;
    taken_.erase(mine);
    if (const auto next = std::next(i); next != free_.end() && at + i->second == next->first) {
      i->second += next->second;
      free_.erase(next);
    }
    if (i != free_.begin())
      if (const auto before = std::prev(i); before->first + before->second == at) {
        before->second += i->second;
        free_.erase(i);
      }
    return true;
  }
  /// The size of the block at that address; 0: there is none.
  [[nodiscard]] std::size_t size_of(std::byte* at) const {
    const auto mine = taken_.find(at);
    return mine == taken_.end() ? 0 : mine->second;
  }
  /// True if no block is taken.
  [[nodiscard]] bool unused() const noexcept { return taken_.empty(); }

 private:
  std::map<std::byte*, std::size_t> free_, taken_;
};

}  // namespace penstock::PENSTOCK_ABI
