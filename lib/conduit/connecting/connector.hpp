// The thread of an endpoint that makes its connections, so that no connection needs a poll: it
// takes no longer to connect to a process that computes, or polls rarely, than to any other. The
// engine owns it.
//
//   program's threads                      connector                         other processes
//   want(lane of a peer) -- wishes_, bell --> make lanes, hello -- UD queue pair --> connector
//   p.ready, p.stream  <-- R2, R3 ---------- bind lanes  <------- hello ------------ connector
//   polls: d.rings, d.verbs <-- R1 (domain.hpp)
//
// Who with whom: a peer's `side` is reached with the right `connecting`, which this thread alone
// has; the datagrams' queue pair is touched by it alone, too. What the thread makes becomes visible
// by the release stores above. Requests and polls acquire them anyway, so this thread costs them
// nothing. A wish costs two RMWs and a system call that wakes the thread.
//
// Besides, the thread looks at the rings to processes of the same host, once a second
// (ring_watch.cpp).
//
// Waits (claim 19): the thread sleeps in poll(2) until a datagram, a wish or the end comes; its
// bell ends every sleep. It repeats its hello to a peer that has not answered, at growing
// intervals, and waits for that peer without limit: the launcher and the device know whether the
// peer lives, and their news end the job in a poll (events.cpp). One warning is logged, after
// PENSTOCK_CONNECT_TIMEOUT. When a peer is stopped while its device answers a question, the thread
// is held for the device's time limit, and asks again when that peer speaks again.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "lib/base/build_mode.hpp"
#include "lib/base/result.hpp"
#include "lib/base/status.hpp"
#include "lib/conduit/peer/rights.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

class connections;
class core;
struct peer;

/// The right of the connector's thread, by which it reaches peer::side.
using connecting = inside<end_of::connecting>;

class connector {
 public:
  /// Starts the thread, after all peers have been introduced. channel: gets the events of arriving
  /// datagrams, and stays the caller's. A failure names what the kernel refused.
  static result<std::unique_ptr<connector>> start(connections& e, core& c,
                                                  ibv_comp_channel* channel);
  /// Ends the thread and waits for it.
  ~connector();
  connector(const connector&) = delete;
  connector& operator=(const connector&) = delete;

  /// Asks for the lane to p (where p is this process itself: for the lane of transfers). Any thread
  /// may call it; it does not wait. busy: the lane is there, and the caller tries its message
  /// again. not_ready: the lane is being made. device_error: it could not be made, which has been
  /// logged; the next call tries once more.
  status want(peer& p, unsigned lane) noexcept;
  /// Says that the lane of full-size messages to p will be wanted. If it cannot be made, nobody is
  /// told, and only want() asks for it again. Any thread.
  void foresee(peer& p) noexcept;
  /// A poll has looked whether a connection is idle: the thread is to go on with the parting.
  void looked() noexcept { ring(); }
  /// From this call on other ranks leave, and failures are not reported any more. Any thread.
  void hush() noexcept { hushed_.store(true, std::memory_order_relaxed); }
  [[nodiscard]] bool hushed() const noexcept { return hushed_.load(std::memory_order_relaxed); }

 private:
  connector(connections& e, core& c, ibv_comp_channel* channel) noexcept
      : all_(e), core_(c), channel_(channel) {}
  void run() noexcept;
  void sleep() noexcept;
  void arm() noexcept;
  bool hear_all(connecting in) noexcept;
  void grant_wishes(connecting in) noexcept;
  void wish(peer& p, std::uint8_t bits) noexcept;
  void ask(connecting in, peer& p, std::uint8_t lanes, bool foreseen = false) noexcept;
  void await(connecting in, peer& p, std::uint8_t lanes) noexcept;
  void ask_again(connecting in, peer& p) noexcept;
  void remind_peers(connecting in) noexcept;
  std::uint64_t see_to_partings(connecting in) noexcept;  // parting.cpp
  bool begin_partings(connecting in, std::uint32_t limit, std::uint64_t now) noexcept;
  std::uint64_t watch_rings(connecting in) noexcept;  // ring_watch.cpp
  void watch_rings_of(connecting in, peer& p) noexcept;
  void ring() noexcept;

  connections& all_;
  core& core_;
  ibv_comp_channel* channel_;
  int bell_ = -1;  // an eventfd, written when there is a wish, and at the end
  std::atomic<peer*> wishes_{nullptr};
  std::atomic<bool> stopping_{false}, hushed_{false};
  // The thread's own.
  thread_owner<end_of::connecting> thread_owner_;
  bool armed_ = false;
  bool more_ = false;            // datagrams were left for the next turn
  bool refused_ = false;         // the last queue pair was refused, and a line has said so
  std::vector<peer*> waiting_;   // peers whose answer is awaited
  std::uint64_t remind_ns_ = 0;  // when the next reminder is due; 0: none is
  std::uint64_t look_ns_ = 0;    // when rings are looked at next
  std::uint32_t connections_before_ = 0;
  std::uint64_t part_look_ns_ = 0, look_pause_ns_ = 0;  // when use is looked at next (parting.cpp)
  std::thread thread_;
};

}  // namespace penstock::conduit::PENSTOCK_ABI
