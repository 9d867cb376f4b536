// The shared-memory device's inline path: calls that a user of shm0 may make beside the verbs
// calls, as users of mlx5 reach below theirs. Messages pushed here and SENDs posted through verbs
// share the rings, so the two ways must not be mixed on one QP direction.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <string>

#include "nic/shm/ring.hpp"

namespace penstock::nic::shm {

/// The operation code of messages that the direct path pushes; the device's own start at 1.
inline constexpr std::uint8_t op_direct = 0;

/// The outgoing ring of an RC QP in RTS, or null (the peer's QP does not exist yet). It lives as
/// long as the QP and is for one thread at a time. It begins with its shortest length and without
/// data: lengthen() it.
ring_tx* direct_tx(ibv_qp* qp) noexcept;
/// The incoming ring of an RC QP in RTR or RTS, or null. It is for one thread at a time. A message
/// that is popped here is not seen by ibv_poll_cq and takes no posted receive.
ring_rx* direct_rx(ibv_qp* qp) noexcept;

/// To be called after pushes into direct_tx: wakes the peer if the receive CQ of its QP is armed.
/// Its direct bell, if it has one, becomes readable; otherwise its completion channel gets an
/// event. The call costs one load when the peer is awake.
void direct_wake(ibv_qp* qp) noexcept;
/// A descriptor that becomes readable when the context's bell is rung, for threads that sleep in
/// poll(2); this spares the way through the device's thread. The caller closes it. A context has at
/// most one at a time. -1 with errno. It may become readable without a message, and the bytes read
/// from it have no meaning.
int direct_bell(ibv_context* context) noexcept;
/// A descriptor that becomes readable when a peer has rung for any queue of the context. It spares
/// a sleeper the waking of the device's thread, which from the first call on leaves such a sleeper
/// 100 us to look itself, before it makes events. That thread alone reads from the descriptor, so a
/// sleeper looks for its edges, and arms each queue again that was_rung(). The device's own.
int kicks_of(ibv_context* context) noexcept;
/// A peer has rung for the queue, and neither an arming nor the device's thread has answered since.
bool was_rung(ibv_cq* cq) noexcept;

/// modify_qp to RTR answers ETIMEDOUT for a peer's process that has not answered for a tenth of a
/// second, not for 10 s, and waits on when it is called again: for a thread that connects many, one
/// of which may be stopped. Before the first connection.
void peers_may_be_silent(ibv_context* context) noexcept;

/// Number of asynchronous events raised so far on the context. A poll loop compares it with what it
/// last saw (one load) and calls get_async_event only then. A peer's death raises
/// IBV_EVENT_QP_FATAL on every QP connected to it within a second.
const std::atomic<std::uint32_t>& event_count(ibv_context* context) noexcept;
/// The number of datagrams that wait on UD QPs of the context may be non-zero (one load): poll
/// their CQ then.
const std::atomic<std::uint32_t>& datagrams_pending(ibv_context* context) noexcept;

/// Maps the peer's registered memory [addr, addr+bytes) of key rkey into this process, where a
/// memfd is behind it. Otherwise it answers null, with errno ETIMEDOUT if the peer has not answered
/// within patience_ns (it may be stopped; the next call takes its answer), ESRCH if its process has
/// ended, 0 if the peer does not show it so, or why this process cannot map it. A shortage is
/// waited for, two seconds at most. The mapping lives until the QP is destroyed. Set-up only.
void* map_remote(ibv_qp* qp, std::uint64_t addr, std::size_t bytes, std::uint32_t rkey,
                 std::uint64_t patience_ns = 2'000'000'000) noexcept;
/// Whether an errno of that call, or of modify_qp to RTR, says that the peer's process has ended.
/// All others are about this process and this machine.
[[nodiscard]] bool means_gone(int code) noexcept;

/// What decides whether two processes of a host find each other; equal structures do.
struct whereabouts {
  std::uint64_t network = 0, users = 0;  ///< numbers of the namespaces; 0: not known
  std::uint32_t user = 0, unused = 0;
  bool operator==(const whereabouts&) const = default;
};
whereabouts here();
/// Why a process does not find the other one, as the end of a sentence that begins with it; empty
/// if nothing is known that keeps them apart.
std::string why_apart(const whereabouts& mine, const whereabouts& his);

/// Copies between memory here and any memory of the peer's process, registered or not, through the
/// kernel; complete on return. 0, or: EFAULT (no such memory there, or it may not be written; part
/// may have been copied), ESRCH (the process has ended), EPERM (the kernel forbids it, or the
/// process cannot be identified). About a microsecond and a copy.
int copy_remote(ibv_qp* qp, std::uint64_t addr, void* local, std::size_t bytes,
                bool write) noexcept;

/// Tells the device that [addr, addr+bytes) maps fd from offset on, so that peers may map that
/// memory too once it is registered. Call it before reg_mr, and forget_shared() before the memory
/// is unmapped. Peers map it only if the file is sealed against shrinking (F_SEAL_SHRINK).
void declare_shared(void* addr, std::size_t bytes, int fd, std::uint64_t offset);
void forget_shared(void* addr);

/// Lets every process of this user read and write this one's memory (PR_SET_PTRACER_ANY) where Yama
/// allows that to its parents only (ptrace_scope 1). Peers then copy to and from memory that they
/// cannot map. Without this call they ask this process, whose threads copy for them.
void admit_peers() noexcept;

}  // namespace penstock::nic::shm
