// The accesses to a program's memory that the device makes for a peer. Their order beside the
// program's own is told by another process, which ThreadSanitizer cannot see: so these functions,
// and no more of the device than these, are named in tools/cmake/races.supp.
#pragma once

#include <sys/socket.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "nic/shm/page_guard.hpp"
#include "nic/shm/put_bytes.hpp"

namespace penstock::nic::tcp::peer_memory {

/// Puts a WRITE's bytes. False: the program has unmapped some of them.
[[nodiscard]] inline bool put(std::byte* to, const std::byte* from, std::size_t n) noexcept {
  return shm::put_bytes(to, from, n);
}

/// Copies what a READ wants. False: as above.
[[nodiscard]] inline bool get(std::byte* to, const std::byte* from, std::size_t n) noexcept {
  return shm::guarded_copy(to, from, n);
}

/// Does an atomic: adds, or, with `swap`, compares with *old and stores *swap. *old: what was
/// there.
[[nodiscard]] inline bool on_word(std::uint64_t address, std::uint64_t operand,
                                  const std::uint64_t* swap, std::uint64_t* old) noexcept {
  std::atomic_ref<std::uint64_t> word(*reinterpret_cast<std::uint64_t*>(address));
  *old = operand;
  // Orders: the target's program may take part, as with an adapter's atomics
  return shm::guarded([&] {
    if (swap == nullptr)
      *old = word.fetch_add(operand, std::memory_order_acq_rel);
    else
      word.compare_exchange_strong(*old, *swap, std::memory_order_acq_rel,
                                   std::memory_order_acquire);
  });
}

/// The kernel reads what a READ or a long request wants, or puts a WRITE's bytes.
inline ssize_t send(int socket, const msghdr& m) noexcept {
  return ::sendmsg(socket, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
}
inline ssize_t receive(int socket, msghdr& m) noexcept {
  return ::recvmsg(socket, &m, MSG_DONTWAIT);
}

}  // namespace penstock::nic::tcp::peer_memory
