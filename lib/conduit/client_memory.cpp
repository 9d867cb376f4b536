#include "lib/conduit/client_memory.hpp"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>

#include "lib/base/descriptors.hpp"
#include "lib/base/immortal.hpp"
#include "lib/base/page.hpp"
#include "nic/shm/memory_map.hpp"
#include "nic/shm/own_threads.hpp"

namespace penstock::conduit::PENSTOCK_ABI {
namespace {

constexpr std::size_t piece_bytes = 4u << 20;  // this much memory exists twice meanwhile

const char* objection(const client_pages& p) {
  const auto first = reinterpret_cast<std::uintptr_t>(p.first);
  std::uintptr_t at = first;
  for (const nic::shm::mapped_piece& piece : nic::shm::pieces_of(first, first + p.bytes)) {
    if (piece.begin > at) break;
    if (!piece.writable) return "a part of it may not be read and written";
    if (piece.shared) return "a part of it is mapped as shared";
    if (piece.named) return "a part of it is a stack";
    at = piece.end;
  }
  return at < first + p.bytes ? "a part of it is not mapped" : nullptr;
}

// By the system call itself: memcpy, as a sanitizer replaces it, refuses the gaps between the
// program's objects, which lie in these pages, too.
bool write_pages(const nic::shm::page_states& pages, const std::byte* at, std::size_t bytes, int fd,
                 std::size_t offset) noexcept {
  const auto first = reinterpret_cast<std::uintptr_t>(at);
  for (std::uint64_t from = first; from < first + bytes;) {
    bool present = false;
    const std::uint64_t end = pages.run(from, first + bytes, &present);
    while (present && from < end) {
      const long n = ::syscall(SYS_pwrite64, fd, from, end - from, offset + (from - first));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return false;
      from += static_cast<std::uint64_t>(n);
    }
    from = end;
  }
  return true;
}

bool take_piece(const nic::shm::page_states& pages, std::byte* at, std::size_t bytes, int fd,
                std::size_t offset) noexcept {
  return write_pages(pages, at, bytes, fd, offset) &&
         ::mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
                static_cast<off_t>(offset)) != MAP_FAILED;
}

// Private pages at `at`, which fill(first of them) has filled; false: it could not, or there are
// none.
template <class Fill>
bool replace_by_private(std::byte* at, std::size_t bytes, Fill fill) noexcept {
  void* const fresh =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (fresh == MAP_FAILED) return false;
  // A child may have got the very place, if it had no pages there.
  if (fill(static_cast<std::byte*>(fresh)) &&
      (fresh == at ||
       ::mremap(fresh, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, at) != MAP_FAILED))
    return true;
  ::munmap(fresh, bytes);
  return false;
}

// Copies what the file has from offset on, which is mapped at `from`. Pages that it has not are not
// read, since that would make them; so memory that was never used takes no room, before and after.
void copy_data(std::byte* to, const std::byte* from, std::size_t bytes, int fd, off_t offset) {
  const off_t stop = offset + static_cast<off_t>(bytes);
  for (off_t at = offset; at < stop;) {
    const off_t begin = std::min(::lseek(fd, at, SEEK_DATA), stop);
    if (begin < 0 && errno == ENXIO) return;
    const off_t data = std::max(begin, at);  // a file system that cannot tell: all of it
    const off_t hole = begin < 0 ? stop : ::lseek(fd, data, SEEK_HOLE);
    const off_t end = hole < 0 ? stop : std::min(hole, stop);
    std::memcpy(to + (data - offset), from + (data - offset), static_cast<std::size_t>(end - data));
    at = end;
  }
}

// The first of the client's pages, and where the same bytes are mapped and lie in the file.
struct piece_places {
  std::byte* at;
  const std::byte* there;
  int fd;
  std::size_t offset;
  [[nodiscard]] piece_places behind(std::size_t n) const noexcept {
    return {at + n, there + n, fd, offset + n};
  }
};
bool give_piece_back(const piece_places& p, std::size_t bytes) noexcept {
  return replace_by_private(p.at, bytes, [&](std::byte* fresh) {
    copy_data(fresh, p.there, bytes, p.fd, static_cast<off_t>(p.offset));
    return true;
  });
}

// ---- pages that others use, too, when the process forks ----

struct shared_page {
  std::byte* at = nullptr;
  int fd = -1;
  off_t offset = 0;
};
struct fork_state {
  std::mutex lock;
  shared_page pages[64];
  std::size_t count = 0;
  int copied[2] = {-1, -1};  // while the process forks: ends when the child has its copies
};
fork_state& forks() noexcept {
  static immortal<fork_state> s;
  return s.value;
}

void before_fork() {
  fork_state& s = forks();
  s.lock.lock();
  if (s.count != 0) (void)opened("pipe2", ::pipe2(s.copied, O_CLOEXEC), s.copied);
}
void close_both(int (&ends)[2]) noexcept {
  for (int& end : ends)
    if (end >= 0) ::close(std::exchange(end, -1));
}
// The parent goes on when the child has copied, or has died.
void in_parent() {
  fork_state& s = forks();
  if (s.copied[1] >= 0) {
    ::close(std::exchange(s.copied[1], -1));
    pollfd p{s.copied[0], POLLIN, 0};
    while (::poll(&p, 1, -1) < 0 && errno == EINTR) {
    }
  }
  close_both(s.copied);
  s.lock.unlock();
}
void in_child() {
  fork_state& s = forks();
  // From the file: a child has no page of what is registered with an adapter (ibv_fork_init).
  for (const shared_page* p = s.pages; p != s.pages + s.count; ++p)
    if (!replace_by_private(p->at, page_bytes(), [p](std::byte* fresh) {
          return ::pread(p->fd, fresh, page_bytes(), p->offset) ==
                 static_cast<ssize_t>(page_bytes());
        }))
      ::_exit(127);  // memory that is shared by accident is worse than no child
  s.count = 0;
  close_both(s.copied);
  s.lock.unlock();
}
bool forks_are_watched = false;
// Before the handlers of the program, as nic/shm does it: these run in the child with its copies.
[[gnu::constructor(101)]] void watch() noexcept {
  forks_are_watched = ::pthread_atfork(&before_fork, &in_parent, &in_child) == 0;
}

std::size_t shared_in(const client_pages& p, shared_page (&found)[2], int fd, std::size_t offset) {
  const std::size_t last = p.bytes - page_bytes();
  std::size_t n = 0;
  if (p.shares_first) found[n++] = {p.first, fd, static_cast<off_t>(offset)};
  if (p.shares_last && (last != 0 || !p.shares_first))
    found[n++] = {p.first + last, fd, static_cast<off_t>(offset + last)};
  return n;
}

// False: too many segments begin or end inside pages.
bool note_shared(const client_pages& p, int fd, std::size_t offset) {
  shared_page found[2];
  const std::size_t n = shared_in(p, found, fd, offset);
  if (n == 0) return true;
  fork_state& s = forks();
  const std::lock_guard guard(s.lock);
  if (!forks_are_watched || s.count + n > std::size(s.pages)) return false;
  std::copy_n(found, n, s.pages + s.count);
  s.count += n;
  return true;
}
void forget_shared(const client_pages& p) {
  fork_state& s = forks();
  const std::lock_guard guard(s.lock);
  const auto end = std::remove_if(s.pages, s.pages + s.count, [&](const shared_page& x) {
    return x.at >= p.first && x.at < p.first + p.bytes;
  });
  s.count = static_cast<std::size_t>(end - s.pages);
}

// Stillness, where bytes of others are in those pages; without value: other threads run.
bool keep_still(const client_pages& p, std::optional<nic::shm::still>& nobody) {
  if (!p.shares_first && !p.shares_last) return true;
  nobody.emplace();
  const auto first = reinterpret_cast<std::uintptr_t>(p.first);
  return static_cast<bool>(*nobody) && !nic::shm::still::stands_on(first, first + p.bytes);
}

constexpr const char* other_threads_run =
    "it begins or ends inside a page, and other threads run, which could write to the rest of it";

}  // namespace

