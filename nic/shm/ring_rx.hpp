// The consumer's end of a ring (ring.hpp).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "lib/base/assert.hpp"
#include "nic/shm/ring_memory.hpp"
#include "nic/shm/ring_turn.hpp"

namespace penstock::nic::shm {

/// Maps the pages of a ring's first data here, and takes memory for those that have none. For the
/// consumer's process; any thread.
void map_first_data(const ring_memory& m) noexcept;

/// The consumer's private view.
class ring_rx {
 public:
  ring_rx() = default;
  explicit ring_rx(ring_memory m) noexcept
      : m_(m),
        mask_(m.geometry.slots - 1),
        tell_(mask_ / 8),
        front_(m.slots),
        data_tell_(m.geometry.data_bytes / 8) {}

  /// One message in place.  producer could change it under us.
  struct message {
    const ring_slot* slot = nullptr;
    std::uint32_t data_bytes = 0;
    std::uint8_t op = 0;
    std::byte* data = nullptr;  ///< null when data_bytes is 0
    explicit operator bool() const noexcept { return slot != nullptr; }
  };

  /// True if a message waits. One load.
  [[nodiscard]] bool ready() const noexcept {
    // A1 poll  load-acquire slot.state  <- R1 (ring_tx.hpp)
    return ring_slot::is_at(front_->state.load(std::memory_order_acquire), head_);
  }

  /// ready(), for a thread that does not own the consumer's side: a hint, true or false may be
  /// stale.
  [[nodiscard]] bool ready_hint() noexcept {
    const ring_slot* const slot = std::atomic_ref(front_).load(std::memory_order_relaxed);
    const std::uint64_t head = std::atomic_ref(head_).load(std::memory_order_relaxed);
    return ring_slot::is_at(slot->state.load(std::memory_order_relaxed), head);
  }

  /// ready_hint() for a mark at the front.
  [[nodiscard]] bool mark_hint() noexcept {
    const ring_slot* const slot = std::atomic_ref(front_).load(std::memory_order_relaxed);
    const std::uint64_t head = std::atomic_ref(head_).load(std::memory_order_relaxed);
    const std::uint64_t state = slot->state.load(std::memory_order_relaxed);
    return ring_slot::is_at(state, head) && static_cast<std::uint8_t>(state >> 32) == op_turn;
  }

  /// What is at the front: nothing, an op without data, a mark (follow()), or what only front() can
  /// tell.
  enum class sight : std::uint8_t { nothing, plain, mark, other };
  [[nodiscard]] sight peek(std::uint8_t op, const ring_slot*& slot) const noexcept {
    slot = front_;
    // A1 poll  load-acquire slot.state  <- R1 (ring_tx.hpp)
    const std::uint64_t state = slot->state.load(std::memory_order_acquire);
    if (state == ring_slot::filled(head_, 0, op)) [[likely]]
      return sight::plain;
    if (!ring_slot::is_at(state, head_)) return sight::nothing;
    return static_cast<std::uint8_t>(state >> 32) == op_turn ? sight::mark : sight::other;
  }

  /// The oldest message, or none. It stays valid, and in the ring, until pop(). A length that
  /// cannot be (a producer gone mad) yields op 255 with no data; the caller breaks the connection.
  [[nodiscard]] message front() noexcept {
    const ring_slot& s = *front_;
    // A1 poll  load-acquire slot.state  <- R1 (ring_tx.hpp)
    const std::uint64_t state = s.state.load(std::memory_order_acquire);
    if (!ring_slot::is_at(state, head_)) return {};
    const auto control = static_cast<std::uint32_t>(state >> 32);
    message m{&s, control >> 8, static_cast<std::uint8_t>(control), nullptr};
    if (m.data_bytes > m_.geometry.longest()) [[unlikely]]
      return {&s, 0, 255, nullptr};
    if (m.data_bytes != 0) m.data = data_of(m.data_bytes);
    return m;
  }

