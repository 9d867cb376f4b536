// The producer's end of a ring (ring.hpp).
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "lib/base/assert.hpp"
#include "lib/base/owner.hpp"
#include "nic/shm/ring_memory.hpp"
#include "nic/shm/ring_turn.hpp"

namespace penstock::nic::shm {

/// How many slots ahead of a push a line is fetched for writing: far enough that a consumer that
/// has caught up does not look there.
inline constexpr std::uint64_t write_ahead = 8;
/// After this many pushes that no message has answered, lines are fetched ahead.
inline constexpr std::uint32_t stream_pushes = 4;
/// How many lines of data are fetched ahead behind a message that has some, in a stream or not.
inline constexpr std::uint64_t data_ahead = 2;

/// The producer's private view.
class ring_tx {
 public:
  ring_tx() = default;
  /// A ring as long as its memory allows, or of length l.
  explicit ring_tx(ring_memory m) noexcept : ring_tx(m, ring_length::all(m.geometry)) {}
  ring_tx(ring_memory m, ring_length l) noexcept
      : m_(m),
        mask_(m.geometry.slots - 1),
        turn_at_(l.slots < m.geometry.slots ? l.slots : never),
        length_(l) {}
  ring_tx(const ring_tx&) = default;
  /// Becomes another ring's view; another thread may call answered() meanwhile.
  ring_tx& operator=(const ring_tx& o) noexcept {
    m_ = o.m_;
    mask_ = o.mask_;
    tail_ = o.tail_;
    stop_ = o.stop_;
    data_tail_ = o.data_tail_;
    head_ = o.head_;
    data_head_ = o.data_head_;
    refusals_ = o.refusals_;
    data_ready_ = o.data_ready_;
    data_from_ = o.data_from_;
    data_likely_ = o.data_likely_;
    turn_at_ = o.turn_at_;
    length_ = o.length_;
    floor_ = o.floor_;
    gap_ = o.gap_;
    skipped_ = o.skipped_;
    answered();
    return *this;
  }

  /// True if `messages` slots and `data` bytes (in one piece each of up to longest()) are free.
  [[nodiscard]] bool has_room(std::uint32_t messages, std::uint32_t data) noexcept {
    return fits(messages, data) || (refresh(), fits(messages, data)) ||
           (turn_early(data) && fits(messages, data));
  }

  /// The most data bytes that `pieces` of `piece` bytes use, whatever their order: each takes whole
  /// lines, and one of them may have to skip the end of the ring.
  static constexpr std::uint32_t worst(std::uint32_t pieces, std::uint32_t piece) noexcept {
    return (pieces + 1) * ((piece + cache_line - 1) & ~(std::uint32_t{cache_line} - 1));
  }
  /// True if `messages` slots and `data` bytes (computed by worst()) are free. Only for a ring
  /// whose data part has its full length or none.
  [[nodiscard]] bool has_room_for(std::uint32_t messages, std::uint32_t data) noexcept {
    const auto enough = [&] {
      return slots_fit(messages) && data_tail_ + data - data_head_ <= length_.data;
    };
    return enough() || (refresh(), enough());
  }

  /// Pushes one message; fill(body, data) writes it, at most slot_body and data_bytes bytes. When
  /// the ring is full, answers false and writes nothing. data_bytes is at most geometry.longest().
  template <class Fill>
  [[nodiscard]] bool try_push(std::uint8_t op, std::uint64_t header, std::uint32_t data_bytes,
                              Fill&& fill) noexcept {
    if (!has_room(1, data_bytes)) [[unlikely]]
      return false;
    push(op, header, data_bytes, fill);
    return true;
  }
  /// try_push() for a caller that knows that there is room.
  template <class Fill>
  void push(std::uint8_t op, std::uint64_t header, std::uint32_t data_bytes, Fill&& fill) noexcept {
    if (tail_ == turn_at_ || (data_bytes != 0 && !is_ready(data_bytes))) [[unlikely]]
      prepare_slow(data_bytes);
    put(op, header, data_bytes, fill);
    stop_ = tail_;
  }
  /// push() of a message without data, if fill(body) answers that it has written the body.
  template <class Fill>
  [[nodiscard]] bool push_if(std::uint8_t op, std::uint64_t header, Fill&& fill) noexcept {
    if (tail_ == turn_at_) [[unlikely]]
      prepare_slow(0);
    ring_slot& s = m_.slots[tail_ & mask_];
    if (!fill(s.body)) [[unlikely]]
      return false;
    publish(s, header, 0, op);
    stop_ = tail_;
    return true;
  }

