// The space that a target has set aside for the larger messages of one sender: a ring of bytes in
// registered memory. The sender says where each message goes, and writes it there by RDMA WRITE
// with immediate; the immediate names the place. So a message takes no more of the space than it is
// long, and no receive buffer is as large as the longest message.
//
//   0            freed                   head                  units of 64 bytes
//   | free       | in use, oldest first  | free           |
//   | in use     | free                  | in use  | none |      a message that does not fit before
//                                                               the end begins at 0
//
// The target frees a message when its handler has returned, whichever thread ran it. What is free
// without a gap, counted from the start of the job, it writes into a word of the sender's, each
// time that a quarter of the space has come together. So a sender that knows of no room learns of
// some: all that is free but not told is less than a quarter, and the space has at least `fewest`
// of the longest messages. A device may write the bytes of a word in any order, so a seal stands in
// it, and a word that is not whole says nothing.
//
// Who with whom: placed_tx by the thread inside the sending end; place_of() and free() of placed_rx
// by any threads, once for each message; collect() by one thread at a time. Effect: the store in
// free(); the load in find(). Cost: one RMW a message at the target in PAR, none at the sender. A
// thread that stalls in a handler keeps what its sender has placed after that message, and nothing
// of others.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>

#include "lib/base/assert.hpp"
#include "lib/base/mode.hpp"

namespace penstock::queues {

/// What sender and target of placed messages agree on.
struct placing {
  static constexpr std::uint32_t unit = 64;  ///< places are multiples of this number of bytes
  /// The longest messages for which a space has room: with fewer under way, a stream would wait for
  /// what is freed, and with less than three a message might never find room.
  static constexpr std::uint32_t fewest = 4;
  static constexpr std::uint32_t most_bytes = 0xffff * unit;  ///< that an immediate can name
  static constexpr std::uint32_t units_of(std::uint32_t n) noexcept {
    return (n + unit - 1) / unit;
  }
  /// True if a space may be that long, or there is none; longest: bytes of the longest message.
  static constexpr bool may_be(std::uint32_t space, std::uint32_t longest) noexcept {
    return space == 0 ||
           (space % unit == 0 && space <= most_bytes && space / unit >= fewest * units_of(longest));
  }
  /// Where a message lies, in units: what it takes begins at `from`, itself at `at`. The two differ
  /// when it leaves the end of the space empty.
  std::uint16_t from = 0, at = 0;
  [[nodiscard]] std::uint32_t immediate() const noexcept { return std::uint32_t{from} << 16 | at; }
  /// A sender's word, when so many units have been freed since the start. No mixture of the bytes
  /// of two passes for a third, but for once in 2^32.
  static constexpr std::uint64_t word_of(std::uint32_t freed) noexcept {
    std::uint64_t w = freed * 0x9e3779b97f4a7c15;
    w = (w ^ w >> 29) * 0xbf58476d1ce4e5b9;
    return (w & ~std::uint64_t{0xffffffff}) | freed;
  }
  static placing of_immediate(std::uint32_t i) noexcept {
    return {static_cast<std::uint16_t>(i >> 16), static_cast<std::uint16_t>(i)};
  }
};

/// A target's space, seen by its sender.
class placed_tx {
 public:
  /// base, rkey: where the space is, for the device; bytes: its length. word: where the target says
  /// how much it has freed (placing::word_of); it is 0 so far. To be called once, before the first
  /// find().
  void open(std::uint64_t base, std::uint32_t rkey, std::uint32_t bytes, std::uint64_t* word) {
    PENSTOCK_ASSERT(bytes, <=, placing::most_bytes);
    PENSTOCK_ASSERT(units_, ==, 0u);
    base_ = base, rkey_ = rkey, units_ = bytes / placing::unit, word_ = word;
  }
  [[nodiscard]] bool is_open() const noexcept { return units_ != 0; }
  /// Where a message of n bytes may go, or nothing: there is no room until others are freed.
  [[nodiscard]] std::optional<placing> find(std::uint32_t n) noexcept {
    const std::uint32_t u = placing::units_of(n);
    const bool turns = head_ + u > units_;
    const std::uint32_t needs = turns ? units_ - head_ + u : u;
    if (needs > units_ - (taken_ - freed_) && !learn(needs)) [[unlikely]]
      return std::nullopt;
    return placing{static_cast<std::uint16_t>(head_),
                   turns ? std::uint16_t{0} : static_cast<std::uint16_t>(head_)};
  }
  /// Takes what find(n) has just named.
  void take(placing p, std::uint32_t n) noexcept {
    const std::uint32_t u = placing::units_of(n);
    taken_ += p.at == p.from ? u : units_ - p.from + u;
    PENSTOCK_ASSERT(taken_ - freed_, <=, units_);
    head_ = p.at + u == units_ ? 0 : p.at + u;
  }
  /// True if the target has said that it has freed what was not taken.
  [[nodiscard]] bool is_broken() const noexcept { return broken_; }
  /// True if nothing was freed during many calls of find() without room, more than a stream to a
  /// target that polls makes in a round trip. Any thread.
  [[nodiscard]] bool is_stuck() const noexcept {
    return vain_.load(std::memory_order_relaxed) >= 256;  // relaxed: a hint
  }
  [[nodiscard]] std::uint64_t address(placing p) const noexcept {
    return base_ + std::uint64_t{p.at} * placing::unit;
  }
  [[nodiscard]] std::uint32_t rkey() const noexcept { return rkey_; }
  [[nodiscard]] std::uint32_t bytes() const noexcept { return units_ * placing::unit; }

