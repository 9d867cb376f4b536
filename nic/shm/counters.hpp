// Counters of a context, like those under /sys/class/infiniband/*/ports/*/hw_counters.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

namespace penstock::nic::shm {

/// How often a request of this context found no receive at its peer (rcvd_rnr_err).
std::uint64_t rnr_received(ibv_context* context) noexcept;
/// How often a peer's request found no receive here (send_rnr_err). Written by the peers.
std::uint64_t rnr_sent(ibv_context* context) noexcept;
/// How many messages were lost since no receive was posted: messages that this context sent by UC,
/// and datagrams that it got.
std::uint64_t lost_for_receive(ibv_context* context) noexcept;

}  // namespace penstock::nic::shm
