// Room for work that may never come.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "lib/base/mapped_memory.hpp"

namespace penstock::nic::shm {

/// An allocator that leaves the elements of a new vector as they are: pages of memory that nothing
/// is written to take none. For elements that are written before they are read. The memory report
/// counts them.
template <class T>
struct untouched : std::allocator<T> {
  template <class U>
  struct rebind {
    using other = untouched<U>;
  };
  T* allocate(std::size_t n) {
    T* const at = std::allocator<T>::allocate(n);
    note_mapped("the device's queues and buffers", at, n * sizeof(T));
    return at;
  }
  void deallocate(T* at, std::size_t n) noexcept {
    forget_mapped(at);
    std::allocator<T>::deallocate(at, n);
  }
  template <class U>
  void construct(U*) noexcept {}
  template <class U, class... Args>
  void construct(U* at, Args&&... args) {
    ::new (static_cast<void*>(at)) U(std::forward<Args>(args)...);
  }
};
template <class T>
using untouched_vector = std::vector<T, untouched<T>>;

}  // namespace penstock::nic::shm