  /// Lets push_allowed() push up to n messages without looking whether a slot is free; answers how
  /// many there is room for. Any other push, and recall(), ends it.
  std::uint32_t allow(std::uint32_t n) noexcept {
    if (tail_ == turn_at_) [[unlikely]] {
      if (!slots_fit(1)) return recall(), 0;
      turn(false);
    }
    PENSTOCK_ASSERT(tail_, <, turn_at_);
    PENSTOCK_ASSERT(tail_ - head_, <=, m_.geometry.slots);
    const std::uint64_t room = std::min(m_.geometry.slots - (tail_ - head_), turn_at_ - tail_);
    const auto granted = static_cast<std::uint32_t>(n < room ? n : room);
    stop_ = tail_ + granted;
    return granted;
  }
  /// What allow() has begun and is not used yet.
  [[nodiscard]] std::uint64_t permitted() const noexcept { return stop_ - tail_; }
  /// Ends what allow() began; answers how many messages it allowed that were not pushed.
  std::uint32_t recall() noexcept {
    PENSTOCK_ASSERT(tail_, <=, stop_);
    return static_cast<std::uint32_t>(std::exchange(stop_, tail_) - tail_);
  }
  /// Pushes a message of words (copy_words) if allow() still permits one; answers false otherwise.
  [[nodiscard]] bool push_allowed(std::uint8_t op, std::uint64_t header, const std::uint32_t* words,
                                  unsigned n) noexcept {
    if (tail_ == stop_) [[unlikely]]
      return false;
    put_words(op, header, words, n);
    return true;
  }
  /// The same with data; answers false, too, when no room for them is known.
  template <class Fill>
  [[nodiscard]] bool push_allowed(std::uint8_t op, std::uint64_t header, std::uint32_t data_bytes,
                                  Fill&& fill) noexcept {
    if (tail_ == stop_ || !is_ready(data_bytes) || !spans_free(data_tail_, data_bytes)) [[unlikely]]
      return false;
    put(op, header, data_bytes, fill);
    return true;
  }
  /// push() of a message of words (copy_words).
  void push_words(std::uint8_t op, std::uint64_t header, const std::uint32_t* words,
                  unsigned n) noexcept {
    if (tail_ == turn_at_) [[unlikely]]
      turn(false);
    put_words(op, header, words, n);
    stop_ = tail_;
  }

  /// Uses the length `to` from now on, where it is more than before. False: the consumer has not
  /// yet passed the last mark that made the ring shorter, or there is no memory. Not to be called
  /// while allow() still permits a push.
  bool lengthen(ring_length to) noexcept;
  /// Uses no more than `to` from now on, and goes on at the beginning. False: there is no room for
  /// a mark now, or allow() still permits a push, or the consumer has not passed the last such
  /// mark. What has_room() answered before no longer holds.
  bool shorten(ring_length to) noexcept;
  /// Takes memory for the first data, so that the first message that has some need not. Does
  /// nothing in a ring that carried no data between its last two marks that made it shorter, or
  /// has no data part. Where there is no memory, the message finds that out.
  void ready_data() noexcept;
  [[nodiscard]] ring_length length() const noexcept { return length_; }

  /// A message that answers the last one has come: what is pushed next does not belong to a stream.
  /// Any thread; a hint.
  void answered() noexcept { std::atomic_ref(burst_).store(0, std::memory_order_relaxed); }

