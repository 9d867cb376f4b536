// Shared, registered memory: a region over a sealed memfd, which a device registers once and which
// peers on the same host map to read and write it directly.
//
// When memory is taken. A segment is address space and a file without pages; a page is taken when
// it is first written, or by commit(), or when a pinning device registers it. So that "there is too
// little" is an error message and not a SIGBUS or an out-of-memory kill in the middle of a run:
//   - creation refuses a size that this host (or its control group) could never hold;
//   - `eager` commits all of it at once, `automatic` does so up to eager_bytes; commit() looks at
//   the
//     memory available before each step, and asks the kernel by fallocate, which fails with a code;
//   - beyond that a segment stays lazy, since clients ask for gigabytes and use a little of them:
//     commit(offset, bytes) may be called for a part before it is used;
//   - huge pages (hugetlb) are reserved by the mapping itself, so their laziness is safe;
//   - attach() to a device that pins takes the pages then and there, and reports what is missing.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "lib/base/result.hpp"
#include "memreg/registrar.hpp"

namespace penstock::memreg {

/// A mapping that is removed when the object is destroyed. Move only.
class mapping {
 public:
  mapping() = default;
  mapping(void* base, std::size_t bytes) noexcept
      : base_(static_cast<std::byte*>(base)), bytes_(bytes) {}
  mapping(mapping&& o) noexcept;
  mapping& operator=(mapping&& o) noexcept;
  ~mapping();

  [[nodiscard]] std::byte* base() const noexcept { return base_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  explicit operator bool() const noexcept { return base_ != nullptr; }

 private:
  std::byte* base_ = nullptr;
  std::size_t bytes_ = 0;
};

enum class commit_policy : std::uint8_t { automatic, eager, lazy };

struct segment_options {
  std::size_t bytes = 0;  ///< rounded up to whole pages; at least 1
  /// Address space that extend() may use; 0: no more than bytes. Memory beyond bytes takes no
  /// pages.
  std::size_t reserve = 0;
  commit_policy commit = commit_policy::automatic;
  std::size_t eager_bytes = std::size_t{64}
                            << 20;  ///< `automatic` commits segments up to this size
  bool huge_pages = true;           ///< use hugetlb pages where enough are free, else advise THP
  const char* name = "penstock";    ///< shown in /proc/PID/maps
};

/// Page-aligned shared memory with at most one registration. Move only; thread-safe after set-up
/// as memory is. Destruction deregisters, unmaps and closes, in that order.
class segment {
 public:
  /// Makes a segment. Errors: too large for this host, no memory to commit, no address space.
  static result<segment> create(const segment_options& options);

  segment() = default;
  segment(segment&& o) noexcept;
  segment& operator=(segment&& o) noexcept;
  ~segment();

  [[nodiscard]] std::byte* base() const noexcept { return map_.base(); }
  [[nodiscard]] std::size_t bytes() const noexcept {
    // S2 extend  acquire used_  <- S1
    return used_.load(std::memory_order_acquire);
  }
  /// bytes(), and as much as extend() may add.
  [[nodiscard]] std::size_t capacity() const noexcept { return map_.bytes(); }
  /// The memory's descriptor, sealed so that nobody can cut it short; owned by this object.
  [[nodiscard]] int fd() const noexcept { return fd_; }
  [[nodiscard]] std::size_t page_size() const noexcept { return page_; }
  /// True if [addr, addr+n) lies inside; correct for every n, even one that wraps.
  [[nodiscard]] bool contains(const void* addr, std::size_t n) const noexcept {
    const auto a = reinterpret_cast<std::uintptr_t>(addr);
    const auto b = reinterpret_cast<std::uintptr_t>(base());
    const std::size_t all = bytes();
    return a - b <= all && n <= all - (a - b) && base() != nullptr;
  }

  /// Takes the pages of [offset, offset+n) now. Errors: ENOMEM with the size that is missing; pages
  /// taken before the failure stay.
  result<void> commit(std::size_t offset, std::size_t n);

  /// Registers the segment, once: all of its capacity, or its bytes alone. `device` must outlive
  /// this object.
  result<void> attach(registrar& device, unsigned access_bits = access::all,
                      bool all_capacity = false);
  /// Gives the segment `bytes` bytes, at most capacity(); its base stays. Takes pages up to
  /// eager_bytes. One thread at a time; others may use the segment meanwhile. If it fails, all is
  /// as it was, but for pages that have been taken. If only its bytes had been registered, keys()
  /// are new; the earlier keys hold until detach().
  result<void> extend(std::size_t bytes);
  [[nodiscard]] bool attached() const noexcept { return device_ != nullptr; }
  /// The registration made by attach(), or by extend().
  [[nodiscard]] const registration& keys() const noexcept {
    // S2 extend  acquire extended_  <- S1
    return keys_[extended_.load(std::memory_order_acquire)];
  }
  /// Gives the registration back; the memory stays.
  void detach() noexcept;

 private:
  void close_fd() noexcept;
  result<void> take_pages(std::size_t offset, std::size_t n);

  mapping map_;
  std::atomic<std::size_t> used_{0};
  std::size_t registered_ = 0;
  std::size_t eager_bytes_ = 0;
  int fd_ = -1;
  std::size_t page_ = 0;
  registrar* device_ = nullptr;
  registration keys_[2];  // of attach() and of extend()
  std::atomic<bool> extended_{false};
  unsigned access_bits_ = 0;
};

}  // namespace penstock::memreg
