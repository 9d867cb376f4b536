// The asymmetric fence. A sender publishes, then looks whether the receiver sleeps. A receiver says
// that it sleeps, then looks whether something was published. One of the two must see the other.
// The rare side pays for both with membarrier(2); the frequent side only keeps the compiler from
// reordering.
#pragma once

#include <atomic>

namespace penstock::nic::shm {

/// Registers this process for barriers of others. True if it worked; idempotent.
bool join_barriers() noexcept;

/// F1: a full fence on every running thread of every process that has joined.  <-> F2
void heavy_fence() noexcept;

/// F2: the frequent side; costs nothing.  <-> F1
inline void light_fence() noexcept { std::atomic_signal_fence(std::memory_order_seq_cst); }

}  // namespace penstock::nic::shm
