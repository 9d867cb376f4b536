// The raw limit that the shared-memory device is judged by: a bare pair of single-producer rings in
// shared memory, as fast as we could make it, with nothing of an active message in it: no handler,
// no credit, no choice of kind. Used by penperf and its tests; not by the library.
//
//   consumer's line     slots: 256 lines of 64 bytes
//   +------+            +----------------+----------------+-----
//   | head |            | seq | 56 bytes | seq | 56 bytes | ...        layout::slots
//   +------+            +----------------+----------------+-----
//                       | seq | 56 bytes |    64 bytes    | ...        layout::record
//                       +----------------+----------------+-----
//
// slots: each slot has its sequence number, so the target reads the first while the second is being
//   written. record: one sequence number for the whole message, the rest in one piece behind it.
//   Two processes on one physical core, round trip: 512 B 270 ns as slots, 340 as a record; 1 KB
//   260 and 260; 4 KB 600 and 500. One direction: 64 B alike, 128 B 67 and 98 million/s, 512 B 18
//   and 39, 4 KB 2.3 and 5.5. So round trips up to 512 B use slots, everything else records.
// Who with whom: one producer, one consumer. Invariants: a line is written only after head has
//   passed its last use; it is read only when seq says position + 1. In a record the lines after
//   the first carry payload where seq would be; both sides know all lengths beforehand, so only the
//   first line of a message is ever asked for its seq.
// Cost: no locked instruction, no fence; head is published once in a sixteenth of a lap.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "lib/base/mode.hpp"
#include "perf/patience.hpp"

namespace penstock::perf {

inline constexpr std::uint64_t ring_lines = 256;
inline constexpr std::size_t line_body = 56;

struct alignas(cache_line) ring_line {
  std::atomic<std::uint64_t> seq;
  std::byte body[line_body];
};
static_assert(sizeof(ring_line) == cache_line);

/// One direction. All zero when made, so that a fresh shared mapping is a ring.
struct ring_memory {
  alignas(cache_line) std::atomic<std::uint64_t> head;
  alignas(cache_line) ring_line line[ring_lines];
};

enum class layout { slots, record };

/// Lines a message of n bytes takes.
constexpr std::uint64_t lines_of(layout l, std::size_t n) noexcept {
  if (n <= line_body) return 1;
  return l == layout::slots ? (n + line_body - 1) / line_body
                            : 1 + (n - line_body + cache_line - 1) / cache_line;
}

/// Longest message: half the ring, so that one is written while the other is read.
constexpr std::size_t longest_message = ring_lines / 2 * line_body;

/// Reads every byte of a payload, as a target must that makes something of it. The same for us and
/// the twin, so that the comparison is of the transport.
inline std::uint64_t read_all(const std::byte* p, std::size_t n) noexcept {
  std::uint64_t sum = 0, w;
  for (; n >= 8; n -= 8, p += 8) {
    std::memcpy(&w, p, 8);
    sum += w;
  }
  for (; n != 0; --n, ++p) sum += static_cast<std::uint64_t>(*p);
  return sum;
}

/// Copy without a call for what is short: the lengths vary at run time, and calling memcpy for them
/// cost a third of the rate.
inline void copy_short(std::byte* to, const std::byte* from, std::size_t n) noexcept {
  for (; n >= 64; n -= 64, to += 64, from += 64) std::memcpy(to, from, 64);
  for (; n >= 8; n -= 8, to += 8, from += 8) std::memcpy(to, from, 8);
  for (; n != 0; --n) *to++ = *from++;
}

/// The writing side.
class ring_producer {
 public:
  explicit ring_producer(ring_memory& m) noexcept : m_(&m) {}

