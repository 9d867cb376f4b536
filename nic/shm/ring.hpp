// One direction of a connected pair of queue pairs on one host: a single-producer single-consumer
// ring in shared memory. The shared-memory device builds SEND and RECV on it; the engine's direct
// path pushes and pops messages here without a work request. Not here: who owns the memory, who may
// produce.
//
//   consumer's line     producer's line    slots: 64 bytes each             data: a byte ring
//   +----------------+  +--------------+  +-----------------------------+  +--------------------+
//   | head data_head |  | state        |  | state header body[48]       |  | payload over 48 B  |
//   +----------------+  +--------------+  +-----------------------------+  +--------------------+
//
// A message is one slot; what does not fit its body lies in the data ring, in one piece. Both sides
// compute where from the lengths alone (ring_span), so no offset crosses.
//
// Who with whom: one thread at a time produces, one consumes; they need nothing of each other.
// Invariants: (R-a) slot i of lap n is written only after head has passed it in lap n-1;
//   (R-b) a slot is read only when its state names its position + 1; (R-c) data bytes are reused
//   only after data_head has passed them. Effect: a push happens at R1, a pop at A1; room is given
//   back at R2.
// Full: try_push answers false, nothing is written. Death: a producer that dies before R1 leaves
// the
//   slot unseen; a consumer that dies leaves the ring full. Either side may write rubbish: lengths,
//   positions and states from the other side are checked or masked before use, and what each side
//   knows better it finds written over (mend, credible, intact, refusals).
// Cost: a push or pop is no RMW, no fence on x86; one line moves for up to 48 bytes of body. The
//   consumer's line moves once in an eighth of a lap.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "lib/base/limits.hpp"
#include "lib/base/mode.hpp"

namespace penstock::nic::shm {

/// Bytes of a message that travel in the slot itself.
inline constexpr std::size_t slot_body = limits::slot_body;

/// How many slots ahead of a push a line is fetched for writing: far enough that a consumer that
/// has caught up does not look there.
inline constexpr std::uint64_t write_ahead = 8;
/// From how many pushes on that nothing has answered this is done.
inline constexpr std::uint32_t stream_pushes = 4;
/// How many lines of data are fetched ahead behind a message that has some, in a stream or not.
inline constexpr std::uint64_t data_ahead = 2;

struct alignas(cache_line) ring_slot {
  /// position + 1 when filled, in the low half; data bytes << 8 | operation in the high half. One
  /// word, so that a push is few stores: they queue up behind lines that are on their way.
  std::atomic<std::uint64_t> state;
  std::uint64_t header;  ///< what the operation makes of it
  std::byte body[slot_body];