 private:
  [[gnu::cold]] bool learn(std::uint32_t needs) noexcept {
    // A2 freed  acquire word  <- its device, after A1: the target has read what it freed
    const std::uint64_t word = std::atomic_ref(*word_).load(std::memory_order_acquire);
    const auto said = static_cast<std::uint32_t>(word);
    const std::uint32_t now = word == placing::word_of(said) ? said : freed_;
    broken_ |= now - freed_ > taken_ - freed_;
    // relaxed, both: a hint
    vain_.store(now != freed_ ? 0 : vain_.load(std::memory_order_relaxed) + 1,
                std::memory_order_relaxed);
    if (!broken_) freed_ = now;
    return !broken_ && needs <= units_ - (taken_ - freed_);
  }

  std::uint64_t base_ = 0;
  std::uint64_t* word_ = nullptr;
  std::uint32_t rkey_ = 0, units_ = 0;
  std::uint32_t head_ = 0;               // where the next message goes
  std::uint32_t taken_ = 0, freed_ = 0;  // units since the start, modulo 2^32
  std::atomic<std::uint32_t> vain_{0};
  bool broken_ = false;
};

/// A sender's messages, seen by their target.
template <thread_mode M, template <class> class Atomic = std::atomic>
class placed_rx {
 public:
  /// at: the space, which this process owns; bytes: its length. Before the first message. False:
  /// there is no memory.
  [[nodiscard]] bool open(std::byte* at, std::uint32_t bytes) noexcept {
    PENSTOCK_ASSERT(bytes, <=, placing::most_bytes);
    const std::uint32_t units = bytes / placing::unit;
    ends_.reset(new (std::nothrow) Atomic<std::uint16_t>[units]());
    if (ends_ == nullptr) return false;
    at_ = at, units_ = units, quarter_ = units / 4;
    return true;
  }
  /// The message of n bytes with that immediate; null: there is no such place.
  [[nodiscard]] std::byte* place_of(std::uint32_t immediate, std::uint32_t n) const noexcept {
    const placing p = placing::of_immediate(immediate);
    const bool is_one = n != 0 && n <= placing::most_bytes && p.from < units_ &&
                        p.at + placing::units_of(n) <= units_ && (p.at == p.from || p.at == 0);
    return is_one ? at_ + std::size_t{p.at} * placing::unit : nullptr;
  }
  /// Nothing of that message, which place_of() knows, is needed any more. True: due().
  bool free(std::uint32_t immediate, std::uint32_t n) noexcept {
    const placing p = placing::of_immediate(immediate);
    const std::uint32_t end = p.at + placing::units_of(n);
    PENSTOCK_ASSERT(end, <=, units_);
    // R1 free  release ends_  -> A1: the message has been read
    ends_[p.from].store(static_cast<std::uint16_t>(end), std::memory_order_release);
    // X1 count  acq_rel done_  <-> X1: who adds last sees that all is due, and the ends_ of all
    done_.fetch_add(length(p.from, end), std::memory_order_acq_rel);
    return due();
  }
  /// True if the sender is to be told, by collect(). Any thread.
  [[nodiscard]] bool due() const noexcept {
    // relaxed, both: a thread that comes after X1 sees what was added; told_ only falls behind
    return done_.load(std::memory_order_relaxed) - told_.load(std::memory_order_relaxed) >=
           quarter_;
  }
  /// What the sender's word is to be; nothing: it is that already.
  [[nodiscard]] std::optional<std::uint32_t> collect() noexcept {
    const std::uint32_t before = told_.load(std::memory_order_relaxed);
    std::uint32_t all = before;
    // A1 free  acquire ends_  <- R1
    while (const std::uint32_t end = ends_[tail_].load(std::memory_order_acquire)) {
      ends_[tail_].store(0, std::memory_order_relaxed);  // relaxed: goes with the sender's word
      all += length(tail_, end);
      tail_ = end == units_ ? 0 : end;
      PENSTOCK_ASSERT(tail_, <, units_);
    }
    told_.store(all, std::memory_order_relaxed);
    return all == before ? std::nullopt : std::optional(all);
  }

 private:
  // Units from there to there; at most all of them.
  [[nodiscard]] std::uint32_t length(std::uint32_t from, std::uint32_t end) const noexcept {
    return end > from ? end - from : units_ - from + end;
  }

  std::byte* at_ = nullptr;
  std::uint32_t units_ = 0, tail_ = 0;
  std::uint32_t quarter_ = ~0u;  // of the units; nothing is due where there is no space
  // By the unit at which a message begins: behind its last unit, once it has been freed.
  std::unique_ptr<Atomic<std::uint16_t>[]> ends_;
  word<M, std::uint32_t, Atomic> done_{0};  // units freed since the start, modulo 2^32
  std::atomic<std::uint32_t> told_{0};
};

}  // namespace penstock::queues