  /// front(), if it is a message of that op with data_bytes of data; else none.
  [[nodiscard]] message front_of(std::uint8_t op, std::uint32_t data_bytes) const noexcept {
    // A1 poll  load-acquire slot.state  <- R1 (ring_tx.hpp)
    if (front_->state.load(std::memory_order_acquire) != ring_slot::filled(head_, data_bytes, op) ||
        data_bytes > m_.geometry.longest())
      return {};
    return {front_, data_bytes, op, data_bytes == 0 ? nullptr : data_of(data_bytes)};
  }

  /// Where a mark is at the front: goes on behind it. False: there is none, or one that cannot be.
  /// The owner of the consumer's side calls it when peek() sees something else than a message.
  [[gnu::noinline]] bool follow() noexcept;

  /// pop() of a message without data.
  void pop_slot() noexcept {
    if ((advance() & tell_) == 0) publish();
  }

  /// Gives the front message's room back. The producer learns of it at the next publication.
  void pop(const message& m) noexcept {
    const std::uint64_t head = advance();
    if (m.data_bytes != 0)
      data_head_ = ring_span(data_head_, m.data_bytes, m_.geometry.data_bytes).end;
    if ((head & tell_) == 0 || data_head_ - data_told_ >= data_tell_) publish();
  }

  /// Takes the front message out, and keeps its room until release(). Until then the producer is
  /// told of no room behind it. False: there is no message that could be.
  bool keep_front(kept_messages& kept, std::uint32_t reader) noexcept;
  /// Gives back the room of the oldest message that this reader keeps.
  void release(kept_messages& kept, std::uint32_t reader) noexcept;
  /// True if messages are kept: a mark that makes the ring shorter has to wait for them.
  [[nodiscard]] bool keeps() const noexcept { return kept_ != nullptr; }

  /// Tells the producer of all the room there is now.
  void publish() noexcept {
    if (kept_ != nullptr) [[unlikely]]
      return;
    // A lap that is longer than the last one that a mark has ended.
    if ((head_ & mask_) > lap_) [[unlikely]]
      lap_ = static_cast<std::uint32_t>(mask_), tell_ = lap_ / 8;
    if ((data_head_ & (m_.geometry.data_bytes - 1)) > data_lap_) [[unlikely]]
      data_lap_ = m_.geometry.data_bytes, data_tell_ = data_lap_ / 8;
    tell(head_, data_head_);
  }

  /// True if a counter is not what the consumer told last: only it writes them, so it is just about
  /// to, or somebody else has been there. Any thread.
  bool miscounted() noexcept { return compare_counters(false); }
  /// Puts such a counter right; true: there was one.
  bool mend() noexcept { return compare_counters(true); }
  /// False if the slot where the next message is awaited holds neither it nor what was there a lap
  /// ago, or is empty while one behind it is filled. Any thread: the producer fills slots in their
  /// order, and none before it has been taken, so what is seen while head_ stands still is what
  /// there is.
  [[nodiscard]] bool credible() noexcept {
    const auto front = [this] { return std::atomic_ref(head_).load(std::memory_order_relaxed); };
    const auto state_at = [this](std::uint64_t at) {
      // A7 slots  load-acquire slot.state  <- R1 (ring_tx.hpp)
      return m_.slots[at & mask_].state.load(std::memory_order_acquire);
    };
    const std::uint64_t head = front();
    // Not on pages where nothing has been: a look would make them.
    constexpr std::uint64_t looks_ahead = 32, slots_a_page = 4096 / sizeof(ring_slot);
    const auto page_of = [](std::uint64_t slot) {
      return (slot + sizeof(ring_shared) / sizeof(ring_slot)) / slots_a_page;
    };
    bool filled_behind = false;
    for (std::uint64_t i = 1;
         i <= looks_ahead && page_of((head + i) & mask_) == page_of(head & mask_); ++i)
      filled_behind |= ring_slot::is_at(state_at(head + i), head + i);
    const std::uint64_t state = state_at(head);  // after those behind it
    // Some laps ago it was another's; none, or one whose page was given back: nothing is there.
    const std::uint32_t ago =
        static_cast<std::uint32_t>(head + 1) - static_cast<std::uint32_t>(state);
    const bool before =
        static_cast<std::uint32_t>(state) == 0 || (ago != 0 && (ago & mask_) == 0 && ago <= head);
    const bool possible = ring_slot::is_at(state, head) || (!filled_behind && before);
    return possible || front() != head;
  }