  static constexpr std::uint64_t filled(std::uint64_t position, std::uint32_t data_bytes,
                                        std::uint8_t op) noexcept {
    return (std::uint64_t{data_bytes << 8 | op} << 32) | static_cast<std::uint32_t>(position + 1);
  }
  static constexpr bool is_at(std::uint64_t state, std::uint64_t position) noexcept {
    return static_cast<std::uint32_t>(state) == static_cast<std::uint32_t>(position + 1);
  }
};
static_assert(sizeof(ring_slot) == cache_line);

/// Copies n words into a slot's body, at most those it holds, in pairs: there must be room for an
/// even number at words.
inline void copy_words(std::byte* body, const std::uint32_t* words, unsigned n) noexcept {
  static_assert(slot_body == 48);
  if (n <= 2) [[likely]] {
    if (n != 0) std::memcpy(body, words, 8);
    return;
  }
  switch ((n + 1) / 2) {
    case 6:
      std::memcpy(body + 40, words + 10, 8);
      [[fallthrough]];
    case 5:
      std::memcpy(body + 32, words + 8, 8);
      [[fallthrough]];
    case 4:
      std::memcpy(body + 24, words + 6, 8);
      [[fallthrough]];
    case 3:
      std::memcpy(body + 16, words + 4, 8);
      [[fallthrough]];
    default:
      std::memcpy(body + 8, words + 2, 8);
      std::memcpy(body, words, 8);
  }
}

/// The part of a ring that both processes map, at the start of its memory.
struct ring_shared {
  alignas(cache_line) std::atomic<std::uint64_t> head;  // written by the consumer
  std::atomic<std::uint64_t> data_head;
  alignas(cache_line) std::atomic<std::uint32_t> producer_state;  // for the device's use
  std::atomic<std::uint32_t> producer_waits;
};
static_assert(sizeof(ring_shared) == 2 * cache_line);

/// Sizes of a ring; both are powers of two. The same on both sides, fixed when the ring is made.
struct ring_geometry {
  std::uint32_t slots = limits::ring_slots;
  std::uint32_t data_bytes = limits::ring_data;
  [[nodiscard]] constexpr std::size_t memory() const noexcept {
    return sizeof(ring_shared) + std::size_t{slots} * sizeof(ring_slot) + data_bytes;
  }
  /// Longest payload one message may put in the data ring: half of it, so that a wrap never wedges.
  [[nodiscard]] constexpr std::uint32_t longest() const noexcept { return data_bytes / 2; }
};
static_assert(ring_geometry{}.longest() >= limits::longest_message &&
              ring_geometry{}.longest() < 1u << 24);  // a slot's state has 24 bits for it

/// Where n data bytes go when the data position is at: never across the end of the ring.
struct ring_span {
  std::uint64_t begin, end;
  constexpr ring_span(std::uint64_t at, std::uint32_t n, std::uint32_t size) noexcept {
    const std::uint64_t used = at & (size - 1);
    begin = used + n > size ? at + (size - used) : at;
    end = begin + ((n + cache_line - 1) & ~(cache_line - 1));
  }
};

/// The parts of a ring's memory, as one process maps it.
struct ring_memory {
  ring_shared* shared = nullptr;
  ring_slot* slots = nullptr;
  std::byte* data = nullptr;
  ring_geometry geometry;

  ring_memory() = default;
  ring_memory(void* base, ring_geometry g) noexcept
      : shared(static_cast<ring_shared*>(base)),
        slots(reinterpret_cast<ring_slot*>(static_cast<std::byte*>(base) + sizeof(ring_shared))),
        data(reinterpret_cast<std::byte*>(slots + g.slots)),
        geometry(g) {}
};

/// The producer's private view.
class ring_tx {
 public:
  ring_tx() = default;
  explicit ring_tx(ring_memory m) noexcept : m_(m), mask_(m.geometry.slots - 1) {}
  ring_tx(const ring_tx&) = default;
  /// Becomes another ring's view; answered() may be called meanwhile.
  ring_tx& operator=(const ring_tx& o) noexcept {
    m_ = o.m_;
    mask_ = o.mask_;
    tail_ = o.tail_;
    stop_ = o.stop_;
    data_tail_ = o.data_tail_;
    head_ = o.head_;
    data_head_ = o.data_head_;
    refusals_ = o.refusals_;
    answered();
    return *this;
  }

  /// True if `messages` slots and `data` bytes (in one piece each of up to longest()) are free.
  [[nodiscard]] bool has_room(std::uint32_t messages, std::uint32_t data) noexcept {
    return fits(messages, data) || (refresh(), fits(messages, data));
  }

  /// Data bytes that `pieces` of `piece` bytes may take, whatever their order: each takes whole
  /// lines, and one of them may have to skip the end of the ring.
  static constexpr std::uint32_t worst(std::uint32_t pieces, std::uint32_t piece) noexcept {
    return (pieces + 1) * ((piece + cache_line - 1) & ~(std::uint32_t{cache_line} - 1));
  }
  /// True if `messages` slots are free, and so many data bytes, by worst().
  [[nodiscard]] bool has_room_for(std::uint32_t messages, std::uint32_t data) noexcept {
    const auto enough = [&] {
      return tail_ + messages - head_ <= m_.geometry.slots &&
             data_tail_ + data - data_head_ <= m_.geometry.data_bytes;
    };
    return enough() || (refresh(), enough());
  }

