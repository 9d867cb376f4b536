// Memory that is registered for as long as its endpoint is open, for containers by std::pmr. It is
// a component of its own: programs also link penstock::heap (CMake) or penstock-heap (pkg-config),
// since the heap is jemalloc's, and the library of messages brings no allocator.
//
// The shared libpenstock-heap, linked or preloaded, also makes the program's own malloc such a
// heap: puts, gets and Longs from any malloc'ed memory then find it registered. It has to be there
// when the program starts; dlopen cannot load it.
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
/// Makes libpenstock-heap's heap: jemalloc over memory that device registers.
result<std::unique_ptr<lasting_heap>> make_heap(registrar& device);
}  // namespace penstock::memreg

namespace penstock::PENSTOCK_ABI {

namespace detail {
/// Allocates from the endpoint's heap, which the first call makes. Null, and a line in the log,
/// when the heap is full.
void* heap_allocate(conduit::engine& e, memreg::heap_maker make, std::size_t bytes,
                    std::size_t align) noexcept;
void heap_deallocate(conduit::engine& e, memreg::heap_maker make, void* p) noexcept;
}  // namespace detail

/// Memory that stays registered with the endpoint's device: transfers from and to it need no
/// registration, no look-up in a cache and no copy. Any thread may allocate and free. The program
/// must have freed its blocks, or use them no more, when the endpoint is destroyed.
class registered_heap final : public std::pmr::memory_resource {
 public:
  /// ep must have been started, and must live longer than this object and every block.
  explicit registered_heap(endpoint& ep) noexcept : engine_(&ep.internals()) {}

 private:
  /// As containers expect, it throws std::bad_alloc when the device registers no more memory.
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
