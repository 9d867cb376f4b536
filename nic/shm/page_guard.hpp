// Registered memory that the program has taken away: unmapped, protected (mprotect), or cut off its
// file. An adapter's pages are pinned; here a copy meets a fault. The device's copies are guarded:
// a handler of SIGSEGV and SIGBUS ends such a copy, and the request or the receive ends in an
// error. The same handler gives a child of a bare clone(2) its copy of moved memory, at its first
// touch (moved_memory.hpp).
//
// How a copy ends. The handler throws an exception through the copy's frames, which costs nothing
// until then, or, for the copy of eight bytes that a short message is, goes on at the label that a
// table names for the instruction.
//
// All other faults are the program's: its own handler, or the signal's usual end, gets them. A
// program that sets a handler later than it opens the device takes these services away.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "lib/base/cross_process.hpp"

namespace penstock::nic::shm {

/// Sets the handler, once. Any thread.
void install_page_guard() noexcept;

/// Calls copy(argument), which reads or writes registered memory and does nothing else. False: it
/// has met memory that is not there, and has done a part of its work.
[[nodiscard]] bool guarded_call(void (*copy)(void*), void* argument) noexcept;

/// The same for anything that can be called. It must own nothing that a destructor would release.
template <class Copy>
[[nodiscard]] inline bool guarded(Copy copy) noexcept {
  return guarded_call([](void* c) { (*static_cast<Copy*>(c))(); }, &copy);
}

/// Copies n bytes of, or to, registered memory. False: as guarded_call().
[[nodiscard]] inline bool guarded_copy(void* to, const void* from, std::size_t n) noexcept {
  return guarded([=] { std::memcpy(to, from, n); });
}

/// The same for eight bytes: two instructions, which page_guard.cpp finds in a table.
[[nodiscard]] inline bool guarded_copy_8(void* to, const void* from) noexcept {
#if (defined(__x86_64__) || defined(__aarch64__)) && !defined(PENSTOCK_TSAN)
#if defined(__x86_64__)
#define PENSTOCK_COPY_8 "1: movq (%1), %%rax\n movq %%rax, (%0)\n2:\n"
#define PENSTOCK_COPY_8_USES "rax"
#else
#define PENSTOCK_COPY_8 "1: ldr x9, [%1]\n str x9, [%0]\n2:\n"
#define PENSTOCK_COPY_8_USES "x9"
#endif
  // In the table: where it begins, where it ends, where a fault between the two goes on.
  __asm__ volatile goto(PENSTOCK_COPY_8
                        ".pushsection penstock_copies, \"a?\"\n"
                        ".balign 4\n .long 1b - ., 2b - ., %l[gone] - .\n"
                        ".popsection\n"
                        :
                        : "r"(to), "r"(from)
                        : "memory", PENSTOCK_COPY_8_USES
                        : gone);
  return true;
gone:
  return false;
#undef PENSTOCK_COPY_8
#undef PENSTOCK_COPY_8_USES
#else
  return guarded_copy(to, from, 8);
#endif
}

/// True if each page of that memory can be read now.
[[nodiscard]] bool readable(const void* at, std::size_t bytes) noexcept;

}  // namespace penstock::nic::shm