  /// Pushes one message; fill(body, data) writes it, at most slot_body and data_bytes bytes.
  /// False, and nothing written, when the ring is full. data_bytes at most geometry.longest().
  template <class Fill>
  [[nodiscard]] bool try_push(std::uint8_t op, std::uint64_t header, std::uint32_t data_bytes,
                              Fill&& fill) noexcept {
    if (!has_room(1, data_bytes)) [[unlikely]]
      return false;
    push(op, header, data_bytes, fill);
    return true;
  }
  /// try_push() by who knows that there is room.
  template <class Fill>
  void push(std::uint8_t op, std::uint64_t header, std::uint32_t data_bytes, Fill&& fill) noexcept {
    put(op, header, data_bytes, fill);
    stop_ = tail_;
  }

  /// Lets push_allowed() push up to n messages without looking whether a slot is free; answers how
  /// many there is room for. Any other push, and recall(), ends it.
  std::uint32_t allow(std::uint32_t n) noexcept {
    const std::uint64_t room = m_.geometry.slots - (tail_ - head_);
    const auto granted = static_cast<std::uint32_t>(n < room ? n : room);
    stop_ = tail_ + granted;
    return granted;
  }
  /// Takes back what push_allowed() has not used: how many messages.
  std::uint32_t recall() noexcept {
    return static_cast<std::uint32_t>(std::exchange(stop_, tail_) - tail_);
  }
  /// Pushes a message of words (copy_words) if allow() has left one; false: not allowed.
  [[nodiscard]] bool push_allowed(std::uint8_t op, std::uint64_t header, const std::uint32_t* words,
                                  unsigned n) noexcept {
    if (tail_ == stop_) [[unlikely]]
      return false;
    put_words(op, header, words, n);
    return true;
  }
  /// The same with data; false, too, when no room is known for them.
  template <class Fill>
  [[nodiscard]] bool push_allowed(std::uint8_t op, std::uint64_t header, std::uint32_t data_bytes,
                                  Fill&& fill) noexcept {
    if (tail_ == stop_ || !fits(1, data_bytes)) [[unlikely]]
      return false;
    put(op, header, data_bytes, fill);
    return true;
  }
  /// push() of a message of words (copy_words).
  void push_words(std::uint8_t op, std::uint64_t header, const std::uint32_t* words,
                  unsigned n) noexcept {
    put_words(op, header, words, n);
    stop_ = tail_;
  }

  /// A message that answers the last one has come: what is pushed next does not belong to a stream.
  /// Any thread; a hint.
  void answered() noexcept { std::atomic_ref(burst_).store(0, std::memory_order_relaxed); }

  [[nodiscard]] bool connected() const noexcept { return m_.slots != nullptr; }
  /// True when the consumer has taken all that was pushed and has said so.
  [[nodiscard]] bool drained() noexcept { return refresh(), head_ == tail_; }
  /// Messages pushed so far. Any thread.
  [[nodiscard]] std::uint64_t pushed() noexcept {
    return std::atomic_ref(tail_).load(std::memory_order_relaxed);
  }
  /// True when the consumer has said that it has taken everything before this position.
  [[nodiscard]] bool passed(std::uint64_t position) noexcept {
    return head_ >= position || (refresh(), head_ >= position);
  }
  [[nodiscard]] const ring_memory& memory() const noexcept { return m_; }

  /// Most messages that were in the ring when the producer looked what the consumer has taken,
  /// which it does once a lap at least. Any thread.
  [[nodiscard]] std::uint64_t most() noexcept {
    return std::atomic_ref(most_).load(std::memory_order_relaxed);
  }

