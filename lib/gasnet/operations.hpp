// Puts and gets in flight, as gasnet.h's handles see them. Each thread has a table of operations, a
// free list through it, and two standing operations for its implicit puts and gets. A handle is a
// pointer into its thread's table.
//
// Who with whom: a thread begins, waits for and frees its own operations only (handles are thread-
// specific). Any thread may complete one: whichever sees the answer or the completion.
// What is in flight is counted in op.pending: added before it goes out, subtracted when it is
// complete, here or in the engine. Zero is complete, and what was fetched is visible to who reads
// it.
//
// Memory: tables grow by blocks when a thread has more in flight than ever before, and are never
// given back, since a late completion may point into them; a thread that has ended leaves its table
// to the next with its number (thread_index.hpp). Otherwise nothing here allocates or locks.
#pragma once

#include <atomic>
#include <cstdint>

#include "lib/base/mode.hpp"
#include "lib/gasnet/process.hpp"

/// What a gasnet_handle_t points to.
struct gasnetc_op {
  penstock::conduit::op_counter pending{0};  ///< pieces and messages in flight
  bool in_use = false;                       // (owner)
  gasnetc_op* next_free = nullptr;           // (owner)
  gasnet_register_value_t value = 0;         ///< of a value get; written before pending drops

  /// Owner: one more message is about to go out.
  void add() noexcept {
    // relaxed: the message itself carries the order to whoever completes it
    pending.fetch_add(1, std::memory_order_relaxed);
  }
  /// Whoever saw the answer.
  void complete() noexcept {
    // P1 complete  release pending  -> P2: the bytes fetched are there
    pending.fetch_sub(1, std::memory_order_release);
  }
  [[nodiscard]] bool done() const noexcept {
    // P2 test  acquire pending  <- P1
    return pending.load(std::memory_order_acquire) == 0;
  }
};

namespace penstock::gasnet::PENSTOCK_ABI {

using operation = gasnetc_op;

/// One thread's table. All functions by its thread.
class thread_operations {
 public:
  /// An operation with nothing in flight.
  operation& take() noexcept {
    if (free_ == nullptr) [[unlikely]]
      grow();
    operation& op = *free_;
    free_ = op.next_free;
    op.in_use = true;
    return op;
  }
  void give(operation& op) noexcept {
    op.in_use = false;
    op.next_free = free_;
    free_ = &op;
  }
  /// Where implicit puts and gets count: the access region, if one is open.
  [[nodiscard]] operation& implicit_puts() noexcept {
    return region_ != nullptr ? *region_ : puts_;
  }
  [[nodiscard]] operation& implicit_gets() noexcept {
    return region_ != nullptr ? *region_ : gets_;
  }
  [[nodiscard]] bool done(gasnetc_kind kind) const noexcept {
    return ((kind & gasnetc_puts) == 0 || puts_.done()) &&
           ((kind & gasnetc_gets) == 0 || gets_.done());
  }

  void begin_region() noexcept;
  /// The region's handle; null if nothing of it is in flight.
  operation* end_region() noexcept;

 private:
  void grow() noexcept;

  operation* free_ = nullptr;
  operation* region_ = nullptr;
  operation puts_, gets_;
};

/// The calling thread's table. About a nanosecond.
thread_operations& my_operations() noexcept;

/// Waits, polling, until op has nothing in flight.
inline void wait_for(const operation& op) noexcept {
  for (unsigned empty = 0; !op.done();) wait_step(empty);
}

}  // namespace penstock::gasnet::PENSTOCK_ABI
