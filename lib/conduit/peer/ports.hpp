// What the lower floors of an engine need of the higher ones: functions that the engine gives them
// once, at set-up, in one place (setup.cpp). No short way of a message calls any of them.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

#include "lib/base/result.hpp"
#include "lib/conduit/message/wire.hpp"
#include "penstock/penstock.hpp"
#include "queues/queues.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

class engine;
struct peer;

/// Memory of a Long's payload that is sent without a copy.
struct long_source {
  std::size_t bytes = 0;  ///< bytes of the payload, from its start, that this key covers
  std::uint32_t lkey = 0;
  std::uint16_t held = queues::no_source;  ///< to be released when its last write has completed
};

/// Each is called with the engine that it was given for.
struct ports {
  /// Handles what has happened: events, deaths, what was put off. By a thread that handles no
  /// message.
  void (*slow_progress)(engine&) noexcept;
  /// True if the rank has said that it leaves. Any thread.
  bool (*has_left)(const engine&, rank_id) noexcept;
  /// True if it has said so, and its process has ended. Any thread.
  bool (*is_gone)(const engine&, rank_id) noexcept;
  /// Contact to the peer was lost. Any thread, whatever it holds: the next poll judges whether the
  /// peer has died.
  void (*lost_contact)(engine&, peer&, const char* how) noexcept;
  /// The peer's process has ended, and not by a death. The connector's thread.
  void (*note_gone)(engine&, const peer&) noexcept;

  /// Puts a system message on the reply lane to the peer, by its path. False: there is no room now.
  bool (*say)(engine&, peer&, const wire::header&) noexcept;

  /// Fills in what a lane's queue pair is like. This and the next three: the connector's thread.
  void (*describe_lane)(engine&, peer&, unsigned lane, ibv_qp_init_attr&) noexcept;
  /// A lane was made.
  void (*lane_made)(engine&, peer&, unsigned lane) noexcept;
  /// Both basic lanes are bound, so that messages may arrive; once for each peer.
  void (*attached)(engine&, peer&) noexcept;
  /// Messages may be sent to the peer.
  result<void> (*reached)(engine&, peer&) noexcept;

  /// Finds a key for memory outside the segment that begins at `at`. False: there is none now, and
  /// the caller copies. This and the next: any thread, also in a handler; neither waits.
  bool (*hold_source)(engine&, const void* at, std::size_t bytes, long_source& out) noexcept;
  void (*release_source)(engine&, std::uint16_t held) noexcept;
};

}  // namespace penstock::conduit::PENSTOCK_ABI