  /// How often a counter of the consumer's was one that cannot be. Any thread.
  [[nodiscard]] std::uint32_t refusals() noexcept {
    return std::atomic_ref(refusals_).load(std::memory_order_relaxed);
  }
  /// False if the state of a slot that was pushed, and by the consumer's counter not taken yet, is
  /// not what was written: somebody else has been there. Any thread; nobody but the producer writes
  /// states, and none before tail_ names the push before it, so what is seen while tail_ stands
  /// still is what there is. A ring of nothing but zeros has been given back by its owner.
  [[nodiscard]] bool intact() noexcept {
    const std::uint64_t tail = pushed();
    const std::uint64_t head = m_.shared->head.load(std::memory_order_acquire);
    // A7 slots  load-acquire slot.state  <- R1
    if (tail == head || tail - head > m_.geometry.slots ||
        m_.slots[0].state.load(std::memory_order_acquire) == 0)
      return true;
    bool as_written = true;
    // The oldest may be on its way into the next lap.
    const std::uint64_t first = tail - head == m_.geometry.slots ? head + 1 : head;
    for (std::uint64_t at = first; at != tail; ++at)
      as_written &=
          ring_slot::is_at(m_.slots[at & mask_].state.load(std::memory_order_acquire), at);
    return as_written || pushed() != tail || m_.slots[0].state.load(std::memory_order_acquire) == 0;
  }

 private:
  // Writes a message into the next slot, which is free. Part of its caller, so that what fill knows
  // stays in registers.
  template <class Fill>
  [[gnu::always_inline]] void put(std::uint8_t op, std::uint64_t header, std::uint32_t data_bytes,
                                  Fill&& fill) noexcept {
    ring_slot& s = m_.slots[tail_ & mask_];
    std::byte* data = nullptr;
    if (data_bytes != 0) {
      const ring_span span(data_tail_, data_bytes, m_.geometry.data_bytes);
      data = m_.data + (span.begin & (m_.geometry.data_bytes - 1));
      data_tail_ = span.end;
      // Likely the next message's place: its stores come before the slot's, which wait for them.
      for (std::uint64_t i = 0; i < data_ahead; ++i)
        prefetch_for_writing(m_.data +
                             ((span.end + i * cache_line) & (m_.geometry.data_bytes - 1)));
    }
    fill(s.body, data);
    publish(s, header, data_bytes, op);
  }
  // Writes a message of words into the next slot, which is free.
  void put_words(std::uint8_t op, std::uint64_t header, const std::uint32_t* words,
                 unsigned n) noexcept {
    ring_slot& s = m_.slots[tail_ & mask_];
    copy_words(s.body, words, n);
    publish(s, header, 0, op);
  }
  void publish(ring_slot& s, std::uint64_t header, std::uint32_t data_bytes,
               std::uint8_t op) noexcept {
    const std::uint64_t tail = tail_;
    s.header = header;
    // R1 publish  store-release slot.state  -> A1, A7: body and data are visible
    s.state.store(ring_slot::filled(tail, data_bytes, op), std::memory_order_release);
    std::atomic_ref(tail_).store(tail + 1, std::memory_order_relaxed);  // pushed() may look
    // A stream's next lines are fetched for writing ahead of time: the stores that follow would
    // each wait for theirs in the store buffer. Before a single message that would only take a line
    // from who looks for the next one.
    const std::uint32_t burst = std::atomic_ref(burst_).load(std::memory_order_relaxed);
    if (burst >= stream_pushes)
      prefetch_for_writing(&m_.slots[(tail + 1 + write_ahead) & mask_]);
    else
      std::atomic_ref(burst_).store(burst + 1, std::memory_order_relaxed);
  }
  [[nodiscard]] bool fits(std::uint32_t messages, std::uint32_t data) const noexcept {
    if (tail_ + messages - head_ > m_.geometry.slots) return false;
    if (data == 0) return true;
    return ring_span(data_tail_, data, m_.geometry.data_bytes).end - data_head_ <=
           m_.geometry.data_bytes;
  }
  void refresh() noexcept {
    // A2 room  load-acquire head, data_head  <- R2, R9: the consumer no longer reads what lies
    // before
    const std::uint64_t head = m_.shared->head.load(std::memory_order_acquire);
    const std::uint64_t data = m_.shared->data_head.load(std::memory_order_acquire);
    // Rubbish from the other side may only make the ring look full: what lies outside the window,
    // or before what was said already. intact() and refusals() are for who watches over that.
    const bool slots = tail_ - head <= tail_ - head_;
    const bool bytes = data_tail_ - data <= data_tail_ - data_head_;
    if (slots) head_ = head;
    if (tail_ - head_ > most_)
      std::atomic_ref(most_).store(tail_ - head_, std::memory_order_relaxed);
    if (bytes) data_head_ = data;
    if (!slots || !bytes) [[unlikely]]
      std::atomic_ref(refusals_).store(refusals_ + 1, std::memory_order_relaxed);
  }

