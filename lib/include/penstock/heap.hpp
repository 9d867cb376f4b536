// Memory that is registered for as long as its endpoint is open, for containers by std::pmr. A
// component of its own: link penstock::heap (CMake) or penstock-heap (pkg-config) as well, since
// the heap is jemalloc's, and the library of messages has no opinion on malloc.
//
// The shared libpenstock-heap, linked or preloaded, also makes the program's own malloc a heap of
// that kind: put, get and Long from any malloc'ed memory then find a registration that is there. It
// is for a program's start; dlopen cannot load it.
//
//   penstock::registered_heap heap(*ep);
//   std::pmr::vector<double> field(&heap);
#pragma once

#include <cstddef>
#include <memory>
#include <memory_resource>
#include <new>

#include "penstock/rma.hpp"

namespace penstock::memreg {
class registrar;
class lasting_heap;
using heap_maker = result<std::unique_ptr<lasting_heap>> (*)(registrar& device);
/// libpenstock-heap's: jemalloc over memory that device registers.
result<std::unique_ptr<lasting_heap>> make_heap(registrar& device);
}  // namespace penstock::memreg

namespace penstock::PENSTOCK_ABI {

namespace detail {
/// The endpoint's heap, made by the first call. Null, and a line in the log, when it is full.
void* heap_allocate(conduit::engine& e, memreg::heap_maker make, std::size_t bytes,
                    std::size_t align) noexcept;
void heap_deallocate(conduit::engine& e, memreg::heap_maker make, void* p) noexcept;
}  // namespace detail

/// Memory that is registered with the endpoint's device for good: transfers from and to it need no
/// registration, no look-up in a cache and no copy. Any thread. Blocks must be freed, or forgotten,
/// before the endpoint goes.
class registered_heap final : public std::pmr::memory_resource {
 public:
  /// ep must have been started, and outlives this and every block.
  explicit registered_heap(endpoint& ep) noexcept : engine_(&ep.internals()) {}

 private:
  /// Throws std::bad_alloc when the device registers no more, as containers expect.
  void* do_allocate(std::size_t bytes, std::size_t align) override {
    void* const p = detail::heap_allocate(*engine_, &memreg::make_heap, bytes, align);
    if (p == nullptr) throw std::bad_alloc();
    return p;
  }
  void do_deallocate(void* p, std::size_t, std::size_t) override {
    detail::heap_deallocate(*engine_, &memreg::make_heap, p);
  }
  [[nodiscard]] bool do_is_equal(const std::pmr::memory_resource& o) const noexcept override {
    const auto* const other = dynamic_cast<const registered_heap*>(&o);
    return other != nullptr && other->engine_ == engine_;
  }
  conduit::engine* engine_;
};

}  // namespace penstock::PENSTOCK_ABI
