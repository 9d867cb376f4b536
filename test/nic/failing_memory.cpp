// The allocation functions of a program that failing_memory.hpp makes fail.
#include "test/nic/failing_memory.hpp"

#include <cstddef>
#include <cstdlib>
#include <new>

namespace failing_memory {
thread_local std::uint64_t to_failure = none;
}

namespace {

using failing_memory::none, failing_memory::to_failure;

void* allocate(std::size_t bytes, std::size_t alignment) noexcept {
  const bool fails = to_failure == 0;
  if (to_failure != none) to_failure = fails ? none : to_failure - 1;
  if (fails) return nullptr;
  void* at = nullptr;
  return ::posix_memalign(&at, alignment, bytes) == 0 ? at : nullptr;
}

void* or_throw(void* at) {
  if (at == nullptr) throw std::bad_alloc();
  return at;
}

}  // namespace

// All kinds: a sanitizer's own ones would not ask the first.
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return allocate(bytes, alignof(std::max_align_t));
}
void* operator new(std::size_t bytes, std::align_val_t to, const std::nothrow_t&) noexcept {
  return allocate(bytes, static_cast<std::size_t>(to));
}
void* operator new(std::size_t bytes) { return or_throw(::operator new(bytes, std::nothrow)); }
void* operator new(std::size_t bytes, std::align_val_t to) {
  return or_throw(::operator new(bytes, to, std::nothrow));
}
void operator delete(void* at) noexcept { std::free(at); }
void operator delete(void* at, std::size_t) noexcept { std::free(at); }
void operator delete(void* at, std::align_val_t) noexcept { std::free(at); }
void operator delete(void* at, std::size_t, std::align_val_t) noexcept { std::free(at); }
