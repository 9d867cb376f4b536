// Remote firehoses, for segment everything: the right to write to and read from memory of a peer
// that is in no segment. A requester asks the owner to register pages and to keep them registered;
// the key it gets serves until it gives the region back or the owner takes it back because the
// memory changed. Both sides live in one object, since every process is both.
//
//   requester                           owner
//     ask id [start,end) (gives back v) ->  returns v's lease; leases the pages from its pool
//                                       <-  granted id rkey, or refused id
//     … puts and gets with the key, no message …
//                                           the memory changes
//                                       <-  revoke id
//     give_back id, once unused         ->  the lease is returned
//
// Share: each owner grants every other process M/(N-1) bytes and R/(N-1) regions, at least one
// region. Both sides count; a requester that exceeds its share is refused.
//
// No stale key (R-a): before an owner sends anything else after a change, it waits until every
// holder has given the changed regions back (must_settle()). So a process that learns from the
// owner that memory was replaced can only find a fresh key. README.md says what this cannot cover.
//
// The channel keeps messages of one pair in order, and carries them outside the flow control of
// active messages, since they are sent while those wait. Threads: any; on_message() and progress()
// from the engine's progress, never from under the channel's own locks.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "firehose/pool.hpp"
#include "firehose/region_table.hpp"
#include "lib/base/status.hpp"

namespace penstock::firehose {

/// What carries control messages: send() copies `bytes` (at most 64) or answers that it is short of
/// something (then nothing was sent). It may be called by any thread and does not call back.
template <class C>
concept control_channel = requires(C c, unsigned peer, std::span<const std::byte> bytes) {
  { c.send(peer, bytes) } -> std::same_as<status>;
};

struct remote_settings {
  unsigned self = 0;
  unsigned processes = 1;
  std::uint64_t max_bytes = 0;    ///< M: GASNET_FIREHOSE_M, what all peers may keep registered here
  std::uint32_t max_regions = 0;  ///< R: GASNET_FIREHOSE_R; 0: M / region size
  std::uint64_t max_region_bytes = std::uint64_t{128} << 10;
};

/// What one process may keep registered at one peer.
struct remote_share {
  std::uint64_t bytes = 0;
  std::uint32_t regions = 0;
  std::uint64_t region_bytes = 0;  ///< a power of two; windows of this size
};
/// The same on every process, from the settings alone. region_bytes shrinks so that at least one
/// fits the share; bytes is 0 when not even a page does.
remote_share share_of(const remote_settings& s) noexcept;

struct remote_statistics {
  std::uint64_t hits = 0, asks = 0, granted = 0, refused = 0, given_back = 0, revoked = 0;
  std::uint64_t bytes_granted = 0;  ///< registered here for peers, now
};

class remote_firehoses {
 public:
  /// `local` registers what peers ask for; its access bits must include the remote ones, and its
  /// max_region_bytes be at least ours. Both must outlive this object.
  template <control_channel Channel>
  remote_firehoses(Channel& channel, pool& local, const remote_settings& settings)
      : remote_firehoses(
            [](void* c, unsigned peer, std::span<const std::byte> bytes) {
              return static_cast<Channel*>(c)->send(peer, bytes);
            },
            &channel, local, settings) {}
  /// By then all leases must have been returned; the registrations of the owner's side end.
  ~remote_firehoses();

  /// The right to access [addr, addr+out.bytes()) of a peer, out.bytes() >= 1; destination:
  /// writing, source: reading only. As for the local pool, longer ranges take several leases.
  ///   ok            out holds it
  ///   pending       the peer was asked: make progress, call again
  ///   no_ticket     the share is leased out: complete transfers, call again
  ///   device_error  the peer cannot register it or cannot watch it: use active messages
  /// A hit takes no lock.
  status try_acquire(unsigned peer, std::uint64_t addr, std::size_t len, purpose use, lease& out) {
    if (table_.hit(peer + 1, addr, len, use, out)) [[likely]]
      return status::ok;
    return acquire_slow(peer, addr, len, use, out);
  }

  /// A message from a peer. False: it is malformed (nothing was done). Nothing in it is trusted.
  bool on_message(unsigned peer, std::span<const std::byte> bytes);

  /// Sends messages that could not be sent, revokes grants whose memory has changed, gives back
  /// regions that were revoked. A few loads when there is nothing to do.
  void progress();

  /// (R-a): true while a peer may hold a key to memory that has changed. Before sending anything to
  /// anyone, wait with progress() until it is false. Three loads.
  [[nodiscard]] bool must_settle() const noexcept {
    return local_.changes_pending() ||
           local_.changed_count() != changes_seen_.load(std::memory_order_acquire) ||  // <- C1
           revoking_.load(std::memory_order_acquire) != 0;                             // <- V2
  }

  /// Forgets a peer that has died: its grants end, and so do our regions there.
  void peer_gone(unsigned peer);

  [[nodiscard]] remote_statistics statistics() const;
  [[nodiscard]] const remote_share& share() const noexcept { return share_; }

 private:
  using send_function = status (*)(void* channel, unsigned peer, std::span<const std::byte> bytes);
  remote_firehoses(send_function send, void* channel, pool& local, const remote_settings& settings);

  struct message;
  struct parcel;
  struct grant {
    lease held;
    std::uint64_t bytes = 0;
    std::uint64_t id = 0;
    bool revoked = false;
  };
  struct peer_state {
    std::uint64_t held_bytes = 0;  // of ours, at the peer
    std::uint32_t held_regions = 0;
    std::uint32_t granted_regions = 0;  // of the peer's, here
    std::uint64_t granted_bytes = 0;
    bool gone = false;
  };

  status acquire_slow(unsigned peer, std::uint64_t addr, std::size_t len, purpose use, lease& out);
  // under lock_:
  std::uint32_t room_for(unsigned peer, std::uint64_t bytes, std::uint64_t& given_back);
  std::uint64_t drop(std::uint32_t i);
  void post(unsigned peer, const message& m);
  void on_answer(unsigned peer, const message& m);
  void on_revoke(unsigned peer, const message& m);
  void end_grant(unsigned peer, std::uint64_t id);
  void uncount(unsigned peer, std::uint64_t bytes);
  void give_back_dead();
  void revoke_changed();
  std::uint32_t mine(unsigned peer, std::uint64_t id) noexcept;
  // not under it:
  void on_ask(unsigned peer, const message& m);
  void flush();

  const send_function send_;
  void* const channel_;
  pool& local_;
  const remote_settings settings_;
  const remote_share share_;
  region_table table_;

  mutable std::mutex lock_;
  std::vector<peer_state> peers_;
  std::unordered_map<std::uint64_t, grant> grants_;  // by peer and id
  std::deque<parcel> outbox_;
  std::uint64_t serial_ = 0;
  remote_statistics stats_;
  std::uint32_t dead_ = 0;  // revoked regions that are still leased

  std::mutex flushing_;
  std::atomic<bool> work_{false};  // outbox_ or dead_ is not empty; a hint
  std::atomic<std::uint64_t> changes_seen_;
  std::atomic<std::uint32_t> revoking_{0};
};

}  // namespace penstock::firehose
