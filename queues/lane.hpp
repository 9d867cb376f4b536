// One queue pair to one peer, seen from its send queue: how many work requests are on it, what each
// holds until it has completed, and which are signalled. Posting needs the caller's exclusion (the
// engine's queue owners); completions may be reported by any thread.
//
// A lane of a thread domain has an owner in common with the others of it: inside it one thread
// posts at a time, as its provider takes no lock.
//
// Capacity (I6): posted - done <= depth, so the send queue cannot overflow.
// One work request in signal_mask_ + 1 is signalled, and each that holds something or is waited
// for; each of these brings a ticket of the completion queue (completion_room.hpp). As a completion
// covers all before it, at most signal_mask_ slots linger unseen.
//
// Numbers have 64 bits, so that one number can be compared with another however old; a completion
// brings the low half of its own, which is never 2^31 away from what is done.
#pragma once

#include <infiniband/verbs.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <utility>

#include "lib/base/assert.hpp"
#include "lib/base/backoff.hpp"
#include "lib/base/build_mode.hpp"
#include "lib/base/owner.hpp"
#include "lib/base/thread_index.hpp"
#include "queues/in_order.hpp"
#include "queues/signals.hpp"

namespace penstock::queues::PENSTOCK_ABI {

inline constexpr std::uint16_t no_chunk = 0xffff;
inline constexpr std::uint16_t no_source = 0xffff;
inline constexpr std::uint16_t no_fetch = 0xffff;

/// What a slot of the send queue holds until its work request has completed.
struct holding {
  std::uint16_t chunk = no_chunk;    ///< a reply chunk
  std::uint16_t source = no_source;  ///< the caller's name for memory that the device reads
  std::uint16_t fetch = no_fetch;    ///< the caller's name for memory that the device writes
};

struct lane {
  ibv_qp* qp = nullptr;
  std::uint32_t first_psn = 0;

  /// before: number of the work request before the first. A lane that was closed goes on from
  /// posted(), so that a completion that is reported late covers nothing. signals_all: none is left
  /// unsignalled. posting: of its thread domain; null where the provider excludes threads.
  void open(ibv_qp* q, std::uint32_t depth, std::uint32_t psn, std::uint64_t before = 0,
            bool signals_all = false, owner<build_mode>* posting = nullptr) {
    PENSTOCK_ASSERT(depth, !=, 0u);
    qp = q;
    posting_ = posting;
    first_psn = psn;
    depth_ = depth;
    signal_mask_ = signals_all ? 0 : signal_interval(depth) - 1;
    mask_ = std::bit_ceil(depth) - 1;  // numbers wrap round, and slots with them
    held_ = std::make_unique<holding[]>(mask_ + 1);
    posted_.store(before, std::memory_order_relaxed);  // relaxed: nobody else knows the lane yet
    completed_.start_after(before);
  }
  /// Its queue pair has been destroyed, at a moment when it was empty().
  void close() noexcept {
    for (std::uint32_t i = 0; assertions && held_ != nullptr && i <= mask_; ++i)
      PENSTOCK_ASSERT(held_[i].chunk, ==, no_chunk);  // a chunk that is held would be lost
    qp = nullptr;
    held_.reset();
  }

  [[nodiscard]] bool has_room(std::uint32_t n = 1) const noexcept {
    return posted() + n - completed_.done() <= depth_;
  }
  /// The next work request is signalled, whether it is asked for or not: it takes a ticket.
  [[nodiscard]] bool signals_next() const noexcept { return ((posted() + 1) & signal_mask_) == 0; }
  /// True if everything that was posted and signalled has completed.
  [[nodiscard]] bool drained() const noexcept {
    return posted() - completed_.done() <= signal_mask_;
  }
  /// True if everything that was posted has completed. For the poster.
  [[nodiscard]] bool empty() const noexcept { return posted() == completed_.done(); }
  /// Number of the work request posted last.
  [[nodiscard]] std::uint64_t posted() const noexcept {
    return posted_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] bool completed(std::uint64_t number) const noexcept {
    return completed_.done() >= number;
  }

  /// Posts wr; the caller has checked the room and, if wr is signalled, taken a ticket. Adds its
  /// number and this lane's identity, and the signal, which a request that holds something gets,
  /// too. Answers 0 or an errno; on an error nothing is held.
  int post(ibv_send_wr& wr, std::uint32_t identity, holding h, bool signal = false) noexcept {
    const std::uint64_t number = posted() + 1;
    PENSTOCK_ASSERT(number - completed_.done(), <=, depth_);  // (I6)
    const bool holds = h.chunk != no_chunk || h.source != no_source || h.fetch != no_fetch;
    if (holds) held_[number & mask_] = h;  // else it was emptied when its last holding went
    if (signal || holds || (number & signal_mask_) == 0) wr.send_flags |= IBV_SEND_SIGNALED;
    const bool has_ticket = (wr.send_flags & IBV_SEND_SIGNALED) != 0;
    wr.wr_id = static_cast<std::uint64_t>(identity) << 32 | std::uint64_t{has_ticket} << 31 |
               (number & number_mask);
    const int e = send(wr);
    if (e == 0)
      posted_.store(number, std::memory_order_relaxed);
    else
      held_[number & mask_] = {};
    return e;
  }

  /// The bare post, which post() ends with and transfers use.
  int send(ibv_send_wr& wr) noexcept {
    ibv_send_wr* bad = nullptr;
    if (!concurrent(build_mode) || posting_ == nullptr) [[likely]]
      return ibv_post_send(qp, &wr, &bad);
    const std::uint32_t tag = thread_tag();
    for (backoff b(32); !posting_->try_enter(tag); b.idle()) cpu_relax();
    PENSTOCK_ASSERT(posting_->held_by(tag), ==, true);
    const int e = ibv_post_send(qp, &wr, &bad);
    posting_->leave(tag);
    return e;
  }

  /// Whether a completion gives a ticket back. Those of an error come also for work requests that
  /// were not signalled, and took none.
  [[nodiscard]] static bool had_ticket(std::uint64_t wr_id) noexcept {
    return (wr_id >> 31 & 1) != 0;
  }

  /// A completion came of the work request with this low half of its wr_id: calls release(holding)
  /// for all that the completion covers. Any thread; each holding is released once, in order.
  template <class Release>
  void complete(std::uint32_t low, Release&& release) noexcept {
    const std::uint64_t done = completed_.done();
    // Of numbers of 31 bits: shifted up, their difference has its sign.
    const auto ahead =
        static_cast<std::int32_t>((low - static_cast<std::uint32_t>(done)) << 1) >> 1;
    if (ahead <= 0) return;  // a later completion was reported first
    // Of what was posted, or is this moment, before post() says so.
    PENSTOCK_ASSERT(done + static_cast<std::uint32_t>(ahead), <=, posted() + 1);
    completed_.report(done + static_cast<std::uint32_t>(ahead),
                      [&](std::uint64_t i) { release(std::exchange(held_[i & mask_], {})); });
  }

 private:
  static constexpr std::uint32_t number_mask = 0x7fff'ffff;

  owner<build_mode>* posting_ = nullptr;
  std::uint32_t depth_ = 0, mask_ = 0;
  std::uint32_t signal_mask_ = 0;         // one number in signal_mask_ + 1 is signalled
  std::atomic<std::uint64_t> posted_{0};  // written by the poster
  in_order<build_mode> completed_;
  std::unique_ptr<holding[]> held_;
};

}  // namespace penstock::queues::PENSTOCK_ABI
