// What lies where in this process's memory, as the kernel reports it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <vector>

namespace penstock::nic::shm {

/// A piece of the address space.
struct mapped_piece {
  std::uint64_t begin = 0, end = 0, offset = 0;
  std::uint64_t inode = 0;  ///< of the file behind it; 0: none
  bool readable = false;
  bool writable = false;  ///< readable and writable
  int rights = 0;         ///< PROT_READ and so on
  bool shared = false;
  bool named = false;  ///< a stack or another special place; the heap is not one
};

/// The pieces that touch [first, last), in order. Empty if they cannot be known.
std::vector<mapped_piece> pieces_of(std::uint64_t first, std::uint64_t last);

/// An open /proc/self/pagemap, or -1.
class page_states {
 public:
  page_states() noexcept;
  ~page_states();
  page_states(const page_states&) = delete;
  page_states& operator=(const page_states&) = delete;
  /// The end of the run of pages that begins at `first`: either all of them hold something
  /// (*present), or none does.
  [[nodiscard]] std::uint64_t run(std::uint64_t first, std::uint64_t last,
                                  bool* present) const noexcept;

 private:
  int fd_;
};

}  // namespace penstock::nic::shm
