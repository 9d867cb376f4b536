// What a thread keeps from one poll of a domain to the next: the peers whose rings it looks at in
// each poll, and what it holds so that it can take a request from a queue pair. No other thread
// touches it.
#pragma once

#include <cstdint>
#include <optional>

#include "lib/conduit/peer/peer.hpp"
#include "queues/queues.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

/// For rings: with more than few_peers connections, a poll looks at the hot peers, which have sent
/// lately, and at cold_a_poll of the others in turn. A peer that has sent nothing during
/// polls_a_cooling polls is no longer hot. For queue pairs: the chunk in which a reply is built, a
/// spare receive buffer of either size, and buffers held back for want of a spare.
struct poller {
  static constexpr std::uint32_t few_peers = 3;  ///< up to here every poll looks at all
  static constexpr std::uint32_t hot_peers = 12, cold_a_poll = 2, polls_a_cooling = 512;
  static constexpr std::uint32_t messages_a_turn = 256;  ///< see core::share_core()
  peer* hot[hot_peers] = {};
  std::uint32_t hot_count = 0, sent_lately = 0, until_cooling = polls_a_cooling;
  std::uint32_t victim = 0, cursor = 0, since_look = 0, replies_due = 0;
  std::optional<std::uint32_t> reply_chunk, spare[2];
  queues::held_back held[2];
  std::uint32_t late_receives = 0;  ///< receives for replies that are yet to be reposted

  [[nodiscard]] bool holds_reply_resources() const noexcept {
    return reply_chunk && spare[0] && spare[1];
  }
  static constexpr std::uint32_t watched = 8;
  std::uint32_t skips[watched] = {};       ///< of a ring that another thread is inside of, in a row
  std::uint64_t skipped_at[watched] = {};  ///< where that ring stood
  std::uint32_t busy = 0;                  ///< messages sent and handled in this turn (share_core)
  bool keeps = false;           ///< the progress thread's: it gives back nothing that it holds
  std::uint64_t probed_ns = 0;  ///< when it last asked the device whether a peer is still reached
  std::uint64_t port_down_ns = 0;  ///< since when it has found the device's port down; 0: it is up
  std::uint32_t polls = 0;         ///< polls of its own domain, counted where attendance is noted
  std::uint32_t helps = 0;         ///< how many further polls also look at other domains
  std::uint32_t attended = 0;      ///< domain::attended of another's domain, as last seen
  std::uint32_t turn = 0;          ///< place in domain::verbs, the order of the queue pairs' peers

  void warm(peer* p) noexcept;
  void cool() noexcept;
};

/// The number of a thread's polls, on a cache line of its own.
struct alignas(cache_line) poll_count {
  event_counter polls;
};

}  // namespace penstock::conduit::PENSTOCK_ABI
