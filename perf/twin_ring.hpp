// The raw limit that the shared-memory device is judged by: a bare pair of single-producer rings in
// shared memory, as fast as we could make it, with nothing of an active message in it: no handler,
// no credit, no choice of kind. Used by penperf and its tests; not by the library.
//
//   consumer's line     lines of 64 bytes
//   +------+            +----------------+----------+----------+-----
//   | head |            | seq | 56 bytes | 64 bytes | 64 bytes | seq …    a message: one line, more
//   +------+            +----------------+----------+----------+-----     behind it if it is longer
//
// Who with whom: one producer, one consumer. Invariants: a line is written only after head has
//   passed its last use; it is read only when seq says position + 1. Lines after a message's first
//   carry payload where seq would be; both sides know all lengths beforehand, so only the first
//   line of a message is ever asked for its seq.
// Cost: no locked instruction, no fence; head is published once in a sixteenth of a lap.
//
// What was tried, in medians on two cores between which a line takes 340 ns there and back:
// - Lines: a round trip of 8 bytes takes 490 ns in rings of 64 lines, 550 in rings of 256, which
//   fill the first-level cache. One direction wants many: 9.3 ns a message with 256 or 128 lines,
//   16 with 64 (the producer waits) and with 512 or more (the lines come from further away).
// - A pause between two looks at an empty line: 350 instead of 490 ns, as the writer is not robbed
//   of the line it is about to write. Two pauses are no better, eight worse. No use in a stream.
// - A sequence number in every line of a long message, so that the target reads the first while the
//   next is written: never faster, half the rate in one direction.
// - Asking for lines ahead on either side, stores of 32 or 64 bytes, memcpy: never faster.
// Where both processes share a core, 75 ns there and back: 90 ns for 8 bytes, 277 million/s.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "lib/base/backoff.hpp"
#include "lib/base/mode.hpp"
#include "perf/patience.hpp"

namespace penstock::perf {

inline constexpr std::size_t line_body = 56;

struct alignas(cache_line) ring_line {
  std::atomic<std::uint64_t> seq;
  std::byte body[line_body];
};
static_assert(sizeof(ring_line) == cache_line);

/// One direction. All zero when made, so that a fresh shared mapping is a ring.
template <std::uint64_t Lines>
struct ring_memory {
  static_assert((Lines & (Lines - 1)) == 0);
  alignas(cache_line) std::atomic<std::uint64_t> head;
  alignas(cache_line) ring_line line[Lines];
};

/// Lines that a message of n bytes takes.
constexpr std::uint64_t lines_of(std::size_t n) noexcept {
  return n <= line_body ? 1 : 1 + (n - line_body + cache_line - 1) / cache_line;
}

/// Longest message: half the ring, so that one is written while the other is read.
template <std::uint64_t Lines>
inline constexpr std::size_t longest_message = (Lines / 2 - 1) * cache_line;

using word_pair [[gnu::vector_size(16)]] = std::uint64_t;

/// Reads every byte of a payload, as a target must that makes something of it. The same for us and
/// the twin, so that the comparison is of the transport. total: where the sum goes, unreduced.
inline void read_line(const std::byte* p, word_pair& total) noexcept {
  word_pair a, b, c, d;
  std::memcpy(&a, p, 16);
  std::memcpy(&b, p + 16, 16);
  std::memcpy(&c, p + 32, 16);
  std::memcpy(&d, p + 48, 16);
  total += (a + b) + (c + d);
}
inline std::uint64_t read_all(const std::byte* p, std::size_t n) noexcept {
  word_pair total{};
  for (; n >= 64; n -= 64, p += 64) read_line(p, total);
  std::uint64_t sum = total[0] + total[1], w;
  for (; n >= 8; n -= 8, p += 8) {
    std::memcpy(&w, p, 8);
    sum += w;
  }
  for (; n != 0; --n, ++p) sum += static_cast<std::uint64_t>(*p);
  return sum;
}

/// The writing side.
template <std::uint64_t Lines>
class ring_producer {
 public:
  explicit ring_producer(ring_memory<Lines>& m) noexcept : m_(&m) {}

