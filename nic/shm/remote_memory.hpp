// Reaching a peer's registered memory: by a mapping where a file lies behind it, else through the
// peer's /proc/PID/mem, else by the peer's service thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "nic/shm/peer.hpp"

namespace penstock::nic::shm {

struct queue_pair;
struct send_work;

/// The mapping of the region behind rkey, made on first use; null where it cannot be mapped, or
/// with an errno: EINPROGRESS where the peer has been asked for its file. It waits for nobody.
std::shared_ptr<peer::mapping> map_region(queue_pair& qp, std::uint32_t rkey) noexcept;

/// Whether memory that is not mapped is reached through the kernel; else the peer is asked.
bool by_kernel(queue_pair& qp) noexcept;
/// Copies the bytes of a WRITE or READ to or from memory that is not mapped. 0 or an errno;
/// EINPROGRESS: the peer has been asked for a part of it, and w says how far it has come.
int copy_unmapped(queue_pair& qp, send_work& w) noexcept;

}  // namespace penstock::nic::shm
