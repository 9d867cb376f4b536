// What the engine keeps for each other process, in each domain: the queues to it and from it. Only
// the engine uses it.
//
// A peer begins (core::begin) when the first message to it or from it is under way. Before, all its
// bytes are zero, it takes no memory, and what is known of its rank stands in the rank table. So
// the defaults below are all zero, and no constructor runs. Whoever has a peer from a connection or
// an order of peers has one that has begun; others ask core::begun().
//
// Each queue end has an owner (lib/base/owner.hpp). A field that is touched inside one owner only
// is guarded by it (rights.hpp). Where paths differ in that, the owner's name stands in
// parentheses.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <memory>

#include "lib/base/build_mode.hpp"
#include "lib/base/event_counter.hpp"
#include "lib/base/hand_over.hpp"
#include "lib/base/relief.hpp"
#include "lib/base/thread_index.hpp"
#include "lib/conduit/message/handed_over.hpp"
#include "lib/conduit/message/left_answer.hpp"
#include "lib/conduit/message/wire.hpp"
#include "lib/conduit/peer/credit_places.hpp"
#include "lib/conduit/peer/parting_state.hpp"
#include "lib/conduit/peer/peer_counts.hpp"
#include "lib/conduit/peer/placed_messages.hpp"
#include "lib/conduit/peer/request_marks.hpp"
#include "lib/conduit/peer/rights.hpp"
#include "lib/conduit/peer/transfer_queue.hpp"
#include "lib/conduit/peer/way.hpp"
#include "nic/device.hpp"
#include "nic/shm/ring.hpp"
#include "queues/queues.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

/// By rings, each thread's place inside the end whose message's handler it runs; by the thread's
/// tag. Where only one thread makes calls there is nobody else.
struct alignas(cache_line) thread_place : relief<build_mode> {};
extern thread_place places[concurrent(build_mode) ? max_threads + 1 : 2];

/// The queue pairs between two processes. Each is connected when it is first needed, or foreseen.
enum lane_index : unsigned {
  lane_request = 0,  ///< requests of up to 256 bytes, and placed ones; receives from the small SRQ
  lane_reply = 1,    ///< replies and system messages
  lane_bulk = 2,     ///< larger requests that are not placed; receives from the full-size SRQ
  lane_rma = 3,      ///< puts, gets and atomics; receives nothing
  lane_count = 4,
};
/// A queue pair's identity in its completions: peer and lane.
constexpr std::uint32_t identity(std::uint32_t rank, unsigned lane) noexcept {
  return rank << 2 | lane;
}
constexpr std::uint32_t rank_of(std::uint32_t identity) noexcept { return identity >> 2; }
constexpr unsigned lane_of(std::uint32_t identity) noexcept { return identity & 3; }
static_assert(lane_count == 4);

/// Most chunks that one message of credits frees.
inline constexpr unsigned max_unanswered = 64;
inline constexpr std::uint8_t all_lanes = (1u << lane_count) - 1;
/// The lanes without which there is no connection.
inline constexpr std::uint8_t basic_lanes = 1u << lane_request | 1u << lane_reply;
/// Further bits in peer::wanted: the lane of full-size messages is foreseen (connector::foresee);
/// the peer is in the list of wishes.
inline constexpr std::uint8_t lane_foreseen = 0x40, in_wishes = 0x80;
static_assert((all_lanes & (lane_foreseen | in_wishes)) == 0);

struct domain;

/// The address of a peer that has not begun.
inline constexpr nic::address no_address{
    .gid = {}, .lid = 0, .port = 0, .gid_index = 0, .is_global = 0, .mtu = 0};

/// A channel: the queues and credits of a domain towards one other process.
struct alignas(cache_line) peer {
  /// What follows from p's way (way.hpp). After p has begun.
  [[nodiscard]] bool maps() const noexcept { return facts_of(path).maps_memory; }
  [[nodiscard]] bool rings() const noexcept { return facts_of(path).has_rings; }
  [[nodiscard]] bool posts() const noexcept { return facts_of(path).posts_messages; }
  /// The end that takes messages, of requests or of replies.
  [[nodiscard]] queue_owner& end_in(bool requests) noexcept {
    if (requests) return request_in;
    return reply_in;
  }

