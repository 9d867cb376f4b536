// Arrays for as many entries as a job has ranks, of which a process needs few: memory that the
// system gives page by page, when an entry is first written. Set-up makes them; any folder may use
// them.
#pragma once

#include <cstddef>
#include <utility>

namespace penstock {

/// Address space of that many bytes, which reads as zero; throws std::bad_alloc where there is
/// none. A page takes memory once it is written, and is never part of a huge page. (Programs that
/// call mlockall(MCL_FUTURE) get all pages at once.)
void* zero_pages(std::size_t bytes);
/// Gives it back.
void release_zero_pages(void* at, std::size_t bytes) noexcept;

/// Entries of T, each in the state in which all its bytes are zero. T must be valid in that state:
/// no constructor runs, and no destructor (whoever has filled an entry in ends it).
template <class T>
class zero_array {
 public:
  zero_array() = default;
  explicit zero_array(std::size_t entries)
      : at_(static_cast<T*>(zero_pages(entries * sizeof(T)))), entries_(entries) {}
  zero_array(zero_array&& o) noexcept
      : at_(std::exchange(o.at_, nullptr)), entries_(std::exchange(o.entries_, 0)) {}
  zero_array& operator=(zero_array&& o) noexcept {
    std::swap(at_, o.at_);
    std::swap(entries_, o.entries_);
    return *this;
  }
  ~zero_array() { release_zero_pages(at_, entries_ * sizeof(T)); }

  [[nodiscard]] T& operator[](std::size_t i) const noexcept { return at_[i]; }
  [[nodiscard]] T* get() const noexcept { return at_; }
  [[nodiscard]] std::size_t size() const noexcept { return entries_; }
  [[nodiscard]] bool empty() const noexcept { return entries_ == 0; }

 private:
  T* at_ = nullptr;
  std::size_t entries_ = 0;
};

}  // namespace penstock