  ring_memory m_;
  std::uint64_t mask_ = 0;             // of a position: its slot
  std::uint64_t tail_ = 0, stop_ = 0;  // push_allowed() may go on until they meet
  std::uint64_t data_tail_ = 0;
  std::uint64_t head_ = 0, data_head_ = 0;  // the consumer's, as last seen
  std::uint32_t burst_ = 0;                 // pushes since answered(), up to stream_pushes
  std::uint32_t refusals_ = 0;              // of counters that cannot be
  std::uint64_t most_ = 0;                  // in the ring, when the consumer's counters were read
};

/// The consumer's private view.
class ring_rx {
 public:
  ring_rx() = default;
  explicit ring_rx(ring_memory m) noexcept : m_(m), mask_(m.geometry.slots - 1), front_(m.slots) {}

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
    // A1 poll  load-acquire slot.state  <- R1
    return ring_slot::is_at(front_->state.load(std::memory_order_acquire), head_);
  }

  /// ready(), for a thread that does not own the consumer's side: a hint, true or false may be
  /// stale.
  [[nodiscard]] bool ready_hint() noexcept {
    const ring_slot* const slot = std::atomic_ref(front_).load(std::memory_order_relaxed);
    const std::uint64_t head = std::atomic_ref(head_).load(std::memory_order_relaxed);
    return ring_slot::is_at(slot->state.load(std::memory_order_relaxed), head);
  }

  /// What is at the front: nothing, an op without data, or what only front() can tell.
  enum class sight : std::uint8_t { nothing, plain, other };
  [[nodiscard]] sight peek(std::uint8_t op, const ring_slot*& slot) const noexcept {
    slot = front_;
    // A1 poll  load-acquire slot.state  <- R1
    const std::uint64_t state = slot->state.load(std::memory_order_acquire);
    if (state == ring_slot::filled(head_, 0, op)) [[likely]]
      return sight::plain;
    return ring_slot::is_at(state, head_) ? sight::other : sight::nothing;
  }

  /// The oldest message, or none. It stays valid, and in the ring, until pop(). A length that
  /// cannot be (a producer gone mad) yields op 255 with no data; the caller breaks the connection.
  [[nodiscard]] message front() noexcept {
    const ring_slot& s = *front_;
    // A1 poll  load-acquire slot.state  <- R1
    const std::uint64_t state = s.state.load(std::memory_order_acquire);
    if (!ring_slot::is_at(state, head_)) return {};
    const auto control = static_cast<std::uint32_t>(state >> 32);
    message m{&s, control >> 8, static_cast<std::uint8_t>(control), nullptr};
    if (m.data_bytes > m_.geometry.longest()) [[unlikely]]
      return {&s, 0, 255, nullptr};
    if (m.data_bytes != 0) m.data = data_of(m.data_bytes);
    return m;
  }

