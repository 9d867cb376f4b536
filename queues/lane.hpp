// One queue pair to one peer, seen from its send queue: how many work requests are on it, what each
// holds until it has completed, and which are signalled. Posting needs the caller's exclusion (the
// engine's queue owners); completions may be reported by any thread.
//
// Capacity (invariant 6): posted - done <= depth, so the send queue cannot overflow; the send CQ is
// sized for depth times the queue pairs. One work request in signal_every is signalled, and each
// that holds something; as a completion covers all before it, at most signal_every - 1 slots linger
// unseen.
#pragma once

#include <infiniband/verbs.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <utility>

#include "lib/base/build_mode.hpp"
#include "queues/in_order.hpp"

namespace penstock::queues::PENSTOCK_ABI {

inline constexpr std::uint16_t no_chunk = 0xffff;

/// What a slot of the send queue holds until its work request has completed.
struct holding {
  std::uint16_t chunk = no_chunk;  ///< a reply chunk
  ibv_mr* mr = nullptr;            ///< a temporary registration
};

struct lane {
  ibv_qp* qp = nullptr;
  std::uint32_t first_psn = 0;

  void open(ibv_qp* q, std::uint32_t depth, std::uint32_t psn) {
    qp = q;
    first_psn = psn;
    depth_ = depth;
    signal_every_ = std::bit_floor(std::max(depth / 4, 1u));
    mask_ = std::bit_ceil(depth) - 1;  // numbers wrap round, and slots with them
    held_ = std::make_unique<holding[]>(mask_ + 1);
  }

  [[nodiscard]] bool has_room(std::uint32_t n = 1) const noexcept {
    return posted() + n - completed_.done() <= depth_;
  }
  /// Everything that was posted and signalled has completed.
  [[nodiscard]] bool drained() const noexcept {
    return posted() - completed_.done() < signal_every_;
  }
  /// Number of the work request posted last; a completion reports it. Compared modulo 2^32.
  [[nodiscard]] std::uint32_t posted() const noexcept {
    return posted_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] bool completed(std::uint32_t number) const noexcept {
    return static_cast<std::int32_t>(completed_.done() - number) >= 0;
  }

  /// Posts wr (room was asked for): adds its number, this lane's identity and, where due, the
  /// signal. 0 or an errno; on an error nothing is held.
  int post(ibv_send_wr& wr, std::uint32_t identity, holding h, bool signal = false) noexcept {
    const std::uint32_t number = posted() + 1;
    wr.wr_id = static_cast<std::uint64_t>(identity) << 32 | number;
    const bool holds = h.chunk != no_chunk || h.mr != nullptr;
    if (holds) held_[number & mask_] = h;  // else it was emptied when its last holding went
    if (signal || holds || (number & (signal_every_ - 1)) == 0) wr.send_flags |= IBV_SEND_SIGNALED;
    ibv_send_wr* bad = nullptr;
    const int e = ibv_post_send(qp, &wr, &bad);
    if (e == 0)
      posted_.store(number, std::memory_order_relaxed);
    else
      held_[number & mask_] = {};
    return e;
  }

  /// A completion of work request `number` came: release(holding) is called for all that it covers.
  /// Any thread; each holding is released once, in order.
  template <class Release>
  void complete(std::uint32_t number, Release&& release) noexcept {
    completed_.report(number,
                      [&](std::uint32_t i) { release(std::exchange(held_[i & mask_], {})); });
  }

 private:
  std::uint32_t depth_ = 0, mask_ = 0, signal_every_ = 1;
  std::atomic<std::uint32_t> posted_{0};  // written by the poster
  in_order<build_mode> completed_;
  std::unique_ptr<holding[]> held_;
};

}  // namespace penstock::queues::PENSTOCK_ABI
