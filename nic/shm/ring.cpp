// What a ring does seldom: it turns, it grows longer or shorter, its memory is taken and given
// back.
#include "nic/shm/ring.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cerrno>

#include "lib/base/assert.hpp"
#include "lib/base/log.hpp"
#include "lib/base/page.hpp"

#ifndef MADV_POPULATE_WRITE  // Linux 5.14
#define MADV_POPULATE_WRITE 23
#endif

namespace penstock::nic::shm {
namespace {

constexpr std::uint64_t up(std::uint64_t n, std::uint64_t to) noexcept {
  return (n + to - 1) & ~(to - 1);
}
std::byte* page_down(std::byte* p) noexcept {
  return p - (reinterpret_cast<std::uintptr_t>(p) & (page_bytes() - 1));
}
std::byte* page_up(std::byte* p) noexcept { return page_down(p + page_bytes() - 1); }

// Memory for data is taken in steps, so that this happens seldom; the first is what the longest
// message of the default size needs.
constexpr std::uint32_t step = 8 * 1024;
std::uint32_t first_step(const ring_memory& m) noexcept {
  std::byte* const end = std::max(page_down(m.data + step), page_up(m.data + 1));
  return std::min(static_cast<std::uint32_t>(end - m.data), m.geometry.data_bytes);
}

}  // namespace

bool take_pages(std::byte* begin, std::byte* end) noexcept {
  begin = page_down(begin);
  end = page_up(end);
  int r;
  do r = ::madvise(begin, static_cast<std::size_t>(end - begin), MADV_POPULATE_WRITE);
  while (r != 0 && errno == EINTR);
  // Any other error means that the kernel lacks the call; the pages come when they are touched.
  return r == 0 || (errno != ENOMEM && errno != EFAULT);
}

void give_back_pages(std::byte* begin, std::byte* end) noexcept {
  begin = page_up(begin);
  end = page_down(end);
  if (begin < end) ::madvise(begin, static_cast<std::size_t>(end - begin), MADV_REMOVE);
}

// ---- ring_length ----

ring_length ring_length::holding(std::uint32_t slots, std::uint32_t data,
                                 const ring_geometry& g) noexcept {
  // Whole pages, less the header in front of the first slot, and less the mark's own slot.
  const std::uint64_t page = page_bytes();
  const std::uint64_t slot_bytes =
      up(sizeof(ring_shared) + (std::uint64_t{slots} + 1) * sizeof(ring_slot), page);
  const auto most =
      static_cast<std::uint32_t>((slot_bytes - sizeof(ring_shared)) / sizeof(ring_slot) - 1);
  ring_length l;
  l.slots = most < g.slots - 1 ? most : g.slots;
  // The data begin behind all slots, within a page.
  const std::uint64_t front = sizeof(ring_shared) + std::uint64_t{g.slots} * sizeof(ring_slot);
  const std::uint64_t data_end = up(front + data, page) - front;
  l.data =
      data == 0 ? 0 : static_cast<std::uint32_t>(std::min<std::uint64_t>(data_end, g.data_bytes));
  return l;
}

std::size_t ring_length::memory(const ring_geometry& g) const noexcept {
  const std::size_t page = page_bytes();
  const std::size_t all = up(g.memory(), page);
  const std::size_t marked = slots < g.slots ? slots + 1 : slots;
  const std::size_t front = up(sizeof(ring_shared) + marked * sizeof(ring_slot), page);
  const std::size_t first_data = sizeof(ring_shared) + std::size_t{g.slots} * sizeof(ring_slot);
  const std::size_t behind = up(first_data + data, page) - first_data / page * page;
  const std::size_t shared_page = front > first_data / page * page ? page : 0;
  return std::min(all, data == 0 ? front : front + behind - shared_page);
}

// ---- the producer ----

// Writes a mark at tail_; a slot for it is free.
void ring_tx::mark(turn_mark t) noexcept {
  ring_slot& s = m_.slots[tail_ & mask_];
  s.header = t.encode();
  const std::uint64_t tail = tail_;
  // R1 publish  store-release slot.state  -> A1, A7 (ring_rx.hpp)
  s.state.store(ring_slot::filled(tail, t.length_of_slot(), op_turn), std::memory_order_release);
  const std::uint64_t next = t.slots ? (tail | mask_) + 1 : tail + 1;
  std::atomic_ref(tail_).store(next, std::memory_order_relaxed);
  // R10 skip  store-release skipped_  -> A10: tail_ has gone on
  std::atomic_ref(skipped_).store(skipped_ + (next - tail), std::memory_order_release);
  if (t.slots)
    gap_ = static_cast<std::uint32_t>(next - tail),
    turn_at_ = length_.slots < m_.geometry.slots ? next + length_.slots : never;
  if (t.data) data_tail_ = up(data_tail_, m_.geometry.data_bytes);
  PENSTOCK_ASSERT(tail_, <=, turn_at_);
}

void ring_tx::turn(bool data) noexcept { mark({.slots = tail_ == turn_at_, .data = data}); }

// Called before a push of data_bytes, for which there is room: afterwards put() finds all it needs.
void ring_tx::prepare_slow(std::uint32_t data_bytes) noexcept {
  if (data_bytes != 0) {
    const std::uint64_t used = data_tail_ & (m_.geometry.data_bytes - 1);
    if (turns_for(data_bytes)) {  // there is room, so what it goes to has been used, and has memory
      turn(true);
    } else if (const std::uint64_t end = std::min<std::uint64_t>(used + data_bytes, length_.data);
               end > data_ready_) {
      const auto ready =
          static_cast<std::uint32_t>(std::min<std::uint64_t>(up(end, step), length_.data));
      if (!take_pages(m_.data + data_ready_, m_.data + ready))
        fatal(1, "there is no memory for %u bytes of a ring (errno %d)", ready, errno);
      data_ready_ = ready;
    }
  }
  if (tail_ == turn_at_) turn(false);
  PENSTOCK_ASSERT(data_ready_, <=, length_.data);
}

// Called when there is no room for a message: writes the mark that would precede it now, since a
// consumer publishes its counters when it passes a mark, if not before.
bool ring_tx::turn_early(std::uint32_t data) noexcept {
  const bool data_turn =
      turns_for(data) && data <= length_.data && (data_tail_ & (m_.geometry.data_bytes - 1)) != 0;
  if (tail_ != stop_ || tail_ + 1 - head_ > m_.geometry.slots || (!data_turn && tail_ != turn_at_))
    return false;
  turn(data_turn);
  stop_ = tail_;
  return true;
}

bool ring_tx::lengthen(ring_length to) noexcept {
  if (to.slots <= length_.slots && to.data <= length_.data) return true;
  if (head_ < floor_) refresh();
  if (head_ < floor_) return false;  // (R-d)
  to.slots = std::max(to.slots, length_.slots);
  to.data = std::max(to.data, length_.data);
  auto* const first = reinterpret_cast<std::byte*>(m_.slots);
  if (to.slots > length_.slots &&
      !take_pages(first, first + std::min(to.slots + 1, m_.geometry.slots) * sizeof(ring_slot)))
    return false;
  PENSTOCK_ASSERT(tail_, ==, stop_);  // or what is permitted would pass the mark
  length_ = to;
  PENSTOCK_ASSERT(length_.data, <=, m_.geometry.data_bytes);
  gap_ = 0;
  turn_at_ = to.slots < m_.geometry.slots ? (tail_ & ~mask_) + to.slots : never;
  return true;
}

bool ring_tx::shorten(ring_length to) noexcept {
  if (head_ < floor_ || tail_ + 1 - head_ > m_.geometry.slots) refresh();
  if (head_ < floor_ || tail_ != stop_ || tail_ + 1 - head_ > m_.geometry.slots) return false;
  PENSTOCK_ASSERT(to.slots, <=, m_.geometry.slots);
  length_ = to;
  data_ready_ = std::min(data_ready_, to.data);
  data_likely_ = data_tail_ != data_from_;
  std::atomic_ref(floor_).store((tail_ | mask_) + 1,
                                std::memory_order_relaxed);  // intact() may look
  mark({true, true, true, static_cast<std::uint16_t>(to.slots), to.data});
  stop_ = tail_;
  data_from_ = data_tail_;
  return true;
}

void ring_tx::ready_data() noexcept {
  const std::uint32_t first = std::min(first_step(m_), length_.data);
  if (data_likely_ && first > data_ready_ && take_pages(m_.data + data_ready_, m_.data + first))
    data_ready_ = first;
}

// ---- the consumer ----

void map_first_data(const ring_memory& m) noexcept {
  (void)take_pages(m.data, m.data + first_step(m));
}

bool ring_rx::follow() noexcept {
  // A1 poll  load-acquire slot.state  <- R1
  const std::uint64_t state = front_->state.load(std::memory_order_acquire);
  const std::uint64_t word = front_->header;
  const auto t = turn_mark::decode(word);
  if (state != ring_slot::filled(head_, t.length_of_slot(), op_turn)) return false;
  const ring_geometry& g = m_.geometry;
  if (!t.possible(word, g.slots, g.data_bytes)) return false;
  if (t.shorter && kept_ != nullptr) return false;  // what is kept may lie in what is given back
  if (t.slots) {
    lap_ = static_cast<std::uint32_t>(head_ & mask_);
    tell_ = std::bit_floor(std::max(lap_ / 8, 1u)) - 1;
    head_at((head_ | mask_) + 1);
  } else {
    head_at(head_ + 1);
  }
  if (t.data) {
    data_lap_ = static_cast<std::uint32_t>(data_head_ & (g.data_bytes - 1));
    data_tell_ = std::max(data_lap_ / 8, 1u);
    data_head_ = up(data_head_, g.data_bytes);
  }
  // Passing this mark tells the producer that it may use more (R-d), so the unused memory is given
  // back before that. A thread that checks the ring is not misled: the messages that it does not
  // yet see taken are still there.
  if (t.shorter) {
    auto* const slots = reinterpret_cast<std::byte*>(m_.slots);
    std::byte* const behind = slots + (t.length + std::size_t{1}) * sizeof(ring_slot);
    std::byte* const all = m_.data + g.data_bytes;
    if (t.data_length == 0) {
      give_back_pages(behind, page_up(all));
    } else {
      give_back_pages(behind, m_.data);
      give_back_pages(m_.data + t.data_length, page_up(all));
    }
  }
  publish();
  return true;
}

bool ring_rx::keep_front(kept_messages& kept, std::uint32_t reader) noexcept {
  const message m = front();
  if (!m || m.op == 255 || kept.count == m_.geometry.slots) return false;
  kept.at[kept.count++] = {head_, data_head_, reader, false};
  PENSTOCK_ASSERT(kept_ == nullptr || kept_ == &kept, ==, true);
  kept_ = &kept;
  advance();
  if (m.data_bytes != 0)
    data_head_ = ring_span(data_head_, m.data_bytes, m_.geometry.data_bytes).end;
  return true;
}

void ring_rx::release(kept_messages& kept, std::uint32_t reader) noexcept {
  std::uint32_t first = 0;
  while (first < kept.count && (kept.at[first].done || kept.at[first].reader != reader)) ++first;
  if (first == kept.count) return;
  PENSTOCK_ASSERT(kept_ == &kept, ==, true);
  kept.at[first].done = true;
  std::uint32_t gone = 0;
  while (gone < kept.count && kept.at[gone].done) ++gone;
  std::copy(kept.at + gone, kept.at + kept.count, kept.at);
  PENSTOCK_ASSERT(gone, <=, kept.count);
  kept.count -= gone;
  if (kept.count == 0) {
    kept_ = nullptr;
    publish();
  } else {
    tell(kept.at[0].head, kept.at[0].data_head);
  }
}

}  // namespace penstock::nic::shm
