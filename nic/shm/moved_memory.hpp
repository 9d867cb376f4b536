// Registered memory that peers can map although the program got it from malloc. When it is
// registered, its pages are moved onto a memory file, in place; they are moved back when no
// registration needs them. The process has one such file, and a page's offset in it is its address.
// So registrations may overlap, and any range of moved pages is one part of the file.
//
// Moved is private anonymous memory that may be read and written (no more), but no stack. The
// process must have no threads but the device's own, since another thread could write to a page
// between its copying and its replacement. All other memory stays where it is and is reached in
// slower ways. A child of fork gets copies of moved pages, as of private memory, and the parent
// waits until they are made; if the program has asked libibverbs to keep registered memory from its
// children, they get none. A child of a bare clone(2) gets its copies of all of them when it first
// touches one, by a handler of SIGSEGV (page_guard.hpp): what the parent has written by then is in
// them. Before that a system call on such memory ends with EFAULT there.
#pragma once

#include <cstdint>

namespace penstock::nic::shm {

class moved_memory {
 public:
  /// What a registration holds.
  struct hold {
    bool held = false;     ///< let_go() has to be called
    bool moved = false;    ///< all of it lies in the file
    std::uint32_t life{};  ///< of the process: a child of fork need not let go
  };

  /// A registration begins: moves what can be moved of its memory.
  static hold take(std::uint64_t address, std::uint64_t bytes) noexcept;
  /// The registration has ended, and no peer touches the memory any more.
  static void let_go(const hold& h, std::uint64_t address, std::uint64_t bytes) noexcept;
  /// The file; a page's offset in it is its address. Any thread. -1: nothing was moved in this
  /// process.
  static int file() noexcept;
  /// Makes the file, which take() does otherwise: then peers get it when they connect. False: it
  /// cannot be made. Not for the device's threads: take() waits for them.
  static bool make_file() noexcept;
  /// Called where a process touches memory that it has not. True: it is a child of a bare clone(2),
  /// the memory was moved in its parent, and the child has a copy now. Takes no lock and no memory
  /// from the heap.
  static bool copy_for_child(std::uint64_t address) noexcept;
};

}  // namespace penstock::nic::shm
