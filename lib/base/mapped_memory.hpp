// Which memory Penstock has mapped in this process, and for what: the memory report asks, beside
// the kernel's page tables. Any folder may note its mappings. Any thread; set-up and slow paths
// only (a mutex), since no message's path maps memory.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace penstock {

/// Notes [at, at + bytes). purpose is kept as a pointer and must last. Where there is no memory for
/// the note, the report lacks it.
void note_mapped(const char* purpose, const void* at, std::size_t bytes) noexcept;
/// Before the mapping that begins at `at` is given back; nothing if it was not noted.
void forget_mapped(const void* at) noexcept;

/// What is mapped for one purpose.
struct mapped_use {
  std::string purpose;
  std::size_t mapped = 0, resident = 0;  ///< bytes
};
/// What a process has in memory, as the kernel counts it (Rss: pages that this process has used,
/// also if others use them).
struct memory_in_use {
  std::vector<mapped_use> noted;  ///< one entry for each purpose, in the order of the first notes
  std::size_t process = 0;        ///< all of the process's pages
};
/// Reads /proc/self/smaps. Where that cannot be read, all is zero. Cost: the kernel walks the
/// process's pages.
memory_in_use ask_kernel_for_memory();

}  // namespace penstock
