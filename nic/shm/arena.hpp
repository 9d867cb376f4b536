// A context's memory file: the tables its peers read and the rings they write. The file is sparse,
// sealed against shrinking, and never in /dev/shm. Memory is committed when a piece is carved, so
// that a lack of memory is an errno at that call and never a SIGBUS later.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "nic/shm/layout.hpp"

namespace penstock::nic::shm {

class arena {
 public:
  arena() = default;
  ~arena();
  arena(const arena&) = delete;
  arena& operator=(const arena&) = delete;

  /// Makes and maps the file. 0, or an errno.
  int open(const nonce& name);
  [[nodiscard]] int fd() const noexcept { return fd_; }
  [[nodiscard]] arena_header& header() noexcept { return *reinterpret_cast<arena_header*>(base_); }
  [[nodiscard]] std::byte* at(std::uint64_t offset) noexcept { return base_ + offset; }

  /// A zeroed piece of the heap; memory for its first `with_memory` bytes is committed. Answers 0,
  /// with errno set, when there is no room or no memory. Any thread.
  std::uint64_t carve(std::uint64_t bytes, std::uint64_t with_memory);
  /// Returns a piece to the heap; no peer writes to it any more.
  void give_back(std::uint64_t offset, std::uint64_t bytes) noexcept;

  /// Takes a free entry of a table and commits its memory; -1 with errno set when there is none.
  int take_entry(table t);
  void free_entry(table t, std::uint32_t index) noexcept;
  template <class Entry>
  [[nodiscard]] Entry& entry(table t, std::uint32_t index) noexcept {
    return reinterpret_cast<Entry*>(base_ + table_places[static_cast<int>(t)].offset)[index];
  }

 private:
  int commit(std::uint64_t offset, std::uint64_t bytes);

  int fd_ = -1;
  std::byte* base_ = nullptr;
  std::mutex lock_;  // taken by set-up calls only
  std::uint64_t heap_top_ = heap_offset;
  // All that can be free has room in these lists, so giving back asks for no memory.
  struct free_pieces {
    std::vector<std::uint64_t> offsets;
    std::size_t made = 0;  ///< pieces of that size that were ever carved
  };
  std::unordered_map<std::uint64_t, free_pieces> pieces_;  // by size
  struct free_list {
    std::vector<std::uint32_t> entries;
    std::uint32_t used = 0, committed = 0;
  } tables_[static_cast<int>(table::count)];
};

}  // namespace penstock::nic::shm
