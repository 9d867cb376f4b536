// Reaching a peer's registered memory: by a mapping where a file lies behind it, else through the
// peer's /proc/PID/mem, else by the peer's service thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "nic/shm/peer.hpp"

namespace penstock::nic::shm {

struct queue_pair;

/// The mapping of the region behind rkey, made on first use; null where it cannot be mapped.
/// Waits for the peer's service thread the first time.
std::shared_ptr<peer::mapping> map_region(queue_pair& qp, std::uint32_t rkey) noexcept;

/// Copies to or from memory that is not mapped. 0 or an errno.
int copy_to(queue_pair& qp, std::uint32_t rkey, std::uint64_t address, const std::byte* from,
            std::size_t n) noexcept;
int copy_from(queue_pair& qp, std::uint32_t rkey, std::uint64_t address, std::byte* to,
              std::size_t n) noexcept;

}  // namespace penstock::nic::shm
