// The send queue of one-sided operations to one peer: what each work request on it holds, and the
// counter to be told when it has completed. Only one_sided/ uses it.
//
//   records_[number & mask_]: of the work requests done_+1 … posted_
//
// Who with whom: one thread at a time posts (peer::transfer_out), and one at a time completes
// (domain::reaping). Capacity (I6): posted_ - done_ <= depth, so the send queue cannot overflow;
// nor can the completion queue, which has depth entries for each peer, or whose entries are tickets
// (domain::transfer_room). Every work request is signalled, since an operation waits for each.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <utility>

#include "firehose/firehose.hpp"
#include "lib/base/assert.hpp"
#include "lib/conduit/peer/rights.hpp"
#include "memreg/memreg.hpp"
#include "penstock/mode.hpp"
#include "queues/queues.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

/// The number of pieces of an operation that are in flight; zero: it is complete. The caller owns
/// the counter, in a table of operations or on the stack of a call that waits. A piece is added
/// before it is posted, and the thread that sees it complete subtracts it.
using op_counter = std::atomic<std::uint32_t>;

/// No chunk.
inline constexpr std::uint16_t no_place = 0xffff;

/// What a work request holds until it has completed.
struct transfer_record {
  op_counter* counter = nullptr;
  void* copy_to = nullptr;       ///< where bytes that arrive in chunk or slot are copied, or null
  std::uint32_t copy_bytes = 0;  ///< bytes to copy
  std::uint16_t chunk = no_place;
  std::uint16_t slot = no_place;
  firehose::lease lease;
  firehose::lease remote;  ///< the key of the peer's memory, with segment everything
  memreg::temporary registration;
};

class transfer_queue {
 public:
  explicit transfer_queue(std::uint32_t depth)
      : depth_(depth),
        mask_(std::bit_ceil(depth) - 1),
        records_(std::make_unique<transfer_record[]>(mask_ + 1)) {}

  /// A hint but inside transfer_out, where room stays until the next post. Any thread.
  [[nodiscard]] bool has_room() const noexcept {
    // A1 room  acquire done_  <- R1: the place's record holds nothing
    return posted_.load(std::memory_order_relaxed) - done_.load(std::memory_order_acquire) < depth_;
  }
  /// Posts wr on the lane, after has_room() was true, and keeps the record. Returns 0 or an errno.
  int post(inside<end_of::transfer_out>, queues::lane& lane, ibv_send_wr& wr, std::uint32_t rank,
           transfer_record&& r) noexcept {
    const std::uint32_t number = posted_.load(std::memory_order_relaxed) + 1;
    PENSTOCK_ASSERT(number - done_.load(std::memory_order_relaxed), <=, depth_);  // (I6)
    records_[number & mask_] = std::move(r);
    // relaxed, both: only reports read most_
    if (const std::uint32_t n = number - done_.load(std::memory_order_relaxed);
        n > most_.load(std::memory_order_relaxed))
      most_.store(n, std::memory_order_relaxed);
    // R2 post  release posted_  -> A2: the record is there
    posted_.store(number, std::memory_order_release);
    wr.wr_id = std::uint64_t{rank} << 32 | number;
    wr.send_flags |= IBV_SEND_SIGNALED;
    return lane.send(wr);
  }

  /// Work request `number` has completed, and so have all before it. finish(record&) is called for
  /// each in order, and gives back all that the record holds.
  template <class Finish>
  void complete(inside<end_of::reaping>, std::uint32_t number, Finish&& finish) noexcept {
    // A2 completed  acquire posted_  <- R2
    [[maybe_unused]] const std::uint32_t posted = posted_.load(std::memory_order_acquire);
    PENSTOCK_ASSERT(static_cast<std::int32_t>(posted - number), >=, 0);  // it was posted
    std::uint32_t i = done_.load(std::memory_order_relaxed);
    while (static_cast<std::int32_t>(number - i) > 0) {
      ++i;
      finish(records_[i & mask_]);
      // R1 room  release done_  -> A1
      done_.store(i, std::memory_order_release);
    }
  }

  /// The most work requests that were in flight at one time. Any thread.
  [[nodiscard]] std::uint32_t most() const noexcept {
    return most_.load(std::memory_order_relaxed);
  }
  /// True if nothing is in flight. acquire: what the completions wrote is visible.
  [[nodiscard]] bool empty() const noexcept {
    return posted_.load(std::memory_order_acquire) == done_.load(std::memory_order_acquire);
  }

 private:
  const std::uint32_t depth_, mask_;
  std::atomic<std::uint32_t> posted_{0};
  std::atomic<std::uint32_t> most_{0};
  std::unique_ptr<transfer_record[]> records_;
  std::atomic<std::uint32_t> done_{0};
};

}  // namespace penstock::conduit::PENSTOCK_ABI
