#include "lib/base/mapped_memory.hpp"

#include <doctest/doctest.h>
#include <sys/mman.h>

#include <cstring>

#include "lib/base/page.hpp"

using namespace penstock;

namespace {

std::byte* map(std::size_t bytes) {
  void* p = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(p != MAP_FAILED);
  REQUIRE(::madvise(p, bytes, MADV_NOHUGEPAGE) == 0);
  return static_cast<std::byte*>(p);
}

mapped_use use_of(const char* purpose) {
  for (const mapped_use& u : ask_kernel_for_memory().noted)
    if (u.purpose == purpose) return u;
  return {};
}

}  // namespace

TEST_CASE("a note's pages are those that were written") {
  const std::size_t bytes = 64 * page_bytes();
  std::byte* const p = map(bytes);
  note_mapped("tried", p, bytes);
  CHECK(use_of("tried").mapped == bytes);
  CHECK(use_of("tried").resident == 0);
  std::memset(p, 1, 10 * page_bytes());
  CHECK(use_of("tried").resident == 10 * page_bytes());
  CHECK(ask_kernel_for_memory().process > 10 * page_bytes());
  forget_mapped(p);
  CHECK(use_of("tried").mapped == 0);
  ::munmap(p, bytes);
}

TEST_CASE("a note of a part of a mapping counts its own bytes alone") {
  const std::size_t page = page_bytes(), bytes = 600 * page;
  std::byte* const p = map(bytes);
  std::memset(p, 1, bytes);
  note_mapped("parts", p + page / 2, page);
  note_mapped("parts", p + 10 * page + 100, 550 * page);
  CHECK(use_of("parts").resident == 551 * page);
  REQUIRE(::madvise(p + 20 * page, page, MADV_DONTNEED) == 0);
  CHECK(use_of("parts").resident == 550 * page);
  forget_mapped(p + page / 2);
  forget_mapped(p + 10 * page + 100);
  forget_mapped(p);  // never noted
  ::munmap(p, bytes);
}