  [[nodiscard]] bool connected() const noexcept { return m_.slots != nullptr; }
  /// True when the consumer has taken all that was pushed and has said so.
  [[nodiscard]] bool drained() noexcept { return refresh(), head_ == tail_; }
  /// Messages pushed so far; for a moment more than that when the ring turns. Any thread.
  [[nodiscard]] std::uint64_t pushed() noexcept {
    // A10 skip  load-acquire skipped_  <- R10: tail_ is never older
    const std::uint64_t skipped = std::atomic_ref(skipped_).load(std::memory_order_acquire);
    return position() - skipped;
  }
  /// Position of the next message; it grows with each. Any thread.
  [[nodiscard]] std::uint64_t position() noexcept {
    return std::atomic_ref(tail_).load(std::memory_order_relaxed);
  }
  /// True when the consumer has said that it has taken everything before this position.
  [[nodiscard]] bool passed(std::uint64_t position) noexcept {
    return head_ >= position || (refresh(), head_ >= position);
  }
  [[nodiscard]] const ring_memory& memory() const noexcept { return m_; }

  /// The most messages that were in the ring when the producer read the consumer's counters, which
  /// it does once a lap at least. Any thread.
  [[nodiscard]] std::uint64_t most() noexcept {
    return std::atomic_ref(most_).load(std::memory_order_relaxed);
  }

  /// How often a counter of the consumer had an impossible value. Any thread.
  [[nodiscard]] std::uint32_t refusals() noexcept {
    return std::atomic_ref(refusals_).load(std::memory_order_relaxed);
  }
  /// False if the state of a slot that was pushed, and by the consumer's counter not taken yet, is
  /// not what was written: somebody else has been there. Any thread of the producer's process;
  /// nobody but the producer writes states, and none before tail_ names the push before it, so what
  /// is seen while tail_ stands still is what there is. A ring of nothing but zeros has been given
  /// back by its owner; and so is what lies before a mark that makes it shorter, just before the
  /// consumer says so. Where threads cannot be fenced, false may come from a store on its way.
  [[nodiscard]] bool intact() noexcept {
    if (as_written(position())) [[likely]]
      return true;
    const std::uint64_t tail = position();
    // TW1 watch  load tail_, fence everywhere, load slot.state  <-> TW2: the state of each push
    // that tail_ counts is there
    fence_all_threads();
    return as_written(tail);
  }