client_pages client_pages::around(std::byte* at, std::size_t bytes) noexcept {
  const std::size_t page = page_bytes();
  const std::size_t before = reinterpret_cast<std::uintptr_t>(at) % page;
  const std::size_t used = before + bytes, whole = (used + page - 1) / page * page;
  return {at - before, whole, before != 0, used != whole};
}

result<void> take_pages(const client_pages& p, int fd, std::size_t offset, std::byte* there) {
  if (const char* const no = objection(p)) return failure{no, EINVAL, ""};
  // What an earlier segment has left there.
  ::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
              static_cast<off_t>(p.bytes));
  if (!note_shared(p, fd, offset)) return failure{"too many segments end inside pages", ENOMEM, ""};
  const nic::shm::page_states pages;
  std::optional<nic::shm::still> nobody;
  if (!keep_still(p, nobody)) {
    nobody.reset();
    forget_shared(p);
    return failure{other_threads_run, EBUSY, "create it before threads are started"};
  }
  const piece_places places{p.first, there, fd, offset};
  for (std::size_t done = 0; done < p.bytes;) {
    const std::size_t n = std::min(piece_bytes, p.bytes - done);
    if (!take_piece(pages, p.first + done, n, fd, offset + done)) {
      const int code = errno;
      for (std::size_t at = 0; at < done; at += piece_bytes)
        (void)give_piece_back(places.behind(at), std::min(piece_bytes, done - at));
      nobody.reset();
      forget_shared(p);
      return failure{"its pages cannot be replaced", code, ""};
    }
    done += n;
  }
  return {};
}

result<void> give_pages_back(const client_pages& p, int fd, std::size_t offset, std::byte* there) {
  std::optional<nic::shm::still> nobody;
  if (!keep_still(p, nobody))
    return failure{other_threads_run, EBUSY, "destroy it when they have ended"};
  const piece_places places{p.first, there, fd, offset};
  for (std::size_t done = 0; done < p.bytes; done += piece_bytes)
    if (!give_piece_back(places.behind(done), std::min(piece_bytes, p.bytes - done)))
      return failure{"its pages cannot be replaced", errno, ""};
  nobody.reset();
  forget_shared(p);
  ::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
              static_cast<off_t>(p.bytes));
  return {};
}

}  // namespace penstock::conduit::PENSTOCK_ABI
