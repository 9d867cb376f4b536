// Ranges of pages in memory of their own, so that they can be read where the program's heap is not
// there: in a child, whose copy of the heap is yet to be made. Sorted; touching ranges stay apart.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "lib/base/assert.hpp"
#include "lib/base/zero_pages.hpp"

namespace penstock::nic::shm {

class page_ranges {
 public:
  struct range {
    std::uint64_t first, end;
  };

  /// Room for that number of ranges; throws std::bad_alloc.
  explicit page_ranges(std::uint32_t room) : at_(room), room_(room) {}

  [[nodiscard]] const range* begin() const noexcept { return at_.get(); }
  [[nodiscard]] const range* end() const noexcept { return at_.get() + count_; }
  void clear() noexcept { count_ = 0; }

  /// Adds a range that overlaps none. False: there is no room.
  [[nodiscard]] bool add(std::uint64_t first, std::uint64_t end) noexcept {
    return insert(place(first), {first, end});
  }
  /// Takes [first, end) out of the ranges that there are. False: there is no room for what is left
  /// of one that is cut in two; its second part is forgotten.
  bool remove(std::uint64_t first, std::uint64_t end) noexcept {
    std::uint32_t i = place(first);
    if (i != 0 && at_[i - 1].end > first) --i;
    std::uint32_t kept = i;
    for (; i < count_ && at_[i].first < end; ++i) {
      const range r = at_[i];
      if (r.first < first) at_[kept++] = {r.first, first};
      if (r.end <= end) continue;
      if (kept <= i) {
        at_[kept++] = {end, r.end};
      } else {  // it was one range, and becomes two
        return insert(kept, {end, r.end});
      }
    }
    PENSTOCK_ASSERT(kept, <=, i);
    std::memmove(&at_[kept], &at_[i], (count_ - i) * sizeof(range));
    count_ -= i - kept;
    return true;
  }
  [[nodiscard]] bool has(std::uint64_t address) const noexcept {
    const std::uint32_t i = place(address + 1);
    return i != 0 && at_[i - 1].end > address;
  }

 private:
  /// The first range that does not begin before it.
  [[nodiscard]] std::uint32_t place(std::uint64_t first) const noexcept {
    return static_cast<std::uint32_t>(
        std::lower_bound(begin(), end(), first,
                         [](const range& r, std::uint64_t at) { return r.first < at; }) -
        begin());
  }
  bool insert(std::uint32_t i, range r) noexcept {
    if (count_ == room_) return false;
    PENSTOCK_ASSERT(r.first, <, r.end);
    PENSTOCK_ASSERT(i == 0 || at_[i - 1].end <= r.first, ==, true);
    PENSTOCK_ASSERT(i == count_ || r.end <= at_[i].first, ==, true);
    std::memmove(&at_[i + 1], &at_[i], (count_ - i) * sizeof(range));
    at_[i] = r;
    ++count_;
    return true;
  }

  zero_array<range> at_;
  std::uint32_t room_, count_ = 0;
};

}  // namespace penstock::nic::shm
