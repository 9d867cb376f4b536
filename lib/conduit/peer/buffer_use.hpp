// The uses of one buffer whose end its target tells of (large_buffers.hpp): words and functions,
// without the engine.
//
//   state_  busy | sent | rank that has it | number of the use    in this process alone
//   word    the number of the last use that has ended             in the buffer's first line
//
// Who with whom: any threads of the owner; the target, in another process, writes the word of the
// use that its message has told of, once. Invariants: (BU-a) state_ goes on to the next use by
// compare-and-swap by a thread that has seen the word of the last one; (BU-b) so the word is the
// number of the use that state_ names, or of the one before. A thread that looks at both and owns
// neither has them in this order (U2): it may see the word of a later use, never that of an older
// one.
#pragma once

#include <atomic>
#include <cstdint>

#include "lib/base/build_mode.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

class buffer_use {
 public:
  /// What has become of a use.
  struct end {
    enum : std::uint8_t {
      open,   ///< it goes on
      told,   ///< its target has told that it has ended: all has been read
      wrong,  ///< the word is one that no target writes
    } what;
    std::uint32_t word;  ///< as it was seen
  };
  using word_ref = std::atomic_ref<std::uint32_t>;

  /// The use, or the last one if the buffer is free. Any thread.
  [[nodiscard]] std::uint64_t state() const noexcept {
    // U2 use  acquire state_  <- U1, U3, U4: the word that the thread that began it had seen, and
    // what was done with the buffer before
    return state_.load(std::memory_order_acquire);
  }
  /// The same for a thread that looks at nothing else, or has the buffer.
  [[nodiscard]] std::uint64_t state_hint() const noexcept {
    return state_.load(std::memory_order_relaxed);
  }
  static constexpr bool is_out(std::uint64_t s) noexcept { return (s & busy) != 0; }
  static constexpr bool was_sent(std::uint64_t s) noexcept { return (s & sent_bit) != 0; }
  static constexpr std::uint32_t rank_of(std::uint64_t s) noexcept {
    return static_cast<std::uint32_t>(s >> 16);
  }
  static constexpr std::uint32_t number_of(std::uint64_t s) noexcept {
    return static_cast<std::uint32_t>(s & 0xffff);
  }

  /// Makes the buffer the caller's, for a message to or from rank `with`, where s is still its
  /// state; the caller has seen that it is free, or that the use has ended.
  [[nodiscard]] bool try_begin(std::uint64_t s, std::uint32_t with) noexcept {
    // U1 begin  cas acq_rel state_  -> U2
    return state_.compare_exchange_strong(s, busy | std::uint64_t{with} << 16 | next(number_of(s)),
                                          std::memory_order_acq_rel, std::memory_order_relaxed);
  }
  /// Notes that a message has told of the use of that number.
  void sent(std::uint16_t number) noexcept {
    std::uint64_t s = state_hint();
    // relaxed: its target may have freed it already, and another thread may have taken it. No other
    // thread changes a use that goes on.
    if (is_out(s) && number_of(s) == number)
      (void)state_.compare_exchange_strong(s, s | sent_bit, std::memory_order_relaxed);
  }
  /// Whether the use that s, the state, describes has ended.
  [[nodiscard]] end look(std::uint64_t s, word_ref word) const noexcept {
    // B2 done  acquire word  <- B1 (ring_path/large.cpp), B6, the device's write: all has been read
    const std::uint32_t said = word.load(std::memory_order_acquire);
    if (said == number_of(s)) return {end::told, said};
    // relaxed: a later use's word comes with its state. Another thread may have found meanwhile
    // that this use has ended, and have begun that one.
    if (next(said) != number_of(s) && state_hint() == s) [[unlikely]]
      return {end::wrong, said};
    return {end::open, said};
  }
  /// For a use whose target has gone: writes the word that the target would have written, unless
  /// another thread has begun the next use meanwhile, whose word must stay.
  static void tell_for_target(std::uint64_t s, std::uint32_t said, word_ref word) noexcept {
    (void)word.compare_exchange_strong(said, number_of(s), std::memory_order_relaxed);
  }
  /// Makes the buffer free, where s is still its state and has ended. True: by this thread.
  [[nodiscard]] bool try_end(std::uint64_t s) noexcept {
    // U3 end  cas release state_  -> U2
    return state_.compare_exchange_strong(s, number_of(s), std::memory_order_release,
                                          std::memory_order_relaxed);
  }
  /// Gives back a buffer that is the caller's, as its target would: by its word. A thread that
  /// finds the word makes the buffer its own by compare-and-swap, so a store to state_ might
  /// overwrite the next use.
  void give(word_ref word) noexcept {
    // B6 given  release word  -> B2
    word.store(number_of(state_hint()), std::memory_order_release);
  }
  /// The same for a buffer that no target tells of.
  void give() noexcept {
    // U4 give  release state_  -> U2
    state_.store(number_of(state_hint()), std::memory_order_release);
  }

 private:
  static constexpr std::uint64_t busy = std::uint64_t{1} << 63;
  static constexpr std::uint64_t sent_bit = std::uint64_t{1} << 62;
  // The number of a buffer's next use; 0 is the number of no use.
  static constexpr std::uint32_t next(std::uint32_t number) noexcept {
    return number == 0xffff ? 1 : number + 1;
  }
  std::atomic<std::uint64_t> state_{0};
};

}  // namespace penstock::conduit::PENSTOCK_ABI