  /// front(), if it is a message of that op and so many data bytes; none if it is anything else.
  [[nodiscard]] message front_of(std::uint8_t op, std::uint32_t data_bytes) const noexcept {
    // A1 poll  load-acquire slot.state  <- R1
    if (front_->state.load(std::memory_order_acquire) != ring_slot::filled(head_, data_bytes, op) ||
        data_bytes > m_.geometry.longest())
      return {};
    return {front_, data_bytes, op, data_bytes == 0 ? nullptr : data_of(data_bytes)};
  }

  /// pop() of a message without data.
  void pop_slot() noexcept {
    if ((advance() & mask_ / 8) == 0) publish();
  }

  /// Gives the front message's room back. The producer learns of it at the next publication.
  void pop(const message& m) noexcept {
    const std::uint64_t head = advance();
    if (m.data_bytes != 0)
      data_head_ = ring_span(data_head_, m.data_bytes, m_.geometry.data_bytes).end;
    if ((head & mask_ / 8) == 0 || data_head_ - data_told_ >= m_.geometry.data_bytes / 8) publish();
  }

  /// Tells the producer of all the room there is now.
  void publish() noexcept {
    // R8 told  store-release head_told_, data_told_  -> A8 (mend): before the counters
    std::atomic_ref(head_told_).store(head_, std::memory_order_release);
    std::atomic_ref(data_told_).store(data_head_, std::memory_order_release);
    // R2 give room  store-release head, data_head  -> A2
    m_.shared->head.store(head_, std::memory_order_release);
    m_.shared->data_head.store(data_head_, std::memory_order_release);
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
      // A7 slots  load-acquire slot.state  <- R1
      return m_.slots[at & mask_].state.load(std::memory_order_acquire);
    };
    const std::uint64_t head = front();
    const std::uint64_t lap = m_.geometry.slots;
    const std::uint64_t before = head < lap ? 0 : head + 1 - lap;
    constexpr std::uint64_t looks_ahead = 32;
    bool filled_behind = false;
    for (std::uint64_t i = 1; i <= looks_ahead && i < lap; ++i)
      filled_behind |= ring_slot::is_at(state_at(head + i), head + i);
    const std::uint64_t state = state_at(head);  // after those behind it
    const bool possible =
        ring_slot::is_at(state, head) ||
        (!filled_behind && static_cast<std::uint32_t>(state) == static_cast<std::uint32_t>(before));
    return possible || front() != head;
  }

  [[nodiscard]] bool connected() const noexcept { return m_.slots != nullptr; }
  [[nodiscard]] std::uint64_t popped() const noexcept { return head_; }
  [[nodiscard]] const ring_memory& memory() const noexcept { return m_; }

 private:
  // Where the front message has its data.
  [[nodiscard]] std::byte* data_of(std::uint32_t data_bytes) const noexcept {
    return m_.data + (ring_span(data_head_, data_bytes, m_.geometry.data_bytes).begin &
                      (m_.geometry.data_bytes - 1));
  }
  bool compare_counters(bool mend) noexcept {
    const auto wrong = [mend](std::atomic<std::uint64_t>& counter, std::uint64_t& told) {
      std::uint64_t seen = counter.load(std::memory_order_acquire);
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
  std::uint64_t advance() noexcept {
    const std::uint64_t head = head_ + 1;
    // ready_hint() may look.
    std::atomic_ref(head_).store(head, std::memory_order_relaxed);
    std::atomic_ref(front_).store(&m_.slots[head & mask_], std::memory_order_relaxed);
    return head;
  }

  ring_memory m_;
  std::uint64_t mask_ = 0;      // of a position: its slot
  ring_slot* front_ = nullptr;  // where head_ is
  std::uint64_t head_ = 0, data_head_ = 0;
  std::uint64_t head_told_ = 0, data_told_ = 0;  // what the producer was told last
};

}  // namespace penstock::nic::shm
