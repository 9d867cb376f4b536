#include "lib/base/zero_pages.hpp"

#include <sys/mman.h>

#include <new>

#include "lib/base/mapped_memory.hpp"
#include "lib/base/no_memory.hpp"

namespace penstock {

void* zero_pages(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) throw no_memory_for(bytes, "tables by rank or queue pair");
  (void)::madvise(at, bytes, MADV_NOHUGEPAGE);  // refused only where there are no huge pages
  note_mapped("tables by rank or queue pair", at, bytes);
  return at;
}

void release_zero_pages(void* at, std::size_t bytes) noexcept {
  if (at == nullptr) return;
  forget_mapped(at);
  ::munmap(at, bytes);
}

}  // namespace penstock
