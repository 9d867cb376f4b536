// All channels of an engine, and how they come to be connected: the floor that both paths stand on.
// connect.cpp exchanges the hellos; connector.hpp has the thread that does so.
#pragma once

#include <infiniband/verbs.h>

#include <memory>
#include <vector>

#include "lib/base/result.hpp"
#include "lib/conduit/channel/connector.hpp"
#include "lib/conduit/channel/credit_flow.hpp"
#include "lib/conduit/channel/datagrams.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

struct hello;

/// Memory of a Long's payload that is sent without a copy.
struct long_source {
  std::size_t bytes = 0;  ///< bytes of the payload, from its start, that this key covers
  std::uint32_t lkey = 0;
  std::uint16_t held = queues::no_source;  ///< to be released when its last write has completed
};

/// The keys of memory outside the segment, which the one-sided floor knows. Any thread may call
/// both functions, also in a handler; neither waits.
class long_sources {
 public:
  /// Finds a key for memory that begins at `at`. False: there is none now, and the caller copies.
  virtual bool hold_source(const void* at, std::size_t bytes, long_source& out) noexcept = 0;
  virtual void release_source(std::uint16_t held) noexcept = 0;

 protected:
  ~long_sources() = default;
};

class channels : public credit_flow {
 protected:
  template <way>
  friend class path_by;
  friend class connector;
  friend class transfers;
  friend class everywhere;
  friend struct test_access;
  using credit_flow::credit_flow;

  // Asks for the lane to p; any thread may call it. connector::want() has the statuses.
  status connect(peer& p, unsigned lane) noexcept {
    return connector_ != nullptr ? connector_->want(p, lane) : status::shut_down;
  }
  [[nodiscard]] static bool is_ready(const peer& p, unsigned lane) noexcept {
    // A2 ready  acquire p.ready  <- R2 (connect.cpp): the lane's queue pair and rings are there
    return (p.ready.load(std::memory_order_acquire) >> lane & 1) != 0;
  }
  void foresee_bulk(peer& p) noexcept {
    if (connector_ != nullptr) connector_->foresee(p);
  }
  // The lanes that are made when p is connected, or once they are foreseen, though no message has
  // asked for them yet. By queue pairs a start loan by which a Medium of full size goes at once
  // would else meet no lane for it; where loans are smaller, such a Medium is offered. And the
  // device has enough queue pairs even if all processes of the host have all lanes to all ranks.
  [[nodiscard]] std::uint8_t later_lanes(const peer& p, bool foreseen) const noexcept {
    const credit::config& c = credit_config_;
    const std::uint32_t left = c.start_may_grow() ? credit::offer_reserve : 0;
    const bool plenty = std::uint64_t{size_} * lane_count * job_.host_size() <=
                        static_cast<std::uint64_t>(device_.limits.max_qp);
    const bool bulk =
        plenty && (foreseen || !c.flow_control || c.credits_per_peer >= c.highest_cost + left);
    return bulk && p.posts() ? 1u << lane_bulk : 0;
  }
  // The sizes of each domain's queues in a job of that many ranks whose devices have room for so
  // many credits. bell: there is a progress thread.
  [[nodiscard]] queues::dimensions queue_dimensions(std::uint32_t ranks, bool bell,
                                                    credit::room room) const;
  // The room that this process's device has for credits: unlimited where the user has set them, or
  // where the queues of the table's credits fit. Fails if not even the least number fits.
  [[nodiscard]] result<credit::room> queue_room(std::uint32_t ranks, bool bell) const;

  void say_hello(peer& p, bool want, bool please = false) noexcept;
  void hear_datagram(const connector& by, const std::byte* bytes, std::size_t size) noexcept;
  result<void> heard_hello(peer& p, const hello& h) noexcept;
  result<void> make_lanes(peer& p, std::uint8_t wanted) noexcept;
  result<void> make_lane(peer& p, unsigned lane) noexcept;
  void unmake_lanes(peer& p) noexcept;
  result<void> bind_lane(peer& p, unsigned lane, std::uint32_t qpn, std::uint32_t psn) noexcept;
  result<void> connect_self(peer& p) noexcept;

  // parting.cpp. The connector's thread runs all of it but what says otherwise.
  void begin_parting(peer& p) noexcept;
  void look_again(peer& p) noexcept;
  void see_to_parting(peer& p) noexcept;
  void end_parting(peer& p) noexcept;
  // Any thread, inside no end of p: from here on p's queue pairs stay as they are until the end. To
  // be called before they are shut.
  void stop_parting(peer& p) noexcept;
  bool hear_parting(peer& p, const hello& h) noexcept;
  void take_down(peer& p) noexcept;
  [[nodiscard]] bool may_part(const peer& p) const noexcept;
  [[nodiscard]] std::uint32_t ask_to_say(const peer& p) const noexcept;
  [[nodiscard]] vote vote_on(const peer& p) const noexcept;
  [[nodiscard]] bool leads_parting(const peer& p) const noexcept { return rank_ < p.rank; }
  // For a thread that has entered the end of a lane that it found ready before: true if a poll has
  // closed the lanes meanwhile. Such a poll is inside that end, too.
  [[nodiscard]] static bool closed_meanwhile(const peer& p, unsigned lane) noexcept {
    return concurrent(build_mode) && !is_ready(p, lane);
  }
  // True if p's queue pairs may go at any moment: what they report says nothing of p. Any thread.
  [[nodiscard]] static bool lanes_closed(const peer& p) noexcept {
    return p.parting.load(std::memory_order_relaxed) != parting_state::none &&
           p.ready.load(std::memory_order_relaxed) == 0;
  }

  // p's path answers these. describe_lane() fills in what a lane's queue pair is like. The others
  // are told what has become of p: lane_made() when a lane was made; attached(), once, when both
  // basic lanes are bound, so that messages may arrive; reached() when messages may be sent to p.
  virtual void describe_lane(peer& p, unsigned lane, ibv_qp_init_attr& init) noexcept = 0;
  virtual void lane_made(peer& p, unsigned lane) noexcept = 0;
  virtual void attached(peer& p) noexcept = 0;
  virtual result<void> reached(peer& p) noexcept = 0;

  std::uint64_t job_secret_ = 0;
  std::unique_ptr<datagrams> datagram_port_;
  std::unique_ptr<connector> connector_;
  // Peers connected by queue pairs, and how many connections have been made and taken down.
  // Written by the connector's thread.
  std::atomic<std::uint32_t> connections_{0};
  std::atomic<std::uint64_t> connections_made_{0}, connections_parted_{0};
  bool parts_ = false;          // the setting MAX_CONNECTIONS is heeded
  std::vector<peer*> parting_;  // (connector) peers with which a parting is under way
  long_sources* sources_ = nullptr;
};

}  // namespace penstock::conduit::PENSTOCK_ABI