 private:
  static constexpr std::uint64_t never = ~std::uint64_t{0};
  // Looks at what lies before tail.
  [[nodiscard]] bool as_written(std::uint64_t tail) noexcept {
    // Orders: acquire, the slots that the consumer gave up are read after its counter, and it once
    // more after them: what changed meanwhile is no evidence.
    const std::uint64_t head = m_.shared->head.load(std::memory_order_acquire);
    // A7 slots  load-acquire slot.state  <- R1
    if (tail == head || tail - head > m_.geometry.slots ||
        m_.slots[0].state.load(std::memory_order_acquire) == 0)
      return true;
    bool as_written = true;
    const bool full = tail - head == m_.geometry.slots;
    for (std::uint64_t at = head; at < tail; ++at) {
      const ring_slot& s = m_.slots[at & mask_];
      const std::uint64_t state = s.state.load(std::memory_order_acquire);
      // The oldest may be on its way into the next lap.
      as_written &= ring_slot::is_at(state, at) || (full && at == head);
      if (state == ring_slot::filled(at, turn_mark::next_lap, op_turn)) at |= mask_;
    }
    return as_written || position() != tail ||
           m_.shared->head.load(std::memory_order_acquire) != head ||
           head < std::atomic_ref(floor_).load(std::memory_order_relaxed) ||
           m_.slots[0].state.load(std::memory_order_acquire) == 0;
  }
  void mark(turn_mark t) noexcept;
  void turn(bool data) noexcept;
  [[gnu::noinline]] void prepare_slow(std::uint32_t data_bytes) noexcept;
  [[gnu::noinline]] bool turn_early(std::uint32_t data) noexcept;
  // The next `data` bytes go where there is memory for certain, and the ring does not turn for
  // them.
  [[nodiscard]] bool is_ready(std::uint32_t data) const noexcept {
    return (data_tail_ & (m_.geometry.data_bytes - 1)) + data <= data_ready_;
  }
  // A mark has to come before the next `data` bytes.
  [[nodiscard]] bool turns_for(std::uint32_t data) const noexcept {
    return length_.data < m_.geometry.data_bytes && data != 0 &&
           (data_tail_ & (m_.geometry.data_bytes - 1)) + data > length_.data;
  }
  [[nodiscard]] bool spans_free(std::uint64_t from, std::uint32_t data) const noexcept {
    return ring_span(from, data, m_.geometry.data_bytes).end - data_head_ <= m_.geometry.data_bytes;
  }
  // n slots are free, and one for the mark if the ring turns before them.
  [[nodiscard]] bool slots_fit(std::uint32_t n) const noexcept {
    const std::uint64_t left = turn_at_ - tail_;
    if (n <= left) [[likely]]
      return tail_ + n - head_ <= m_.geometry.slots;
    return n - left <= length_.slots &&
           (tail_ | mask_) + 1 + (n - left) - head_ <= m_.geometry.slots;
  }
  // Writes a message into the next slot, which is free. It is inlined, so that the values that fill
  // uses stay in registers.
  template <class Fill>
  [[gnu::always_inline]] void put(std::uint8_t op, std::uint64_t header, std::uint32_t data_bytes,
                                  Fill&& fill) noexcept {
    ring_slot& s = m_.slots[tail_ & mask_];
    std::byte* data = nullptr;
    if (data_bytes != 0) {
      const ring_span span(data_tail_, data_bytes, m_.geometry.data_bytes);
      const std::uint64_t at = span.begin & (m_.geometry.data_bytes - 1);
      PENSTOCK_ASSERT(at + data_bytes, <=, data_ready_);  // there is memory
      data = m_.data + at;
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
    PENSTOCK_ASSERT(tail, <, turn_at_);  // else the slot is a mark's
    s.header = header;
    // R1 publish  store-release slot.state  -> A1, A7 (ring_rx.hpp): body and data are there
    s.state.store(ring_slot::filled(tail, data_bytes, op), std::memory_order_release);
    // TW2 pushed  store slot.state, then tail_  <-> TW1: no thread relies on the order of the two
    // before its fence
    std::atomic_ref(tail_).store(tail + 1, std::memory_order_relaxed);
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
    if (data == 0) return slots_fit(messages);
    if (!turns_for(data)) [[likely]]
      return slots_fit(messages) && spans_free(data_tail_, data);
    const std::uint64_t size = m_.geometry.data_bytes;
    return data <= length_.data && slots_fit(messages + 1) &&
           spans_free((data_tail_ + size - 1) & ~(size - 1), data);
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
    // What was skipped at the last turn is no message.
    const std::uint64_t waiting = tail_ - head_ - (head_ < (tail_ & ~mask_) ? gap_ : 0);
    if (waiting > most_ && waiting <= m_.geometry.slots)
      std::atomic_ref(most_).store(waiting, std::memory_order_relaxed);
    if (bytes) data_head_ = data;
    PENSTOCK_ASSERT(head_, <=, tail_);
    PENSTOCK_ASSERT(data_head_, <=, data_tail_);
    if (!slots || !bytes) [[unlikely]]
      std::atomic_ref(refusals_).store(refusals_ + 1, std::memory_order_relaxed);
  }

  ring_memory m_;
  std::uint64_t mask_ = 0;             // of a position: its slot
  std::uint64_t tail_ = 0, stop_ = 0;  // push_allowed() may go on until they meet
  std::uint64_t data_tail_ = 0;
  std::uint64_t head_ = 0, data_head_ = 0;  // the consumer's, as last seen
  std::uint32_t burst_ = 0;                 // pushes since answered(), up to stream_pushes
  std::uint32_t data_ready_ = 0;            // data bytes that have memory
  std::uint64_t turn_at_ = never;           // the position whose slot is a mark's
  ring_length length_;                      // what is used
  std::uint64_t floor_ = 0;                 // head is to be there before more is used (R-d)
  std::uint64_t skipped_ = 0;               // positions that no message has had
  std::uint64_t most_ = 0;                  // in the ring, when the consumer's counters were read
  std::uint32_t gap_ = 0;                   // skipped at the last turn
  std::uint32_t refusals_ = 0;              // of counters that cannot be
  std::uint64_t data_from_ = 0;             // data_tail_ when the ring was last made shorter
  bool data_likely_ = true;                 // data were pushed before that, or it never was
};

}  // namespace penstock::nic::shm
