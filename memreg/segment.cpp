// The system calls behind segment.hpp. Set-up only.
#include "memreg/segment.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "lib/base/descriptors.hpp"
#include "lib/base/mapped_memory.hpp"
#include "lib/base/shortage.hpp"
#include "memreg/host_memory.hpp"

namespace penstock::memreg {
namespace {

constexpr std::size_t commit_step = std::size_t{64} << 20;

// Maps `bytes` of fd at an address aligned to `align`, so that huge pages fit: reserves more
// address space than needed, then maps over its aligned part and drops the rest.
void* map_aligned(int fd, std::size_t bytes, std::size_t align) {
  if (align <= page_bytes()) return mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  void* room =
      mmap(nullptr, bytes + align, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) return MAP_FAILED;
  const auto from = reinterpret_cast<std::uintptr_t>(room);
  const auto base = round_up(from, align);
  void* at = reinterpret_cast<void*>(base);
  void* got = mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
  if (got == MAP_FAILED) {
    const int code = errno;
    munmap(room, bytes + align);
    errno = code;
    return MAP_FAILED;
  }
  if (base > from) munmap(room, base - from);
  const std::size_t tail = from + align - base;
  if (tail > 0) munmap(reinterpret_cast<void*>(base + bytes), tail);
  return got;
}

struct file_memory {
  int fd = -1;
  void* base = MAP_FAILED;
  int code = 0;
};

// A memfd of `bytes`, sealed against shrinking, mapped. On failure everything is undone.
file_memory make_file(const char* name, std::size_t bytes, unsigned flags, std::size_t align) {
  file_memory f;
  if (!file_may_have(bytes)) {
    f.code = EFBIG;
    return f;
  }
  f.fd = opened("memfd_create", memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | flags));
  if (f.fd >= 0 && asked("ftruncate", ftruncate(f.fd, static_cast<off_t>(bytes))) == 0 &&
      asked("fcntl", fcntl(f.fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) == 0)
    f.base = asked("mmap", map_aligned(f.fd, bytes, align));
  if (f.base == MAP_FAILED) {
    f.code = errno;
    if (f.fd >= 0) close(f.fd);
    f.fd = -1;
  }
  return f;
}

}  // namespace

mapping::mapping(mapping&& o) noexcept
    : base_(std::exchange(o.base_, nullptr)), bytes_(std::exchange(o.bytes_, 0)) {}
mapping& mapping::operator=(mapping&& o) noexcept {
  std::swap(base_, o.base_);
  std::swap(bytes_, o.bytes_);
  return *this;
}
mapping::~mapping() {
  forget_mapped(base_);
  if (base_ != nullptr) munmap(base_, bytes_);
}

segment::segment(segment&& o) noexcept { *this = std::move(o); }
segment& segment::operator=(segment&& o) noexcept {
  // relaxed, all: only one thread has either
  const auto exchange = [](auto& mine, auto& its) {
    its.store(mine.exchange(its.load(std::memory_order_relaxed), std::memory_order_relaxed),
              std::memory_order_relaxed);
  };
  std::swap(map_, o.map_);
  exchange(used_, o.used_);
  std::swap(registered_, o.registered_);
  std::swap(eager_bytes_, o.eager_bytes_);
  std::swap(fd_, o.fd_);
  std::swap(page_, o.page_);
  std::swap(device_, o.device_);
  std::swap(keys_, o.keys_);
  exchange(extended_, o.extended_);
  std::swap(access_bits_, o.access_bits_);
  return *this;
}
segment::~segment() {
  detach();
  close_fd();
}
void segment::close_fd() noexcept {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

result<segment> segment::create(const segment_options& o) {
  const host_memory host = probe_host_memory();
  if (o.bytes == 0) return failure{"a segment of no bytes", EINVAL, "ask for at least one page"};
  if (o.bytes > host.physical)
    return failure{"segment of " + human_bytes(o.bytes) + ": this " +
                       (host.group_limited ? "control group" : "host") + " has " +
                       human_bytes(host.physical) + " of memory",
                   ENOMEM, "ask for a smaller segment (GASNET_MAX_SEGSIZE)"};
  const std::size_t huge = huge_page_bytes();
  segment s;
  file_memory f;
  // Huge pages only where they waste little: at least eight of them. None are taken for memory that
  // may never be used.
  const std::size_t all = std::max(o.bytes, o.reserve);
  const bool all_used = all == o.bytes;
  if (o.huge_pages && all_used && huge != 0 && o.bytes >= 8 * huge) {
    s.page_ = huge;
    f = make_file(o.name, round_up(o.bytes, huge), MFD_HUGETLB, page_bytes());
  }
  if (f.fd < 0) {
    s.page_ = page_bytes();
    // Where kernels differ in their pages, programs are compiled for the largest (gasnet.h's).
    const std::size_t align = huge != 0 && all >= huge ? huge : std::max(s.page_, widest_page);
    f = make_file(o.name, round_up(all, s.page_), 0, align);
    if (f.fd < 0)
      return failure{"segment of " + human_bytes(o.bytes), f.code, what_to_raise(f.code)};
    if (o.huge_pages && align == huge)
      (void)madvise(f.base, round_up(all, s.page_), MADV_HUGEPAGE);  // advice only
  }
  s.fd_ = f.fd;
  s.map_ = mapping(f.base, round_up(all, s.page_));
  note_mapped(o.name, s.map_.base(), s.map_.bytes());
  s.used_.store(round_up(o.bytes, s.page_), std::memory_order_relaxed);  // relaxed: not shared yet
  s.eager_bytes_ = o.eager_bytes;
  const bool eager = o.commit == commit_policy::eager ||
                     (o.commit == commit_policy::automatic && o.bytes <= o.eager_bytes);
  if (eager)
    if (auto done = s.commit(0, s.bytes()); !done) return done.error();
  return s;
}

result<void> segment::commit(std::size_t offset, std::size_t n) {
  if (offset > bytes() || n > bytes() - offset)
    return failure{"committing memory outside the segment", EINVAL, ""};
  return take_pages(offset, n);
}

result<void> segment::take_pages(std::size_t offset, std::size_t n) {
  while (n > 0) {
    const std::size_t step = std::min(n, commit_step);
    // The available memory is checked before each step: fallocate would rather wake the
    // out-of-memory killer than fail.
    const std::uint64_t available = page_ == page_bytes() ? probe_host_memory().available : n;
    int code = available < n ? ENOMEM : 0;
    if (code == 0 && fallocate(fd_, 0, static_cast<off_t>(offset), static_cast<off_t>(step)) != 0)
      code = errno;
    if (code == EINTR) continue;
    if (code != 0)
      return failure{"committing " + human_bytes(n) + " of a segment of " + human_bytes(bytes()) +
                         ": " + human_bytes(available) + " of memory available",
                     code, "ask for a smaller segment, or run fewer processes on this host"};
    offset += step;
    n -= step;
  }
  return {};
}

result<void> segment::attach(registrar& device, unsigned access_bits, bool all_capacity) {
  if (attached()) return failure{"attaching a segment that is attached", EBUSY, "detach it first"};
  registered_ = all_capacity ? capacity() : bytes();
  access_bits_ = access_bits;
  device.declare_shared(base(), registered_, fd_, 0);
  auto r = device.reg(base(), registered_, access_bits);
  if (!r) {
    device.forget_shared(base());
    return r.error();
  }
  device_ = &device;
  keys_[0] = *r;
  return {};
}

result<void> segment::extend(std::size_t bytes) {
  const std::size_t before = this->bytes();
  const std::size_t now = std::max(before, round_up(bytes, page_));
  if (now > capacity())
    return failure{
        "a segment of " + human_bytes(now) + " where " + human_bytes(capacity()) + " were reserved",
        ENOMEM, "ask for a smaller segment"};
  if (now - before <= eager_bytes_)
    if (auto done = take_pages(before, now - before); !done) return done;
  if (attached() && now > registered_) {
    // relaxed: this thread's own
    if (extended_.load(std::memory_order_relaxed))
      return failure{"extending a segment a second time", EBUSY, "a segment is extended once"};
    auto r = device_->reg(base(), now, access_bits_);
    if (!r) return r.error();
    registered_ = now;
    keys_[1] = *r;
    // S1 extend  release extended_, then used_  -> S2: who sees the bytes sees their keys
    extended_.store(true, std::memory_order_release);
  }
  used_.store(now, std::memory_order_release);
  return {};
}

void segment::detach() noexcept {
  if (!attached()) return;
  // relaxed, both: no other thread uses the segment any more
  if (extended_.load(std::memory_order_relaxed)) device_->dereg(keys_[1]);
  extended_.store(false, std::memory_order_relaxed);
  device_->dereg(keys_[0]);
  device_->forget_shared(base());
  device_ = nullptr;
}

}  // namespace penstock::memreg
