#include "nic/shm/moved_memory.hpp"

#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "lib/base/assert.hpp"
#include "lib/base/descriptors.hpp"
#include "lib/base/immortal.hpp"
#include "lib/base/page.hpp"
#include "lib/base/shortage.hpp"
#include "nic/shm/coverage.hpp"
#include "nic/shm/layout.hpp"
#include "nic/shm/memory_map.hpp"
#include "nic/shm/own_threads.hpp"
#include "nic/shm/page_guard.hpp"
#include "nic/shm/page_ranges.hpp"

namespace penstock::nic::shm {
namespace {

constexpr std::uint64_t file_bytes = std::uint64_t{1} << 48;  // every address of a program
constexpr std::uint64_t piece_bytes = 4u << 20;  // this much memory exists twice while it is moved

/// The kernel's usual limit of mappings is lower.
constexpr std::uint32_t most_moved = 1u << 16;

struct state {
  std::mutex lock;
  std::atomic<int> fd{-1};
  std::atomic<std::uint64_t> inode{0};
  std::uint32_t life = 1;         // changes in a child of fork
  coverage users;                 // of all registrations that took memory, moved or not
  coverage left;                  // still moved although unused: it could not be moved back
  page_ranges moved{most_moved};  // what is in the file, also if the program has unmapped it since
  pid_t owner = 0;                // the process that has made the file
  bool children_lack_it = false;  // the program has asked libibverbs for that
  // Set while the process forks.
  int ready[2] = {-1, -1};
  bool paused = false;  // whether the device's threads are paused
};
state& the() noexcept {
  static immortal<state> s;
  return s.value;
}

bool forks_watched = false;

off_t place(std::uint64_t address) noexcept { return static_cast<off_t>(address); }
void* pointer(std::uint64_t address) noexcept { return reinterpret_cast<void*>(address); }

bool in_file(const state& s, const mapped_piece& p) noexcept {
  return p.inode != 0 && p.inode == s.inode.load(std::memory_order_relaxed) && p.shared &&
         p.offset == p.begin;
}

bool movable(const mapped_piece& p) noexcept {
  return p.inode == 0 && !p.shared && p.rights == (PROT_READ | PROT_WRITE) && !p.named &&
         p.end <= file_bytes && !still::stands_on(p.begin, p.end);
}

void punch(const state& s, std::uint64_t first, std::uint64_t last) noexcept {
  ::fallocate(s.fd.load(std::memory_order_relaxed), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
              place(first), place(last - first));
}

bool write_all(int fd, std::uint64_t first, std::uint64_t last) noexcept {
  while (first < last) {
    // The system call itself: a sanitizer's pwrite() checks the gaps between the program's objects,
    // too.
    const long n = ::syscall(SYS_pwrite64, fd, pointer(first), last - first, place(first));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    first += static_cast<std::uint64_t>(n);
  }
  return true;
}

bool read_all(int fd, std::byte* to, std::uint64_t first, std::uint64_t last) noexcept {
  while (first < last) {
    const long n = ::syscall(SYS_pread64, fd, to, last - first, place(first));  // as in write_all()
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    first += static_cast<std::uint64_t>(n);
    to += n;
  }
  return true;
}

/// Calls f(begin, end) for the parts of [first, last) that the file holds, until f answers false.
template <class F>
bool each_written(int fd, std::uint64_t first, std::uint64_t last, F f) noexcept {
  while (first < last) {
    const off_t data = ::lseek(fd, place(first), SEEK_DATA);
    if (data < 0 || data >= place(last)) break;
    const off_t hole = std::min(::lseek(fd, data, SEEK_HOLE), place(last));
    if (!f(static_cast<std::uint64_t>(data), static_cast<std::uint64_t>(hole))) return false;
    first = static_cast<std::uint64_t>(hole);
  }
  return true;
}

/// Replaces private pages by the file's pages, with their contents. Nothing else runs meanwhile,
/// and this writes to no memory outside the stack.
bool move_piece(const state& s, const page_states& pages, std::uint64_t first,
                std::uint64_t last) noexcept {
  PENSTOCK_ASSERT((first | last) % page_bytes(), ==, 0u);
  PENSTOCK_ASSERT(s.moved.has(first), ==, true);  // a child finds it before it is there
  const int fd = s.fd.load(std::memory_order_relaxed);
  bool present = false;
  for (std::uint64_t at = first; at < last;) {
    const std::uint64_t end = pages.run(at, last, &present);
    if (present && !write_all(fd, at, end)) return false;
    at = end;
  }
  void* p = ::mmap(pointer(first), last - first, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_FIXED | MAP_NORESERVE, fd, place(first));
  if (p == MAP_FAILED) return false;
  // A child would share them; children get copies instead.
  ::madvise(p, last - first, MADV_DONTFORK);
  // The program's next access finds the pages present, as before.
  return each_written(fd, first, last, [](std::uint64_t a, std::uint64_t b) {
    ::madvise(pointer(a), b - a, MADV_POPULATE_WRITE);
    return true;
  });
}

/// The other direction: replaces the file's pages by private ones with the same contents, and with
/// the rights that the program has given them since.
bool restore_piece(int fd, int rights, std::uint64_t first, std::uint64_t last) noexcept {
  PENSTOCK_ASSERT((first | last) % page_bytes(), ==, 0u);
  void* fresh = ::mmap(nullptr, last - first, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (fresh == MAP_FAILED) return false;
  auto* to = static_cast<std::byte*>(fresh);
  if (each_written(
          fd, first, last,
          [=](std::uint64_t a, std::uint64_t b) { return read_all(fd, to + (a - first), a, b); }) &&
      ::mprotect(fresh, last - first, rights) == 0 &&
      ::mremap(fresh, last - first, last - first, MREMAP_MAYMOVE | MREMAP_FIXED, pointer(first)) !=
          MAP_FAILED)
    return true;
  ::munmap(fresh, last - first);
  return false;
}

template <class Move>
bool by_pieces(std::uint64_t first, std::uint64_t last, Move move) noexcept {
  for (std::uint64_t at = first; at < last; at += piece_bytes)
    if (!move(at, std::min(at + piece_bytes, last))) return false;
  return true;
}

/// In a child: private pages with the file's contents, where nothing is mapped. Not from the heap,
/// which may be part of them.
bool copy_piece(int fd, std::uint64_t first, std::uint64_t last) noexcept {
  void* fresh = ::mmap(pointer(first), last - first, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (fresh == pointer(first))
    return each_written(fd, first, last, [fd](std::uint64_t a, std::uint64_t b) {
      return read_all(fd, static_cast<std::byte*>(pointer(a)), a, b);
    });
  if (fresh != MAP_FAILED) ::munmap(fresh, last - first);  // a kernel that does not know the flag
  if (fresh != MAP_FAILED || errno != EEXIST) return false;
  // The program had put something else there.
  if (last - first == page_bytes()) return true;
  const std::uint64_t middle = first + ((last - first) / page_bytes() + 1) / 2 * page_bytes();
  return copy_piece(fd, first, middle) && copy_piece(fd, middle, last);
}

/// In a child: the copies, in place of its parent's file.
void become_child(state& s) noexcept {
  const int fd = s.fd.exchange(-1, std::memory_order_relaxed);
  if (fd < 0) return;  // there is none, or the C library's part of the fork has touched it before
  if (!s.children_lack_it)
    for (const page_ranges::range& r : s.moved)
      if (!copy_piece(fd, r.first, r.end)) ::_exit(127);  // as a fork for which there is no memory
  ::close(fd);
  s.inode.store(0, std::memory_order_relaxed);
  ++s.life;
}

/// Memory that libibverbs was asked to keep from children is not there on adapters either. It takes
/// memory from the heap to answer, so a child cannot ask.
void ask_libibverbs(state& s) noexcept {
  s.children_lack_it = ibv_is_fork_initialized() == IBV_FORK_ENABLED;
}

// Around fork. A child would share moved pages, so it copies them before its fork returns, and its
// parent's fork does not return before that. The device's threads wait, too: what they write
// meanwhile, such as malloc's lists, would be in the child's copy of moved pages but not in the
// pages beside them.
void before_fork() {
  state& s = the();
  s.lock.lock();
  if (s.fd.load(std::memory_order_relaxed) < 0 || s.moved.begin() == s.moved.end()) return;
  ask_libibverbs(s);
  (void)opened("pipe2", ::pipe2(s.ready, O_CLOEXEC), s.ready);
  s.paused = pause_own_threads();
}

void after_fork_in_parent() {
  state& s = the();
  if (s.ready[0] >= 0) {
    ::close(s.ready[1]);
    pollfd p{s.ready[0], POLLIN, 0};  // it hangs up when the child is ready or has died
    while (::poll(&p, 1, -1) < 0 && errno == EINTR) {
    }
    ::close(s.ready[0]);
    s.ready[0] = s.ready[1] = -1;
  }
  if (std::exchange(s.paused, false)) resume_own_threads();
  s.lock.unlock();
}

void after_fork_in_child() {
  state& s = the();
  become_child(s);
  for (int* end : {&s.ready[0], &s.ready[1]}) {
    if (*end >= 0) ::close(*end);
    *end = -1;
  }
  if (std::exchange(s.paused, false)) resume_own_threads();
  forget_own_threads();
  s.lock.unlock();
}

// Registered before the handlers of the program and the library. So these run in the child after it
// has its copies, and in the parent before the child is made.
[[gnu::constructor(101)]] void watch_forks() noexcept {
  forks_watched = ::pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) == 0;
}

/// Makes the file when it is first needed. False: it cannot be made.
bool open_file(state& s) noexcept {
  if (s.fd.load(std::memory_order_relaxed) >= 0) return true;
  if (!file_may_have(file_bytes)) return false;
  if (!forks_watched) return false;
  const int fd = above_stdio(::memfd_create("penstock-moved", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (fd < 0) return false;
  struct stat st {};
  if (::ftruncate(fd, place(file_bytes)) != 0 ||
      ::fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0 ||
      ::fstat(fd, &st) != 0) {
    ::close(fd);
    return false;
  }
  s.users.clear();
  s.left.clear();
  s.moved.clear();
  s.owner = ::getpid();
  ask_libibverbs(s);
  install_page_guard();
  s.inode.store(st.st_ino, std::memory_order_relaxed);
  s.fd.store(fd, std::memory_order_release);  // release: the inode, and the guard (file())
  return true;
}

/// Moves the parts of [first, last) that are not in the file. True: all of it is in the file then.
bool move(state& s, std::uint64_t first, std::uint64_t last) {
  std::vector<mapped_piece> todo;
  std::uint64_t at = first;
  for (mapped_piece p : pieces_of(first, last)) {
    p.offset += std::max(p.begin, first) - p.begin;
    p.begin = std::max(p.begin, first);
    p.end = std::min(p.end, last);
    if (p.begin != at) return false;
    at = p.end;
    if (in_file(s, p)) continue;
    // A peer may write at any time to memory that is in use and not in the file.
    if (!movable(p) || s.users.any(p.begin, p.end)) return false;
    todo.push_back(p);
  }
  if (at != last) return false;
  if (todo.empty()) return true;
  const page_states pages;
  const still nobody;
  if (!nobody) return false;
  for (const mapped_piece& p : todo) {
    punch(s, p.begin, p.end);  // what an earlier registration left there
    // Before it is: a part of it may be moved, and the rest not.
    if (!s.moved.remove(p.begin, p.end) || !s.moved.add(p.begin, p.end)) return false;
    if (!by_pieces(p.begin, p.end,
                   [&](std::uint64_t a, std::uint64_t b) { return move_piece(s, pages, a, b); }))
      return false;
  }
  return true;
}

/// Moves back the parts of [first, last) that no registration uses.
void restore(state& s, std::uint64_t first, std::uint64_t last) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> unused;
  s.users.each(first, last, [&](std::uint64_t a, std::uint64_t b, std::uint32_t users) {
    if (users == 0) unused.emplace_back(a, b);
  });
  if (unused.empty()) return;
  std::vector<mapped_piece> pieces = pieces_of(first, last);
  std::erase_if(pieces, [&s](const mapped_piece& p) { return !in_file(s, p); });
  const auto forget = [&s](std::uint64_t from, std::uint64_t to) {
    PENSTOCK_ASSERT(s.users.any(from, to), ==, false);
    punch(s, from, to);
    s.moved.remove(from, to);
  };
  if (pieces.empty()) {  // nothing was moved
    for (const auto& [a, b] : unused) forget(a, b);
    return;
  }
  const still nobody;
  for (const auto& [a, b] : unused) {
    std::uint64_t at = a;  // everything before `at` is done
    for (const mapped_piece& p : pieces) {
      const std::uint64_t begin = std::max(p.begin, a), end = std::min(p.end, b);
      if (begin >= end) continue;
      forget(at, begin);  // the program has unmapped it
      at = end;
      const int fd = s.fd.load(std::memory_order_relaxed);
      const bool back =
          nobody &&
          by_pieces(begin, end, [fd, rights = p.rights](std::uint64_t x, std::uint64_t y) {
            return restore_piece(fd, rights, x, y);
          });
      if (back)
        forget(begin, end);
      else
        s.left.add(begin, end);
    }
    forget(at, b);
  }
}

/// Tries again to move back the memory for which that failed before.
void restore_left(state& s) {
  if (!still::possible()) return;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> again;
  s.left.each(0, file_bytes, [&](std::uint64_t a, std::uint64_t b, std::uint32_t times) {
    if (times != 0) again.emplace_back(a, b);
  });
  s.left.clear();
  for (const auto& [a, b] : again) restore(s, a, b);
}

/// How many edges of moved memory there may be: each makes a mapping more, and the kernel has a
/// limit (vm.max_map_count) of which half is left to the program.
std::size_t most_edges() noexcept {
  static const std::size_t most = [] {
    constexpr std::size_t usual = 65'530;
    const std::size_t n = std::strtoull(text_of("/proc/sys/vm/max_map_count").c_str(), nullptr, 10);
    return (n != 0 ? n : usual) / 2;
  }();
  return most;
}

std::uint64_t first_page(std::uint64_t address) noexcept { return address & ~(page_bytes() - 1); }
std::uint64_t end_page(std::uint64_t address) noexcept {
  return first_page(address + page_bytes() - 1);
}

}  // namespace

moved_memory::hold moved_memory::take(std::uint64_t address, std::uint64_t bytes) noexcept {
  state& s = the();
  const std::lock_guard guard(s.lock);
  const std::uint64_t first = first_page(address), last = end_page(address + bytes);
  hold h{false, false, s.life};
  if (!open_file(s) || last > file_bytes) return h;
  try {
    restore_left(s);
    // Memory beyond the limit stays where it is; peers reach it through /proc.
    h.moved = s.users.edges() < most_edges() && move(s, first, last);
    s.users.add(first, last);
    h.held = true;
  } catch (const std::bad_alloc&) {
    h.moved = false;
  }
  return h;
}

void moved_memory::let_go(const hold& h, std::uint64_t address, std::uint64_t bytes) noexcept {
  if (!h.held) return;
  state& s = the();
  const std::lock_guard guard(s.lock);
  if (h.life != s.life) return;
  const std::uint64_t first = first_page(address), last = end_page(address + bytes);
  try {
    s.users.remove(first, last);
    restore(s, first, last);
    restore_left(s);
  } catch (const std::bad_alloc&) {
    return;  // it stays where it is
  }
}

bool moved_memory::make_file() noexcept {
  state& s = the();
  const std::lock_guard guard(s.lock);
  return open_file(s);
}

bool moved_memory::copy_for_child(std::uint64_t address) noexcept {
  state& s = the();
  if (s.fd.load(std::memory_order_relaxed) < 0 || s.owner == ::getpid() || s.children_lack_it ||
      !s.moved.has(address))
    return false;
  become_child(s);
  return true;
}

// acquire: as the file was made
int moved_memory::file() noexcept { return the().fd.load(std::memory_order_acquire); }

}  // namespace penstock::nic::shm
