// A domain has the queues, the credits and the channels to all processes that some of this
// process's threads use; its channels lead to the domains of the same number in the other processes
// (PENSTOCK_DOMAIN_COUNT). Threads of two domains share no cache line on a message's way. Only the
// engine uses it.
//
// A thread belongs to the domain that its number gives it. It takes the messages that come there,
// and those of a domain whose own threads do not poll (engine::poll_elsewhere), so that every
// message is taken, whichever thread polls.
#pragma once

#include <infiniband/verbs.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>

#include "credit/credit.hpp"
#include "lib/base/assert.hpp"
#include "lib/base/build_mode.hpp"
#include "lib/base/zero_pages.hpp"
#include "lib/conduit/peer/meetings.hpp"
#include "lib/conduit/peer/peer.hpp"
#include "nic/thread_domain.hpp"
#include "queues/queues.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

/// A domain's part of what a setting allows the process; `otherwise` where it is not set (0).
template <class N>
[[nodiscard]] constexpr N part_of(N all, std::uint32_t domains, N otherwise = 0) noexcept {
  return all == 0 ? otherwise : std::max<N>(all / domains, 1);
}

/// Whether each of a process's domains has a thread domain. Its provider takes no lock for a post,
/// neither of the queue pair nor of the doorbell page that all its queue pairs share, so one thread
/// may post to any of them at a time. In SEQ and PARSYNC there is one. In PAR the owners of lanes
/// do not say so: threads post to two lanes, also of other domains (poll_elsewhere). There
/// `domain::posting` does, in place of the provider's two locks, at no locked instruction while
/// one thread posts. An only domain of PAR has none: all its threads would share that owner.
[[nodiscard]] constexpr bool gets_thread_domain(std::uint32_t domains) noexcept {
  return !concurrent(build_mode) || domains > 1;
}

/// Peers in the order in which they were connected. The connector adds; any thread reads.
struct peer_order {
  zero_array<std::atomic<peer*>> at;
  std::atomic<std::uint32_t> valid{0};  ///< entries of at

  /// The number of peers. A1 peers  acquire valid  <- R1 (add): each peer's queues are there
  [[nodiscard]] std::uint32_t count() const noexcept {
    return valid.load(std::memory_order_acquire);
  }
  [[nodiscard]] peer& operator[](std::uint32_t i) const noexcept {
    return *at[i].load(std::memory_order_relaxed);
  }
  void add(peer& p) noexcept {
    const std::uint32_t place = valid.load(std::memory_order_relaxed);
    PENSTOCK_ASSERT(at[place].load(std::memory_order_relaxed) == nullptr, ==, true);
    at[place].store(&p, std::memory_order_relaxed);
    // R1 peer  release valid  -> A1 (count)
    valid.store(place + 1, std::memory_order_release);
  }
};

struct alignas(cache_line) domain {
  std::uint32_t index = 0;
  peer* peers = nullptr;  ///< by rank; the engine's (core::peers_)
  std::unique_ptr<credit::ledger<build_mode>> ledger;
  std::unique_ptr<queues::message_queues> queues;  ///< verbs path only
  ibv_cq* transfers = nullptr;  ///< completions of puts, gets and atomics; verbs path only
  queues::completion_room<build_mode> transfer_room;  ///< tickets of transfers
  peer_order rings;                                   ///< peers by rings, as they were connected
  /// The epoch at whose begin ring_path::tidy() last went through the rings.
  std::atomic<std::uint32_t> tidied{0};
  peer_order verbs;  ///< peers by queue pairs, as they were connected

  // Longs by rank, if their number is limited: how many were posted, and the last ones.
  struct longs_out {
    std::uint64_t count = 0;
    std::uint64_t number[64] = {};
  };
  zero_array<guarded<end_of::request_out, longs_out>> longs;
  meetings met;  ///< the ranks that were met

  /// For the queue pairs of its lanes, where the device knows thread domains; see
  /// gets_thread_domain.
  nic::thread_domain alone;

  /// Grows while the program's threads poll. It is kept only where there are several domains or a
  /// progress thread.
  alignas(cache_line) std::atomic<std::uint32_t> attended{0};
  end_owner<end_of::reaping> reaping;  ///< a thread polls `transfers` inside it
  queue_owner posting;                 ///< PAR: inside it a thread posts to a lane of `alone`
};

}  // namespace penstock::conduit::PENSTOCK_ABI
