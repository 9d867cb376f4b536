// Operations in flight, as gasnet.h's handles and gasnetex.h's events see them. Each thread has a
// table of operations, a free list through it, and standing counters for its implicit operations.
// An event is a pointer into such a table; the low bits, which an operation's address leaves free,
// say which part of the operation is meant (a leaf), and a little of how often it has been used, so
// that an event that was synchronized before is noticed.
//
//   event: address of the operation | generation (3 bits) | leaf (3 bits; 0: all of it)
//
// Who with whom: a thread takes operations from its own table only. Any thread may wait for an
// operation and give it back: its owner puts it to free_, other threads to returned_ by
// compare-and-swap. The owner takes the whole list returned_, so there is no ABA problem. The
// thread that sees an answer or a completion completes the operation. Counters have the number of
// pieces in flight: a piece is added before it goes out, and subtracted when it is complete, here
// or in the engine. An operation is complete when its counter is zero; a thread that has read the
// zero sees fetched bytes.
//
// Memory: a table grows by a block when its thread has more operations in flight than ever before.
// The first 64 blocks of all threads are of the library's own memory, later ones of the heap.
// Blocks are never freed, since a late completion may point into them; the next thread that gets
// the number of an ended thread gets its table, too (thread_index.hpp). Otherwise nothing here
// allocates or locks.
#pragma once

#include <atomic>
#include <cstdint>

#include "lib/base/mode.hpp"
#include "lib/base/thread_index.hpp"
#include "lib/gasnet/process.hpp"

/// The object that a gasnet_handle_t or gex_Event_t points to.
struct alignas(64) gasnetc_op {
  using counter = penstock::conduit::op_counter;

  counter pending{0};               ///< pieces and messages in flight; of an access region, of puts
  counter gets{0};                  ///< of an access region
  counter rmws{0};                  ///< of an access region: atomics that read and write
  counter locals{0};                ///< sources that may not be changed yet
  std::uint32_t owner = 0;          ///< tag of the thread whose table it is in
  std::atomic<bool> taken{false};   ///< not free
  std::uint8_t generation = 0;      // (the thread that holds the event)
  bool collective = false;          ///< of a collective, and not of transfers
  gasnetc_op* next_free = nullptr;  // (free_ or returned_)
  gasnet_register_value_t value = 0;  ///< of a value get; written before pending drops

  /// True if nothing is in flight. P2 test  acquire c  <- P1 (vis/packed.cpp), or another release
  /// by the thread that saw the completion
  [[nodiscard]] static bool zero(const counter& c) noexcept {
    return c.load(std::memory_order_acquire) == 0;
  }
  [[nodiscard]] bool done() const noexcept {
    return zero(pending) && zero(gets) && zero(rmws) && zero(locals);
  }
};

namespace penstock::gasnet::PENSTOCK_ABI {

using operation = gasnetc_op;
using conduit::op_counter;

/// The part of an operation that an event means.
enum class leaf : unsigned { all = 0, puts = 1, gets = 2, rmws = 3, local = 4 };

constexpr std::uintptr_t leaf_bits = 7, generation_shift = 3, event_bits = 63;
static_assert(alignof(operation) > event_bits);

inline gex_Event_t event_of(const operation& op, leaf part = leaf::all) noexcept {
  return reinterpret_cast<gex_Event_t>(reinterpret_cast<std::uintptr_t>(&op) |
                                       static_cast<std::uintptr_t>(op.generation & 7)
                                           << generation_shift |
                                       static_cast<std::uintptr_t>(part));
}
inline leaf leaf_of(gex_Event_t e) noexcept {
  return static_cast<leaf>(reinterpret_cast<std::uintptr_t>(e) & leaf_bits);
}
inline operation* operation_of(gex_Event_t e) noexcept {
  return reinterpret_cast<operation*>(reinterpret_cast<std::uintptr_t>(e) & ~event_bits);
}

/// One thread's table. Only its thread may call its functions, but for give_back().
class thread_operations {
 public:
  explicit thread_operations(std::uint32_t tag) noexcept : tag_(tag) {}

