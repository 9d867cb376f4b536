// What a thread keeps from poll to poll of a domain: which peers of the rings it looks at each
// time, and what it holds in order to take a request of a queue pair. Its thread's own.
#pragma once

#include <cstdint>
#include <optional>

#include "lib/conduit/channel/peer.hpp"
#include "queues/queues.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

/// Who sends: with more than a few connections the thread looks at the hot ones each time, and at
/// the others in turn; a peer that has sent nothing for a while is hot no longer. For queue pairs:
/// where a reply is built, a spare for either size of buffer, and the buffers held back for that.
struct poller {
  static constexpr std::uint32_t few_peers = 3;  ///< are all looked at, each time
  static constexpr std::uint32_t hot_peers = 12, cold_a_poll = 2, polls_a_cooling = 512;
  static constexpr std::uint32_t messages_a_turn = 256;  ///< where processes outnumber cores
  peer* hot[hot_peers] = {};
  std::uint32_t hot_count = 0, sent_lately = 0, until_cooling = polls_a_cooling;
  std::uint32_t victim = 0, cursor = 0, since_look = 0, replies_due = 0;
  std::optional<std::uint32_t> reply_chunk, spare[2];
  queues::held_back held[2];
  std::uint32_t late_receives = 0;  ///< for replies, yet to be put back

  [[nodiscard]] bool holds_reply_resources() const noexcept {
    return reply_chunk && spare[0] && spare[1];
  }
  std::uint32_t busy = 0;       ///< messages sent and handled in this turn
  bool keeps = false;           ///< what it holds, whatever others lack: the progress thread
  std::uint64_t probed_ns = 0;  ///< when it last asked whether peers are still reached
  std::uint32_t polls = 0;      ///< of its own domain; where attendance is noted only
  std::uint32_t helps = 0;      ///< polls for which it looks elsewhere each time
  std::uint32_t attended = 0;   ///< of another's domain, as last seen
  std::uint32_t turn = 0;       ///< place in the order of the queue pairs' peers

  void warm(peer* p) noexcept;
  void cool() noexcept;
};

/// Polls of a thread, on a line of its own.
struct alignas(cache_line) poll_count {
  event_counter polls;
};

}  // namespace penstock::conduit::PENSTOCK_ABI
