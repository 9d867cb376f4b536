// The thread of an endpoint that makes its connections, so that nobody's poll is needed for one:
// a process that computes, or polls rarely, is connected to as quickly as any other. The engine's.
//
//   program's threads                      connector                         other processes
//   want(lane of a peer) -- wishes_, bell --> make lanes, hello -- UD queue pair --> connector
//   p.ready, p.stream  <-- R2, R3 ---------- bind lanes  <------- hello ------------ connector
//   polls: d.connected <-- R1 --------------
//
// Who with whom: everything of a peer that is marked (connector) is touched by this thread only,
// and so is the datagrams' queue pair. What it makes becomes visible by the three release stores
// above, which requests and polls acquire as they always did: they pay nothing for this thread.
// Cost of a wish: one RMW, and a system call that wakes the thread.
//
// Beside that it looks at the rings of the direct path, once a second (ring_watch.cpp).
//
// Waits (claim 19): it sleeps in poll(2) until a datagram, a wish or the end comes; the way out of
// every sleep is its bell. A peer that has not answered is told again, at growing intervals, and
// waited for without limit: whether it lives is the launcher's and the device's knowledge, whose
// news end the job in a poll (events.cpp). It is warned of once, after PENSTOCK_CONNECT_TIMEOUT. A
// question to the device of a peer that was stopped in the middle of its answer holds the thread
// for the device's time limit, and is put again when that peer speaks again.
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

namespace penstock::conduit::PENSTOCK_ABI {

class channels;
struct peer;

class connector {
 public:
  /// Starts the thread; all peers have been introduced. channel: of the datagrams' arrivals, the
  /// caller's. Names what the kernel refused.
  static result<std::unique_ptr<connector>> start(channels& e, ibv_comp_channel* channel);
  /// Ends the thread and waits for it.
  ~connector();
  connector(const connector&) = delete;
  connector& operator=(const connector&) = delete;

  /// The lane to p is wanted (to this process itself: the one for transfers). Any thread; waits for
  /// nothing. busy: it is there, look again. not_ready: it is being made. device_error: it could
  /// not be made, which has been logged; asking again tries again.
  status want(peer& p, unsigned lane) noexcept;
  /// From here on others leave, and what fails for that is no news. Any thread.
  void hush() noexcept { hushed_.store(true, std::memory_order_relaxed); }
  [[nodiscard]] bool hushed() const noexcept { return hushed_.load(std::memory_order_relaxed); }

 private:
  connector(channels& e, ibv_comp_channel* channel) noexcept : all_(e), channel_(channel) {}
  void run() noexcept;
  void sleep() noexcept;
  void arm() noexcept;
  bool hear_all() noexcept;
  void grant_wishes() noexcept;
  void ask(peer& p, std::uint8_t lanes) noexcept;
  void remind_peers() noexcept;
  std::uint64_t watch_rings() noexcept;  // ring_watch.cpp
  void watch_rings_of(peer& p) noexcept;
  void ring() noexcept;

  channels& all_;
  ibv_comp_channel* channel_;
  int bell_ = -1;  // an eventfd: there are wishes, or the end
  std::atomic<peer*> wishes_{nullptr};
  std::atomic<bool> stopping_{false}, hushed_{false};
  // The thread's own.
  bool armed_ = false;
  bool more_ = false;            // datagrams were left for the next turn
  std::vector<peer*> waiting_;   // peers whose answer is awaited
  std::uint64_t remind_ns_ = 0;  // when the next of them is told again; 0: none
  std::uint64_t look_ns_ = 0;    // when rings are looked at next
  std::thread thread_;
};

}  // namespace penstock::conduit::PENSTOCK_ABI