  // The rings of the request and reply lanes; null by verbs. stream is request_tx once the peer is
  // ready, and null before.
  std::atomic<nic::shm::ring_tx*> stream{nullptr};
  shown<end_of::request_out, nic::shm::ring_tx*> request_tx;
  shown<end_of::request_in, nic::shm::ring_tx*> reply_tx;
  guarded<end_of::request_in, nic::shm::ring_tx*>
      plain_tx;  // reply_tx; null: replies carry more news
  shown<end_of::request_in, nic::shm::ring_rx*> request_rx;
  shown<end_of::reply_in, nic::shm::ring_rx*> reply_rx;
  std::atomic<std::uint8_t> ready{0};  // lanes on which messages may be sent, a bit each
  way path{};                          // how messages travel; set when it begins
  guarded<end_of::request_in, std::uint16_t> idle;  // polls without a request while owed > 0
  bool wakes = false;              // by rings: a thread of the peer sleeps until it is woken
  std::atomic<bool> begun{false};  // rank, home, path, and all that the rank table says, are there
  std::uint32_t rank = 0;
  domain* home = nullptr;
  // Polls do not look for requests before this time, in ticks; 0: they do.
  std::atomic<std::uint64_t> back_off_until{0};
  credit_places credits;

  alignas(cache_line) end_owner<end_of::request_out> request_out;
  end_owner<end_of::reply_out> reply_out;
  end_owner<end_of::request_in> request_in;
  end_owner<end_of::reply_in> reply_in;

  guarded<end_of::request_in, std::uint32_t>
      reply_room;  // replies for which reply_tx surely has room
  guarded<end_of::request_in, std::uint64_t>
      sent_before;  // requests to it, when its own were last taken
  guarded<end_of::request_in, std::uint32_t> streak;  // requests from it since one was sent to it

  guarded<end_of::request_out, request_marks> marks;  // how many requests are unanswered
  // By rings: the credits that the request ring is for, and the position in it an epoch ago.
  guarded<end_of::request_out, std::uint32_t> ring_credits;
  guarded<end_of::request_out, std::uint64_t> request_seen;
  guarded<end_of::request_in, std::uint64_t> reply_seen;  // the same of the reply ring

  event_counter requests_sent;     // (request_out)
  event_counter requests_handled;  // (request_in) by rings
  event_counter replies_handled;   // (reply_in) by rings
  event_counter credit_messages;   // (reply_out)
  std::atomic<std::uint64_t> credit_stalls{0};
  std::atomic<std::uint64_t> deferred[wire::system_ops] = {};  // system messages that found no room
  std::atomic<bool> lowered{
      false};  // (request_out to clear) it lends the minimum, see meetings.hpp
  std::atomic<std::uint16_t> expected{0};  // credits of a hint for which no WANT has asked yet
  std::atomic<const char*> lost{nullptr};  // how contact to it was lost, until that is judged
  // By queue pairs: the device has said that the reply lane takes no more. relaxed: a shut() that
  // sees it late is called again, since who finds no chunk loses contact to the peer anew.
  std::atomic<bool> cut{false};
  std::atomic<bool> ended{false};  // by queue pairs: it has left, and no answer comes any more

  handed_over handed;  // requests that found request_out held (PAR)
  // By queue pairs (PAR): answers that found reply_out held; requests without an answer that found
  // request_in held, or no place in `unanswered`; and whether owed credits found reply_out held, or
  // no chunk (in every mode).
  hand_over<left_answer> answers;
  hand_over<left_end> ends;
  std::atomic<bool> credits_put_off{false};
  // By rings (PAR): what is yet to be noted of messages whose handlers were relieved of their end,
  // beside `answers`; the messages themselves; and how many replies to them may come.
  hand_over<relieved_end> relieved;
  guarded<end_of::request_in, std::unique_ptr<nic::shm::kept_messages>> kept_requests;
  guarded<end_of::reply_in, std::unique_ptr<nic::shm::kept_messages>> kept_replies;
  // Written inside request_in; relaxed: others read it as a hint.
  std::atomic<std::uint32_t> replies_kept{0};

  peer_counts counts;  // of messages, by kind

  // The queue pairs; by rings they carry nothing but hold the rings.
  queues::lane lanes[lane_count];
  struct unanswered_chunks {
    std::uint16_t chunk[max_unanswered] = {}, count = 0;
  };
  guarded<end_of::request_in, unanswered_chunks> unanswered;  // of requests without reply

  end_owner<end_of::transfer_out> transfer_out;
  std::unique_ptr<transfer_queue> transfers;  // of lane_rma

