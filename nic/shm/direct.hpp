// The shared-memory device's inline path: what a user of shm0 may do beside the verbs calls, as
// users of mlx5 reach below theirs. Messages pushed here and SENDs posted through verbs share the
// rings, so the two ways must not be mixed on one QP direction.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>

#include "nic/shm/ring.hpp"

namespace penstock::nic::shm {

/// The operation code of messages that the direct path pushes; the device's own start at 1.
inline constexpr std::uint8_t op_direct = 0;

/// The outgoing ring of an RC QP in RTS, or null (the peer's QP does not exist yet). Lives as long
/// as the QP; one thread at a time. It begins as short as can be, without data: lengthen() it.
ring_tx* direct_tx(ibv_qp* qp) noexcept;
/// The incoming ring of an RC QP in RTR or RTS, or null. One thread at a time; nothing that is
/// popped here is seen by ibv_poll_cq, and takes no posted receive.
ring_rx* direct_rx(ibv_qp* qp) noexcept;

/// After pushes into direct_tx: wakes the peer if the receive CQ of its QP is armed: its direct
/// bell, if it has one, can be read from; else its completion channel has an event. One load when
/// it is awake.
void direct_wake(ibv_qp* qp) noexcept;
/// A descriptor that rings for those who sleep in poll(2), without the way over the device's
/// thread: the caller's to close, at most one of a context at a time; -1 with errno. It may ring
/// for nothing; what is read from it means nothing.
int direct_bell(ibv_context* context) noexcept;

/// Number of asynchronous events raised so far on the context. A poll loop compares it with what it
/// last saw (one load) and calls get_async_event only then. A peer's death raises
/// IBV_EVENT_QP_FATAL on every QP connected to it within a second.
const std::atomic<std::uint32_t>& event_count(ibv_context* context) noexcept;
/// True once the peer process of a connected QP is known to be dead.
bool peer_dead(ibv_qp* qp) noexcept;
/// Number of datagrams that wait on UD QPs of the context may be non-zero (one load): then poll
/// their CQ.
const std::atomic<std::uint32_t>& datagrams_pending(ibv_context* context) noexcept;

/// Maps the peer's registered memory [addr, addr+bytes) of key rkey here, where it is backed by a
/// memfd; null otherwise, with errno ETIMEDOUT if the peer has just not answered (it may be
/// stopped), and ESRCH if its process has ended. The mapping lives until the QP is destroyed.
/// Set-up only.
void* map_remote(ibv_qp* qp, std::uint64_t addr, std::size_t bytes, std::uint32_t rkey) noexcept;

/// Copies between memory here and any memory of the peer's process, registered or not, through the
/// kernel; complete on return. 0, or: EFAULT (no such memory there, or it may not be written; part
/// may have been copied), ESRCH (the process has ended), EPERM (the kernel forbids it, or the
/// process cannot be identified). About a microsecond and a copy.
int copy_remote(ibv_qp* qp, std::uint64_t addr, void* local, std::size_t bytes,
                bool write) noexcept;

/// Tells the device that [addr, addr+bytes) maps fd from offset on, so that peers may map it too
/// once it is registered. Call before reg_mr; forget before the memory is unmapped. Peers map it
/// only if the file is sealed against shrinking (F_SEAL_SHRINK).
void declare_shared(void* addr, std::size_t bytes, int fd, std::uint64_t offset);
void forget_shared(void* addr);

/// Lets every process of this user read and write this one's memory (PR_SET_PTRACER_ANY) where Yama
/// allows that to its parents only (ptrace_scope 1), so that peers copy to and from memory that
/// they cannot map. Without it they ask this process, whose threads copy.
void admit_peers() noexcept;

}  // namespace penstock::nic::shm
