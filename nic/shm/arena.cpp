#include "nic/shm/arena.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <string>

#include "lib/base/assert.hpp"
#include "lib/base/descriptors.hpp"
#include "lib/base/log.hpp"
#include "lib/base/mapped_memory.hpp"
#include "lib/base/page.hpp"
#include "lib/base/result.hpp"
#include "lib/base/shortage.hpp"

namespace penstock::nic::shm {
namespace {
constexpr std::uint64_t table_step =
    widest_page;  // tables grow by this much, whole pages everywhere

std::uint64_t whole_pages(std::uint64_t n) noexcept {
  return (n + page_bytes() - 1) & ~(page_bytes() - 1);
}
}  // namespace

arena::~arena() {
  forget_mapped(base_);
  if (base_ != nullptr) ::munmap(base_, arena_bytes);
  close_kept(fd_);
}

int arena::open(const nonce& name) {
  if (!file_may_have(arena_bytes)) return EFBIG;
  fd_ =
      kept(opened("memfd_create", ::memfd_create("penstock-shm", MFD_CLOEXEC | MFD_ALLOW_SEALING)));
  if (fd_ < 0) return errno;
  if (asked("ftruncate", ::ftruncate(fd_, static_cast<off_t>(arena_bytes))) != 0) return errno;
  if (asked("fcntl", ::fcntl(fd_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) != 0)
    return errno;
  void* p = asked("mmap", ::mmap(nullptr, arena_bytes, PROT_READ | PROT_WRITE,
                                 MAP_SHARED | MAP_NORESERVE, fd_, 0));
  if (p == MAP_FAILED) return errno;
  base_ = static_cast<std::byte*>(p);
  note_mapped("shm0's rings, written by others", p, arena_bytes);
  ::madvise(p, arena_bytes, MADV_DONTDUMP);
  if (const int e = commit(0, page_bytes())) return e;
  auto* h = new (base_) arena_header{};
  h->magic = arena_magic;
  h->version = arena_version;
  h->name = name;
  return 0;
}

int arena::commit(std::uint64_t offset, std::uint64_t bytes) {
  int r;
  do
    r = asked("fallocate",
              ::fallocate(fd_, 0, static_cast<off_t>(offset), static_cast<off_t>(bytes)));
  while (r != 0 && errno == EINTR);
  if (r == 0) return 0;
  const int e = errno;
  const failure why{
      "shm0: no memory for " + std::to_string(bytes) + " bytes of queues", e,
      e == ENOSPC || e == ENOMEM ? "free memory or use fewer connections" : what_to_raise(e)};
  log(log_level::error, "%s", why.message().c_str());
  return e == ENOSPC ? ENOMEM : e;
}

std::uint64_t arena::carve(std::uint64_t bytes, std::uint64_t with_memory) {
  bytes = whole_pages(bytes);
  const std::lock_guard guard(lock_);
  auto& [free, made] = pieces_[bytes];
  std::uint64_t offset = 0;
  if (!free.empty()) {
    offset = free.back();
  } else if (heap_top_ + bytes <= arena_bytes) {
    offset = heap_top_;
    if (free.capacity() == made) free.reserve(2 * made + 1);
  } else {
    errno = ENOMEM;
    return 0;
  }
  if (const int e = commit(offset, std::min(bytes, whole_pages(with_memory)))) {
    errno = e;
    return 0;
  }
  if (!free.empty())
    free.pop_back();
  else
    heap_top_ += bytes, ++made;
  PENSTOCK_ASSERT(offset + bytes, <=, heap_top_);
  PENSTOCK_ASSERT(heap_top_, <=, arena_bytes);
  return offset;
}

void arena::give_back(std::uint64_t offset, std::uint64_t bytes) noexcept {
  bytes = whole_pages(bytes);
  // The hole reads as zero when it is committed again.
  ::fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
              static_cast<off_t>(bytes));
  const std::lock_guard guard(lock_);
  PENSTOCK_ASSERT(offset + bytes, <=, heap_top_);
  auto& [free, made] = pieces_[bytes];
  PENSTOCK_ASSERT(free.size(), <, made);  // each is free once
  free.push_back(offset);
}

int arena::take_entry(table t) {
  const std::lock_guard guard(lock_);
  free_list& l = tables_[static_cast<int>(t)];
  const table_place& place = table_places[static_cast<int>(t)];
  if (!l.entries.empty()) {
    const std::uint32_t i = l.entries.back();
    l.entries.pop_back();
    PENSTOCK_ASSERT(i, <, l.used);
    return static_cast<int>(i);
  }
  if (l.used == place.capacity) {
    errno = ENOMEM;
    return -1;
  }
  if (l.used == l.committed) {
    const std::uint32_t more = static_cast<std::uint32_t>(table_step / place.entry_bytes);
    l.entries.reserve(l.committed + more);
    if (const int e = commit(place.offset + std::uint64_t{l.committed} * place.entry_bytes,
                             std::uint64_t{more} * place.entry_bytes)) {
      errno = e;
      return -1;
    }
    l.committed += more;
    // H1 high water  store-release used  -> H2: what lies below is committed and may be touched
    header().used[static_cast<int>(t)].store(std::min(l.committed, place.capacity),
                                             std::memory_order_release);
  }
  PENSTOCK_ASSERT(l.used, <, l.committed);
  return static_cast<int>(l.used++);
}

void arena::free_entry(table t, std::uint32_t index) noexcept {
  const std::lock_guard guard(lock_);
  free_list& l = tables_[static_cast<int>(t)];
  PENSTOCK_ASSERT(index, <, l.used);
  PENSTOCK_ASSERT(l.entries.size(), <, l.used);  // each is free once
  l.entries.push_back(index);
}

}  // namespace penstock::nic::shm
