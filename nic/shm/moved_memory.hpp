// Registered memory that peers can map although the program got it from malloc: its pages are moved
// onto a memory file, in place, when it is registered, and moved back when no registration needs
// them. The file is one for the process, and an address is its own place in it; so registrations
// may overlap, and any range of moved pages is one part of the file.
//
// What is moved: private anonymous memory that may be read and written, but no stack, while the
// process has no threads but the device's own: another one could write to a page between its copy
// and its replacement. All else stays where it is, and is reached in slower ways. A child of fork
// gets copies, as of private memory; the parent waits for them, and for nothing where the memory is
// MADV_DONTFORK. A child of a bare clone(2) shares moved pages with its parent until it execs.
#pragma once

#include <cstdint>

namespace penstock::nic::shm {

class moved_memory {
 public:
  /// What a registration holds.
  struct hold {
    bool held = false;     ///< let_go() is owed
    bool moved = false;    ///< all of it lies in the file
    std::uint32_t life{};  ///< of the process: a child of fork owes nothing
  };

  /// A registration for peers of mapped memory begins; moves what can be moved.
  static hold take(std::uint64_t address, std::uint64_t bytes) noexcept;
  /// It has ended, and no peer touches the memory any more.
  static void let_go(const hold& h, std::uint64_t address, std::uint64_t bytes) noexcept;
  /// The file; the place in it is the address. Any thread. -1: nothing was moved in this process.
  static int file() noexcept;
};

}  // namespace penstock::nic::shm