  // Set-up and connection.
  peer* next_begun = nullptr;  // the one that began before it (core::begun_peers)
  nic::address address = no_address;
  nic::address near_address = no_address;  ///< on the near device, if there is one
  std::uint32_t datagram_qp = 0;
  std::byte* segment_base = nullptr;  ///< in the peer's own address space
  // Both change as the segment grows (segment_growth::learn). relaxed: threads that use memory of
  // the old part may see the old values or the new ones; the new part is used after all have
  // learned.
  std::atomic<std::size_t> segment_bytes{0};
  std::atomic<std::uint32_t> segment_rkey{0};
  std::size_t segment_mapped = 0;  ///< bytes of it that are or would be mapped: it may grow
  std::uint32_t map_rkey = 0;      ///< the key by which it is mapped
  std::uint8_t reads = 0;          ///< reads and atomics that the peer takes at a time
  std::atomic<std::byte*> segment_here{nullptr};  ///< where the peer's segment is mapped, or null
  // By rings, once they are mapped: where the peer's buffers of Mediums by rendezvous are mapped
  // here, and where they lie in the peer's own address space.
  std::atomic<std::byte*> large_here{nullptr};
  std::atomic<std::uint64_t> large_base{0};
  // By queue pairs; null where no messages are placed. It stays when the queue pairs go.
  std::unique_ptr<placed_messages> placed;
  std::uint64_t buffers_base = 0;  ///< its chunks for replies, or pool, as in its hello
  std::uint32_t buffers_rkey = 0;

  // Between the connector's thread (connector.hpp) and others; `side` is that thread's alone.
  std::atomic<std::uint8_t> made{0};    // lanes whose QP exists here
  std::atomic<std::uint8_t> wanted{0};  // lanes asked for; lane_foreseen, in_wishes
  std::atomic<bool> refused{false};     // a lane could not be made; the next want() says so
  peer* next_wish = nullptr;            // of the thread that queues it, then of the connector
  // With a limit on connections (parting.hpp).
  std::atomic<parting_state> parting{parting_state::none};
  std::uint64_t flushed[lane_rma]{};  // (in a poll that looks) last work requests that it posted
  struct connecting_side {
    std::uint8_t bound = 0;            ///< lanes brought to RTS
    std::uint8_t awaited = 0;          ///< lanes for which it waits
    std::uint8_t needed = 0;           ///< lanes that messages have asked for
    std::uint8_t refused_looks = 0;    ///< looks in a row that found new refusals
    bool attached = false;             ///< it is in the domain's order
    bool warned = false;               ///< that it does not answer
    bool mended = false;               ///< a counter of its rings has been put right
    bool connected = false;            ///< it counts as a connection
    std::uint32_t refused_before = 0;  ///< refusals, at the last look
    std::uint64_t since_ns = 0;        ///< when the connector began to wait for it
    std::uint64_t hello_at_ns = 0;     ///< when the last hello went out
    std::uint64_t reminder_ns = 0;     ///< how long until the next one
    // With a limit on connections (parting.hpp).
    std::uint32_t generation = 0;                    ///< of the queue pairs
    std::uint32_t ask = 0;                           ///< odd: an ask of the lower rank is under way
    std::uint64_t used = 0;                          ///< work requests to it, at the last look
    std::uint64_t used_ns = 0;                       ///< the look at which that last changed
    std::uint64_t spared_until_ns = 0;               ///< it is not asked before this time
    std::uint64_t wish_used = 0, wish_until_ns = 0;  ///< as `used`, when a wish for it came true
    std::uint64_t leader_told_until_ns = 0;  ///< the lower rank was told of the wish to part
    std::uint64_t part_until_ns = 0;         ///< an ask is given up at this time
    std::uint64_t part_said_ns = 0;          ///< when it was last said
    std::uint8_t ready_before = 0;           ///< lanes that were ready when it was asked
  };
  guarded<end_of::connecting, connecting_side> side;
};

/// Peers that have begun, the last one first. Any thread may go through them while others begin.
class begun_peers {
 public:
  class iterator {
   public:
    explicit iterator(peer* at) noexcept : at_(at) {}
    peer& operator*() const noexcept { return *at_; }
    iterator& operator++() noexcept {
      at_ = at_->next_begun;
      return *this;
    }
    bool operator!=(const iterator& o) const noexcept { return at_ != o.at_; }

   private:
    peer* at_;
  };
  explicit begun_peers(peer* last) noexcept : last_(last) {}
  [[nodiscard]] iterator begin() const noexcept { return iterator(last_); }
  [[nodiscard]] iterator end() const noexcept { return iterator(nullptr); }

 private:
  peer* last_;
};

/// The number of requests that were sent to p, of every kind. Any thread.
inline std::uint64_t requests_put(const peer& p) noexcept {
  // A2 ready  acquire p.ready  <- R2 (connect.cpp): the rings are there
  const bool rings =
      p.rings() && (p.ready.load(std::memory_order_acquire) >> lane_request & 1) != 0;
  return p.requests_sent.read() + (rings ? p.request_tx.seen()->pushed() : 0);
}

}  // namespace penstock::conduit::PENSTOCK_ABI
