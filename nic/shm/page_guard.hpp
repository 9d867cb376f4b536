// Registered memory that the program has unmapped. An adapter's pages are pinned; here a copy meets
// a hole. The device's copies are guarded: a handler of SIGSEGV fills the hole for as long as the
// copy lasts, and the request or the receive ends in an error. The same handler gives a child of a
// bare clone(2) its copy of moved memory, at its first touch (moved_memory.hpp).
//
// All other faults are the program's: its own handler, or the signal's usual end, gets them. A
// program that sets a handler later than it opens the device takes these services away.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace penstock::nic::shm {

/// Sets the handler, once. Any thread.
void install_page_guard() noexcept;

/// What a thread's copy has met. The handler fills holes with more pages each time, so that these
/// places are enough for any copy.
struct copy_holes {
  struct hole {
    void* at;
    std::size_t bytes;
  };
  static constexpr std::uint32_t most = 24;
  bool copying = false;
  std::uint32_t count = 0;
  hole at[most]{};
};
extern thread_local constinit copy_holes holes_of_thread __attribute__((tls_model("initial-exec")));

/// Removes what the handler has put into holes.
[[gnu::cold]] void remove_fillings() noexcept;

/// Does copy(), which reads or writes registered memory and does nothing else. False: some of that
/// memory is not mapped; zeros were read there, and what was written there is gone.
template <class Copy>
[[nodiscard]] inline bool guarded(Copy copy) noexcept {
  copy_holes& h = holes_of_thread;
  h.copying = true;
  std::atomic_signal_fence(std::memory_order_seq_cst);  // the handler is this thread's
  copy();
  std::atomic_signal_fence(std::memory_order_seq_cst);
  h.copying = false;
  if (h.count == 0) [[likely]]
    return true;
  remove_fillings();
  return false;
}

/// True if each page of that memory can be read now.
[[nodiscard]] bool readable(const void* at, std::size_t bytes) noexcept;

}  // namespace penstock::nic::shm