  /// Writes one message of n bytes, n at most longest_message; waits while the ring is full.
  template <layout L>
  void push(const std::byte* from, std::size_t n) noexcept {
    if (n <= line_body) {
      await_room(1);
      ring_line& first = m_->line[tail_ % ring_lines];
      put(first, from, n);
      publish(first, 1);
    } else if constexpr (L == layout::slots) {
      await_room(lines_of(L, n));
      for (; n > line_body; n -= line_body, from += line_body) {
        ring_line& s = m_->line[tail_ % ring_lines];
        std::memcpy(s.body, from, line_body);
        publish(s, 1);
      }
      ring_line& last = m_->line[tail_ % ring_lines];
      put(last, from, n);
      publish(last, 1);
    } else {
      const std::uint64_t lines = lines_of(L, n);
      await_room(lines);
      ring_line& first = m_->line[tail_ % ring_lines];
      std::memcpy(first.body, from, line_body);
      from += line_body;
      n -= line_body;
      const std::uint64_t at = (tail_ + 1) % ring_lines;
      const std::size_t to_end = (ring_lines - at) * cache_line, a = n < to_end ? n : to_end;
      copy_short(bytes_at(at), from, a);
      if (a < n) copy_short(bytes_at(0), from + a, n - a);
      publish(first, lines);
    }
  }

 private:
  [[nodiscard]] std::byte* bytes_at(std::uint64_t line) const noexcept {
    return reinterpret_cast<std::byte*>(&m_->line[line]);
  }
  static void put(ring_line& s, const std::byte* from, std::size_t n) noexcept {
    if (n == 8)
      std::memcpy(s.body, from, 8);
    else
      copy_short(s.body, from, n);
  }
  void publish(ring_line& first, std::uint64_t lines) noexcept {
    // T1 publish  store-release line.seq  -> T2: body and the lines behind it are visible
    first.seq.store(tail_ + 1, std::memory_order_release);
    tail_ += lines;
  }
  void await_room(std::uint64_t lines) noexcept {
    if (tail_ + lines - head_ <= ring_lines) [[likely]]
      return;
    patience p("room in the bare ring");
    while (true) {
      // T4 room  load-acquire head  <- T3: the consumer no longer reads what lies before
      head_ = m_->head.load(std::memory_order_acquire);
      if (tail_ + lines - head_ <= ring_lines) return;
      p.idle();
    }
  }

  ring_memory* m_;
  std::uint64_t tail_ = 0, head_ = 0;
};

/// The reading side.
class ring_consumer {
 public:
  explicit ring_consumer(ring_memory& m) noexcept : m_(&m) {}

  /// Waits for one message of n bytes, reads all of it in place and frees its lines.
  template <layout L>
  void pop(std::size_t n) noexcept {
    if (n <= line_body) {
      const ring_line& s = await_line();
      take(s, n);
      ++head_;
    } else if constexpr (L == layout::slots) {
      while (n != 0) {
        const std::size_t here = n < line_body ? n : line_body;
        take(await_line(), here);
        n -= here;
        ++head_;
      }
    } else {
      const std::uint64_t lines = lines_of(L, n);
      sum_ += read_all(await_line().body, line_body);
      n -= line_body;
      const std::uint64_t at = (head_ + 1) % ring_lines;
      const std::size_t to_end = (ring_lines - at) * cache_line, a = n < to_end ? n : to_end;
      sum_ += read_all(bytes_at(at), a);
      if (a < n) sum_ += read_all(bytes_at(0), n - a);
      head_ += lines;
    }
    if (head_ - published_ >= ring_lines / 16) {
      published_ = head_;
      // T3 free  store-release head  -> T4: all reads of the lines before are done
      m_->head.store(head_, std::memory_order_release);
    }
  }

  /// Sum over all payload read: keeps the compiler from dropping the reads, and tests compare it.
  [[nodiscard]] std::uint64_t sum() const noexcept { return sum_; }

 private:
  [[nodiscard]] const std::byte* bytes_at(std::uint64_t line) const noexcept {
    return reinterpret_cast<const std::byte*>(&m_->line[line]);
  }
  const ring_line& await_line() noexcept {
    const ring_line& s = m_->line[head_ % ring_lines];
    patience p("message in the bare ring");
    // T2 poll  load-acquire line.seq  <- T1: the message is visible
    while (s.seq.load(std::memory_order_acquire) != head_ + 1) p.idle();
    return s;
  }
  void take(const ring_line& s, std::size_t n) noexcept {
    if (n == 8) {
      std::uint64_t w;
      std::memcpy(&w, s.body, 8);
      sum_ += w;
    } else {
      sum_ += read_all(s.body, n);
    }
  }

  ring_memory* m_;
  std::uint64_t head_ = 0, published_ = 0;
  std::uint64_t sum_ = 0;
};

}  // namespace penstock::perf