  /// An operation with nothing in flight.
  operation& take() noexcept {
    if (free_ == nullptr) [[unlikely]]
      refill();
    operation& op = *free_;
    free_ = op.next_free;
    // relaxed: no other thread knows of it
    op.taken.store(true, std::memory_order_relaxed);
    return op;
  }
  /// Gives an operation back whose root event is gone. Any thread.
  void give_back(operation& op) noexcept {
    ++op.generation;
    op.collective = false;
    // relaxed: only a wrong program sees anything but what it holds
    op.taken.store(false, std::memory_order_relaxed);
    if (thread_tag() == tag_) {
      op.next_free = free_;
      free_ = &op;
      return;
    }
    op.next_free = returned_.load(std::memory_order_relaxed);
    // R1 return  release returned_  -> A1
    while (!returned_.compare_exchange_weak(op.next_free, &op, std::memory_order_release,
                                            std::memory_order_relaxed)) {
    }
  }

  /// The counters of implicit operations: the access region's, if one is open.
  [[nodiscard]] op_counter& implicit_puts() noexcept { return implicit().pending; }
  [[nodiscard]] op_counter& implicit_gets() noexcept { return implicit().gets; }
  [[nodiscard]] op_counter& implicit_rmws() noexcept { return implicit().rmws; }
  /// True if the standing operations of these kinds (GEX_EC_*) are complete. A put's source may be
  /// changed when the put is complete, and a message's when its call has returned.
  [[nodiscard]] bool done(gex_EC_t kinds) const noexcept {
    return ((kinds & (GEX_EC_PUT | GEX_EC_LC)) == 0 || operation::zero(standing_.pending)) &&
           ((kinds & GEX_EC_GET) == 0 || operation::zero(standing_.gets)) &&
           ((kinds & GEX_EC_RMW) == 0 || operation::zero(standing_.rmws));
  }

  void begin_region(const char* call) noexcept;
  /// Ends the access region and returns its event, which is invalid if none of its operations is in
  /// flight.
  gex_Event_t end_region(const char* call) noexcept;

 private:
  operation& implicit() noexcept {
    // relaxed: only this thread's own waits have to see it
    std::atomic_ref(GASNETC_(implicit_begun)).store(1, std::memory_order_relaxed);
    return region_ != nullptr ? *region_ : standing_;
  }
  void refill() noexcept;

  const std::uint32_t tag_;
  operation* free_ = nullptr;
  operation* region_ = nullptr;
  operation standing_;
  alignas(cache_line) std::atomic<operation*> returned_{nullptr};
};

/// The calling thread's table. Takes about a nanosecond.
thread_operations& my_operations() noexcept;

/// Gives op back: its root event is gone, and its leaves with it. Any thread.
void let_go(operation& op) noexcept;

/// If e is complete, frees its operation and clears e; a leaf is only cleared. False: it is not
/// complete. Ends the job where it sees that e has been synchronized before.
bool reap(gex_Event_t& e, const char* call);

/// Waits, polling, until done() is true, which completions of transfers make so, or messages.
template <class Done>
void wait_for_transfers(Done&& done) noexcept {
  for (unsigned empty = 0; !done();)
    if (!self.engine->one_sided().look()) wait_step(empty);
}
/// Waits, polling, until op has nothing in flight.
inline void wait_for(const operation& op) noexcept {
  if (op.done()) return;
  const conduit::long_wait named(self.engine->waits(), conduit::wait_for::transfers);
  wait_for_transfers([&op] { return op.done(); });
}

/// The event of an operation that has begun. An operation that is complete already is given back,
/// and has no event.
inline gex_Event_t event_or_done(operation& op) noexcept {
  if (!op.done()) return event_of(op);
  let_go(op);
  return GEX_EVENT_INVALID;
}

}  // namespace penstock::gasnet::PENSTOCK_ABI
