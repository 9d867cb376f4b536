// malloc over registered memory: a jemalloc arena whose pages come from registered blocks, and an
// allocator that puts C++ containers there. What is allocated here can be sent from and received
// into with no registration, no cache lookup and no copy: lkey_of() is an array access.
//
// Pages are never given back to the kernel while the heap lives (its extent hooks refuse), so no
// registration of it can become stale. It is part of libpenstock-heap, which programs may link; no
// library of Penstock does.
#pragma once

#include <cstddef>
#include <limits>
#include <memory>
#include <new>

#include "lib/base/result.hpp"
#include "memreg/lasting_heap.hpp"
#include "memreg/registrar.hpp"

namespace penstock::memreg {

struct heap_options {
  std::size_t max_bytes = std::size_t{16} << 30;  ///< reserved address space; pages come with use
  std::size_t chunk_bytes = std::size_t{4}
                            << 20;  ///< registered at a time; a power of two, >= 2 MiB
  unsigned access_bits = access::all;
};

/// One registered heap. Every call but create and the destructor: any thread, several at once.
class heap final : public lasting_heap {
 public:
  /// Reserves address space; registers nothing yet. `device` must outlive the heap.
  static result<std::unique_ptr<heap>> create(registrar& device, const heap_options& options = {});

  ~heap() override;

  /// Null: no memory, see last_failure(). Cost: jemalloc's with a thread cache for blocks of up to
  /// 14 KiB, about 50 ns, and about ten times that for larger ones. What a thread has freed may
  /// stay in its cache; when it ends, the cache is emptied, and goes to another thread.
  [[nodiscard]] void* allocate(std::size_t bytes,
                               std::size_t align = alignof(std::max_align_t)) noexcept override;
  void deallocate(void* p) noexcept override;
  /// Bytes registered so far.
  [[nodiscard]] std::size_t registered_bytes() const noexcept;
  [[nodiscard]] failure last_failure() const override;

 private:
  friend struct heap_hooks;
  friend struct heap_caches;
  struct growth;  // the lock, the hooks table and what only growing needs
  heap();

  unsigned arena_ = 0;  // jemalloc's number
  std::unique_ptr<growth> growth_;
};

/// A heap as the engine knows it, with the usual options.
result<std::unique_ptr<lasting_heap>> make_heap(registrar& device);

/// Standard allocator over a heap. Throws std::bad_alloc, as containers expect; such code is the
/// client's, outside the C boundary. The heap must outlive every container that uses it.
template <class T>
class registered_allocator {
 public:
  using value_type = T;

  explicit registered_allocator(heap& h) noexcept : heap_(&h) {}
  template <class U>
  registered_allocator(const registered_allocator<U>& o) noexcept  // NOLINT: rebinding
      : heap_(o.where()) {}

  T* allocate(std::size_t n) {
    if (n > std::numeric_limits<std::size_t>::max() / sizeof(T)) throw std::bad_array_new_length();
    void* p = heap_->allocate(n * sizeof(T), alignof(T));
    if (p == nullptr) throw std::bad_alloc();
    return static_cast<T*>(p);
  }
  void deallocate(T* p, std::size_t) noexcept { heap_->deallocate(p); }
  [[nodiscard]] heap* where() const noexcept { return heap_; }

  template <class U>
  bool operator==(const registered_allocator<U>& o) const noexcept {
    return heap_ == o.where();
  }

 private:
  heap* heap_;
};

}  // namespace penstock::memreg