  /// Writes one message of n bytes, n at most longest_message<Lines>; waits while the ring is full.
  /// Whole lines are copied, as they move whole anyway: from must be readable to the end of the
  /// last.
  void push(const std::byte* from, std::size_t n) noexcept {
    const std::uint64_t lines = lines_of(n);
    await_room(lines);
    ring_line& first = m_->line[tail_ % Lines];
    if (n == 8) {
      std::memcpy(first.body, from, 8);
    } else {
      const std::uint64_t tail = tail_;
      ring_line* const line = m_->line;
      std::memcpy(first.body, from, line_body);
      from += line_body;
      for (std::uint64_t i = 1; i < lines; ++i, from += cache_line)
        std::memcpy(static_cast<void*>(&line[(tail + i) % Lines]), from, cache_line);
    }
    // T1 publish  store-release line.seq  -> T2: body and the lines behind it are visible
    first.seq.store(tail_ + 1, std::memory_order_release);
    tail_ += lines;
  }

 private:
  void await_room(std::uint64_t lines) noexcept {
    if (tail_ + lines - head_ <= Lines) [[likely]]
      return;
    patience p("room in the bare ring");
    while (true) {
      // T4 room  load-acquire head  <- T3: the consumer no longer reads what lies before
      head_ = m_->head.load(std::memory_order_acquire);
      if (tail_ + lines - head_ <= Lines) return;
      p.idle();
    }
  }

  ring_memory<Lines>* m_;
  std::uint64_t tail_ = 0, head_ = 0;
};

/// The reading side.
template <std::uint64_t Lines>
class ring_consumer {
 public:
  explicit ring_consumer(ring_memory<Lines>& m) noexcept : m_(&m) {}

  /// Waits for one message of n bytes, reads its lines in place and frees them. Pauses: so
  /// many pause instructions between two looks at a line that is still empty.
  template <unsigned Pauses>
  void pop(std::size_t n) noexcept {
    const std::uint64_t lines = lines_of(n);
    const ring_line& first = await_line<Pauses>();
    if (n == 8) {
      sum_ += read_all(first.body, 8);
    } else {
      const std::uint64_t head = head_;
      const ring_line* const line = m_->line;
      word_pair total = total_;
      read_line(reinterpret_cast<const std::byte*>(&first), total);
      for (std::uint64_t i = 1; i < lines; ++i)
        read_line(reinterpret_cast<const std::byte*>(&line[(head + i) % Lines]), total);
      total_ = total;
      sum_ -= head_ + 1;  // the first line's sequence number is no payload
    }
    head_ += lines;
    if (head_ - published_ >= Lines / 16) {
      published_ = head_;
      // T3 free  store-release head  -> T4: all reads of the lines before are done
      m_->head.store(head_, std::memory_order_release);
    }
  }

  /// Sum over all payload read: keeps the compiler from dropping the reads, and tests compare it.
  [[nodiscard]] std::uint64_t sum() const noexcept { return sum_ + total_[0] + total_[1]; }

 private:
  template <unsigned Pauses>
  const ring_line& await_line() noexcept {
    const ring_line& s = m_->line[head_ % Lines];
    patience p("message in the bare ring");
    // T2 poll  load-acquire line.seq  <- T1: the message is visible
    while (s.seq.load(std::memory_order_acquire) != head_ + 1) {
      for (unsigned i = 0; i < Pauses; ++i) cpu_relax();
      p.idle();
    }
    return s;
  }

  ring_memory<Lines>* m_;
  std::uint64_t head_ = 0, published_ = 0;
  std::uint64_t sum_ = 0;
  word_pair total_{};
};

}  // namespace penstock::perf