  [[nodiscard]] bool connected() const noexcept { return m_.slots != nullptr; }
  /// Messages taken out, for a thread that is not the consumer: a hint.
  [[nodiscard]] std::uint64_t popped_hint() noexcept {
    return std::atomic_ref(head_).load(std::memory_order_relaxed);
  }
  [[nodiscard]] const ring_memory& memory() const noexcept { return m_; }

 private:
  void tell(std::uint64_t head, std::uint64_t data_head) noexcept {
    PENSTOCK_ASSERT(head_told_, <=, head);
    PENSTOCK_ASSERT(data_told_, <=, data_head);
    // R8 told  store-release head_told_, data_told_  -> A8 (mend): before the counters
    std::atomic_ref(head_told_).store(head, std::memory_order_release);
    std::atomic_ref(data_told_).store(data_head, std::memory_order_release);
    // R2 give room  store-release head, data_head  -> A2
    m_.shared->head.store(head, std::memory_order_release);
    m_.shared->data_head.store(data_head, std::memory_order_release);
  }
  // Where the front message has its data.
  [[nodiscard]] std::byte* data_of(std::uint32_t data_bytes) const noexcept {
    return m_.data + (ring_span(data_head_, data_bytes, m_.geometry.data_bytes).begin &
                      (m_.geometry.data_bytes - 1));
  }
  bool compare_counters(bool mend) noexcept {
    const auto wrong = [mend](std::atomic<std::uint64_t>& counter, std::uint64_t& told) {
      std::uint64_t seen = counter.load(std::memory_order_acquire);  // acquire: A8 comes after it
      // A8 told  load-acquire told  <- R8: after the counter, so that it is never the older one
      const std::uint64_t right = std::atomic_ref(told).load(std::memory_order_acquire);
      if (seen == right) return false;
      // R9 mend  cas release counter  -> A2: unless the consumer has written it meanwhile
      return !mend || counter.compare_exchange_strong(seen, right, std::memory_order_release,
                                                      std::memory_order_relaxed);
    };
    const bool head = wrong(m_.shared->head, head_told_);
    return wrong(m_.shared->data_head, data_told_) || head;
  }
  std::uint64_t advance() noexcept { return head_at(head_ + 1); }
  std::uint64_t head_at(std::uint64_t head) noexcept {
    // ready_hint() may look.
    std::atomic_ref(head_).store(head, std::memory_order_relaxed);
    std::atomic_ref(front_).store(&m_.slots[head & mask_], std::memory_order_relaxed);
    return head;
  }

  ring_memory m_;
  std::uint32_t mask_ = 0;  // of a position: its slot
  std::uint32_t tell_ = 0;  // positions at which the producer is told: an eighth of a lap apart
  ring_slot* front_ = &no_slot;  // where head_ is
  std::uint64_t head_ = 0, data_head_ = 0;
  std::uint64_t head_told_ = 0, data_told_ = 0;  // what the producer was told last
  std::uint32_t data_tell_ = 0;                  // data bytes after which it is told
  std::uint32_t lap_ = ~0u, data_lap_ = ~0u;     // where the last mark was; ~0: there was none
  kept_messages* kept_ = nullptr;                // null: none is kept
};

}  // namespace penstock::nic::shm
