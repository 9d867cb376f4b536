// Changes of the table; all under the owner's lock, none of them allocates.
#include "firehose/region_table.hpp"

#include <bit>

#include "lib/base/assert.hpp"

namespace penstock::firehose {

region_table::region_table(std::uint32_t regions, std::uint64_t window_bytes)
    : size_(regions + 1),
      shift_(static_cast<unsigned>(std::countr_zero(window_bytes))),
      head_shift_(64 - static_cast<unsigned>(std::bit_width(std::uint64_t{regions} * 4 - 1))),
      heads_(new std::atomic<std::uint32_t>[std::size_t{1} << (64 - head_shift_)]()),
      regions_(new region[size_]),
      uses_(size_) {
  for (std::uint32_t i = size_ - 1; i > 0; --i) {
    regions_[i].mark = free_;
    free_ = i;
  }
}

std::uint32_t region_table::allocate() noexcept {
  const std::uint32_t i = free_;
  if (i != 0) free_ = regions_[i].mark;
  return i;
}

void region_table::link(std::uint32_t i) noexcept {
  region& r = regions_[i];
  auto& head = heads_[slot(r.space.load(std::memory_order_relaxed),
                           window_of(r.start.load(std::memory_order_relaxed)))];
  r.next.store(head.load(std::memory_order_relaxed), std::memory_order_relaxed);
  // relaxed: a lookup that finds it early checks its state (V1)
  head.store(i, std::memory_order_relaxed);
}

void region_table::unlink(std::uint32_t i) noexcept {
  region& r = regions_[i];
  std::atomic<std::uint32_t>* at = &heads_[slot(
      r.space.load(std::memory_order_relaxed), window_of(r.start.load(std::memory_order_relaxed)))];
  while (at->load(std::memory_order_relaxed) != i) {
    PENSTOCK_ASSERT(at->load(std::memory_order_relaxed), !=, 0u);
    at = &regions_[at->load(std::memory_order_relaxed)].next;
  }
  at->store(r.next.load(std::memory_order_relaxed), std::memory_order_relaxed);
}

void region_table::free(std::uint32_t i) noexcept {
  region& r = regions_[i];
  // A reader that still looks at it finds no byte covered, or a state that is not live.
  r.state.store(region_state::absent, std::memory_order_relaxed);
  r.bytes.store(0, std::memory_order_relaxed);
  r.handle = nullptr;
  r.mark = free_;
  free_ = i;
}

bool region_table::take(std::uint32_t i, std::uint64_t addr, std::size_t len, lease& out) noexcept {
  use_counts::block* mine = uses_.mine();
  if (mine == nullptr) return false;
  region& r = regions_[i];
  use_counts::take(mine, i);
  const std::uint64_t left =
      r.bytes.load(std::memory_order_relaxed) - (addr - r.start.load(std::memory_order_relaxed));
  out.reset();
  out.table_ = this;
  out.region_ = i;
  out.lkey_ = r.lkey.load(std::memory_order_relaxed);
  out.rkey_ = r.rkey.load(std::memory_order_relaxed);
  out.bytes_ = len < left ? len : left;
  return true;
}

std::uint32_t region_table::next_victim(std::uint32_t space) noexcept {
  // Two rounds: the first notes the use counts of regions in use, the second finds one of them
  // idle.
  for (std::uint32_t n = 0; n < 2 * (size_ - 1); ++n) {
    hand_ = hand_ + 1 < size_ ? hand_ + 1 : 1;
    region& r = regions_[hand_];
    if (r.state.load(std::memory_order_relaxed) != region_state::live ||
        (space != any_space && r.space.load(std::memory_order_relaxed) != space))
      continue;
    const use_counts::sum s = uses_.total(hand_);
    const bool idle = s.out == 0 && s.taken == r.taken_then;
    r.taken_then = s.taken;
    if (idle) return hand_;
  }
  return 0;
}

std::uint32_t region_table::close(std::uint32_t* which, std::uint32_t count) noexcept {
  constexpr std::uint32_t most = 64;
  region_state before[most];
  if (count > most) count = most;
  if (count == 0) return 0;
  for (std::uint32_t n = 0; n < count; ++n) {
    before[n] = regions_[which[n]].state.load(std::memory_order_relaxed);
    regions_[which[n]].state.store(region_state::closing, std::memory_order_relaxed);  // R1
  }
  heavy_barrier();
  std::uint32_t kept = 0;
  for (std::uint32_t n = 0; n < count; ++n) {
    const std::uint32_t i = which[n];
    if (uses_.total(i).out != 0) {  // R2
      // V1 again: the fields are unchanged since they were published.
      regions_[i].state.store(before[n], std::memory_order_release);
      continue;
    }
    unlink(i);
    which[kept++] = i;
  }
  return kept;
}

}  // namespace penstock::firehose
