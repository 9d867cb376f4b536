#include "lib/base/zero_pages.hpp"

#include <sys/mman.h>

#include <new>

#include "lib/base/mapped_memory.hpp"
#include "lib/base/no_memory.hpp"

#if defined(__SANITIZE_ADDRESS__)
#define PENSTOCK_LEAKS_ARE_FOUND
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PENSTOCK_LEAKS_ARE_FOUND
#endif
#endif
#ifdef PENSTOCK_LEAKS_ARE_FOUND
#include <sanitizer/lsan_interface.h>
#endif

namespace penstock {

namespace {

// What these tables point to is not lost: LeakSanitizer looks into no pages of mmap() but those it
// is told of.
void note_pointers([[maybe_unused]] void* at, [[maybe_unused]] std::size_t bytes) {
#ifdef PENSTOCK_LEAKS_ARE_FOUND
  __lsan_register_root_region(at, bytes);
#endif
}

void forget_pointers([[maybe_unused]] void* at, [[maybe_unused]] std::size_t bytes) {
#ifdef PENSTOCK_LEAKS_ARE_FOUND
  __lsan_unregister_root_region(at, bytes);
#endif
}

}  // namespace

void* zero_pages(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) throw no_memory_for(bytes, "tables by rank or queue pair");
  (void)::madvise(at, bytes, MADV_NOHUGEPAGE);  // refused only where there are no huge pages
  note_pointers(at, bytes);
  note_mapped("tables by rank or queue pair", at, bytes);
  return at;
}

void release_zero_pages(void* at, std::size_t bytes) noexcept {
  if (at == nullptr) return;
  forget_mapped(at);
  forget_pointers(at, bytes);
  ::munmap(at, bytes);
}

}  // namespace penstock
