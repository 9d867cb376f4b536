// Operations in flight as the C++ interface's handles see them: a table for each thread, with two
// standing counters for its implicit puts and gets. remote_memory.cpp and atomic.cpp use it.
//
//   blocks_ -> [op op op …] -> …        free_ -> op -> op      (owner)
//                                        returned_ -> op -> op  (any pushes, the owner takes all)
//
// Who with whom: a thread takes operations from its own table only. Any thread may wait for an
// operation and give it back: its owner puts it to free_, other threads to returned_ by
// compare-and-swap. The owner takes the whole list returned_, so there is no ABA problem. A
// generation grows with each use, so that a handle that was waited for already cannot pass for
// another one. Memory: a table grows by a block when its thread has more operations in flight than
// ever before. It lives as long as the engine, since a late completion may point into it; the next
// thread that gets the number of an ended thread gets its table, too. Nothing else allocates, and
// nothing locks. Cost: take() and give() by the owner make no RMW.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "lib/base/thread_index.hpp"
#include "lib/conduit/peer/transfer_queue.hpp"
#include "penstock/mode.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

/// The object that a handle points to.
struct transfer_op {
  op_counter pending{0};
  std::uint32_t generation = 1;  // (the thread that holds the handle)
  std::uint32_t owner = 0;       ///< tag of the thread whose table it is in
  transfer_op* next = nullptr;   // (free_ or returned_)
};

/// One thread's table. Only its thread may call its functions, but for give().
class transfer_ops {
 public:
  explicit transfer_ops(std::uint32_t tag) noexcept : tag_(tag) {}

  /// An operation with nothing in flight.
  transfer_op& take() noexcept {
    if (free_ == nullptr) [[unlikely]]
      refill();
    transfer_op& op = *free_;
    free_ = op.next;
    return op;
  }
  /// Gives op back, on which nothing is in flight any more. Any thread; caller: its tag.
  void give(transfer_op& op, std::uint32_t caller) noexcept {
    ++op.generation;
    if (caller == tag_) {
      op.next = free_;
      free_ = &op;
      return;
    }
    op.next = returned_.load(std::memory_order_relaxed);
    // R1 return  release returned_  -> A1
    while (!returned_.compare_exchange_weak(op.next, &op, std::memory_order_release,
                                            std::memory_order_relaxed)) {
    }
  }

  op_counter& puts() noexcept { return region != nullptr ? region->pending : puts_; }
  op_counter& gets() noexcept { return region != nullptr ? region->pending : gets_; }
  /// The counters outside access regions.
  [[nodiscard]] const op_counter& standing_puts() const noexcept { return puts_; }
  [[nodiscard]] const op_counter& standing_gets() const noexcept { return gets_; }

  transfer_op* region = nullptr;  ///< the access region, while one is open

 private:
  void refill() noexcept {
    // A1 refill  acquire returned_  <- R1
    free_ = returned_.exchange(nullptr, std::memory_order_acquire);
    if (free_ != nullptr) return;
    blocks_.push_back(std::make_unique<transfer_op[]>(block));
    for (std::uint32_t i = 0; i < block; ++i) {
      transfer_op& op = blocks_.back()[i];
      op.owner = tag_;
      op.next = free_;
      free_ = &op;
    }
  }

  static constexpr std::uint32_t block = 256;
  const std::uint32_t tag_;
  transfer_op* free_ = nullptr;
  op_counter puts_{0}, gets_{0};
  std::vector<std::unique_ptr<transfer_op[]>> blocks_;
  alignas(cache_line) std::atomic<transfer_op*> returned_{nullptr};
};

}  // namespace penstock::conduit::PENSTOCK_ABI
