// How the channels of an engine come to be connected, and part again. No message needs this room,
// but one that finds its lane missing. connect.cpp exchanges the hellos; parting.cpp takes idle
// connections down; connector.hpp has the thread that does both.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <memory>
#include <vector>

#include "lib/base/result.hpp"
#include "lib/conduit/connecting/connector.hpp"
#include "lib/conduit/connecting/datagrams.hpp"
#include "lib/conduit/peer/core.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

struct hello;

class connections {
 public:
  explicit connections(core& c) noexcept;
  connections(const connections&) = delete;
  connections& operator=(const connections&) = delete;

  // Set-up and the end; one thread.
  /// Opens the port for hellos. A failure names what the device refused.
  result<void> open();
  /// The number of the port's queue pair, which others send hellos to. After open().
  [[nodiscard]] std::uint32_t port() const noexcept { return datagram_port_->number(); }
  /// Starts the connector's thread, after all peers have been introduced. parts: idle connections
  /// are taken down (MAX_CONNECTIONS).
  result<void> start(bool parts);
  /// Other ranks leave from here on, so failures are not reported any more. Any thread.
  void hush() noexcept {
    if (connector_ != nullptr) connector_->hush();
  }
  void stop() noexcept { connector_.reset(); }  ///< ends the thread and waits for it
  void close() noexcept;                        ///< destroys all queue pairs, and the port

  /// Asks for the lane to p; any thread may call it. connector::want() has the statuses.
  status connect(peer& p, unsigned lane) noexcept {
    return connector_ != nullptr ? connector_->want(p, lane) : status::shut_down;
  }
  /// p's lane of full-size messages will be wanted. Any thread.
  void foresee_bulk(peer& p) noexcept {
    if (connector_ != nullptr) connector_->foresee(p);
  }
  [[nodiscard]] static bool is_ready(const peer& p, unsigned lane) noexcept {
    // A2 ready  acquire p.ready  <- R2 (connect.cpp): the lane's queue pair and rings are there
    return (p.ready.load(std::memory_order_acquire) >> lane & 1) != 0;
  }
  /// For a thread that has entered the end of a lane that it found ready before: true if a poll has
  /// closed the lanes meanwhile. Such a poll is inside that end, too.
  [[nodiscard]] static bool closed_meanwhile(const peer& p, unsigned lane) noexcept {
    return concurrent(build_mode) && !is_ready(p, lane);
  }
  /// True if p's queue pairs may go at any moment: what they report says nothing of p. Any thread.
  [[nodiscard]] static bool lanes_closed(const peer& p) noexcept {
    return p.parting.load(std::memory_order_relaxed) != parting_state::none &&
           p.ready.load(std::memory_order_relaxed) == 0;
  }
  /// True if idle connections are taken down. After start().
  [[nodiscard]] bool parts() const noexcept { return parts_; }
  /// Any thread, inside no end of p: from here on p's queue pairs stay as they are until the end.
  /// To be called before they are shut.
  void stop_parting(peer& p) noexcept;
  /// A poll has looked whether a connection is idle: the connector goes on with the parting.
  void looked() noexcept { connector_->looked(); }
  /// Peers connected by queue pairs, and how many connections were made and taken down; any thread.
  struct counts {
    std::uint32_t now = 0;
    std::uint64_t made = 0, parted = 0;
  };
  [[nodiscard]] counts count() const noexcept {
    // relaxed: only the connector's thread and reports read them
    return {connections_.load(std::memory_order_relaxed),
            connections_made_.load(std::memory_order_relaxed),
            connections_parted_.load(std::memory_order_relaxed)};
  }

 private:
  friend class connector;  // its thread runs all that follows, and nobody else does

  // The lanes that are made when p is connected, or once they are foreseen, though no message has
  // asked for them yet.
  [[nodiscard]] std::uint8_t later_lanes(const peer& p, bool foreseen) const noexcept;
  void say_hello(connecting in, peer& p, bool want, bool please = false) noexcept;
  void hear_datagram(connecting in, const connector& by, const std::byte* bytes,
                     std::size_t size) noexcept;
  result<void> heard_hello(connecting in, peer& p, const hello& h) noexcept;
  result<void> make_lanes(connecting, peer& p, std::uint8_t wanted) noexcept;
  result<void> make_lane(peer& p, unsigned lane) noexcept;
  void unmake_lanes(peer& p) noexcept;
  result<void> bind_lane(peer& p, unsigned lane, std::uint32_t qpn, std::uint32_t psn) noexcept;
  result<void> connect_self(connecting in, peer& p) noexcept;

  // parting.cpp
  static void keep_for_wish(connecting in, peer& p) noexcept;
  void begin_parting(connecting in, peer& p) noexcept;
  void look_again(connecting, peer& p) noexcept;
  void see_to_parting(connecting in, peer& p) noexcept;
  void end_parting(connecting in, peer& p) noexcept;
  bool hear_parting(connecting in, peer& p, const hello& h) noexcept;
  void take_down(connecting in, peer& p) noexcept;
  [[nodiscard]] bool may_part(connecting in, const peer& p) const noexcept;
  [[nodiscard]] std::uint32_t ask_to_say(connecting in, const peer& p) const noexcept;
  [[nodiscard]] vote vote_on(connecting in, const peer& p) const noexcept;
  [[nodiscard]] bool leads_parting(const peer& p) const noexcept;

  core& core_;
  const std::uint64_t job_secret_;
  ibv_comp_channel* arrivals_ = nullptr;  // tells the connector of datagrams
  std::unique_ptr<datagrams> datagram_port_;
  std::unique_ptr<connector> connector_;
  std::atomic<std::uint32_t> connections_{0};
  std::atomic<std::uint64_t> connections_made_{0}, connections_parted_{0};
  bool parts_ = false;
  std::vector<peer*> parting_;  // peers with which a parting is under way
};

}  // namespace penstock::conduit::PENSTOCK_ABI
