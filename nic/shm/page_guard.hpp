// Registered memory that the program has taken away: unmapped, protected (mprotect), or cut off its
// file. An adapter's pages are pinned; here a copy meets a fault. The device's copies are guarded:
// a handler of SIGSEGV and SIGBUS ends such a copy, and the request or the receive ends in an
// error. The same handler gives a child of a bare clone(2) its copy of moved memory, at its first
// touch (moved_memory.hpp).
//
// How a copy ends. The handler throws an exception through the copy's frames, which costs nothing
// until then, or, for eight bytes and for a look at one page, which short messages need, goes on at
// the label that a table names for the instruction.
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
[[nodiscard]] bool guarded_copy(void* to, const void* from, std::size_t n) noexcept;

#if (defined(__x86_64__) || defined(__aarch64__)) && !defined(PENSTOCK_TSAN)
// Instructions between 1: and 2:, of which page_guard.cpp finds three words in a table: where they
// begin, where they end, and where a fault between the two goes on, at `gone`.
#define PENSTOCK_GUARDED(instructions, uses, ...)                                     \
  __asm__ volatile goto("1: " instructions                                            \
                        "\n2:\n.pushsection penstock_copies, \"a?\"\n"                \
                        ".balign 4\n .long 1b - ., 2b - ., %l[gone] - .\n.popsection" \
                        :                                                             \
                        : __VA_ARGS__                                                 \
                        : "memory", uses                                              \
                        : gone)
#endif

/// guarded_copy() of eight bytes: two instructions.
[[nodiscard]] inline bool guarded_copy_8(void* to, const void* from) noexcept {
#if !defined(PENSTOCK_GUARDED)
  return guarded_copy(to, from, 8);
#else
#if defined(__x86_64__)
  PENSTOCK_GUARDED("movq (%1), %%rax\n movq %%rax, (%0)", "rax", "r"(to), "r"(from));
#else
  PENSTOCK_GUARDED("ldr x9, [%1]\n str x9, [%0]", "x9", "r"(to), "r"(from));
#endif
  return true;
gone:
  return false;
#endif
}

/// True if each page of that memory can be read now.
[[nodiscard]] bool readable_slow(const void* at, std::size_t bytes) noexcept;
/// The same; one instruction where it lies on one page.
[[nodiscard]] inline bool readable(const void* at, std::size_t bytes) noexcept {
#if defined(PENSTOCK_GUARDED)
  constexpr std::size_t smallest_page = 4096;
  if (bytes != 0 && reinterpret_cast<std::uintptr_t>(at) % smallest_page + bytes <= smallest_page) {
#if defined(__x86_64__)
    PENSTOCK_GUARDED("movb (%0), %%al", "rax", "r"(at));
#else
    PENSTOCK_GUARDED("ldrb w9, [%0]", "x9", "r"(at));
#endif
    return true;
  }
  return readable_slow(at, bytes);
gone:
  return false;
#else
  return readable_slow(at, bytes);
#endif
}
#undef PENSTOCK_GUARDED

}  // namespace penstock::nic::shm
