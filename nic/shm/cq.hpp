// Completion queues and completion channels.
//
// A receive's completion is made when a thread looks at the rings of the queue's QPs. That is
// either ibv_poll_cq, which hands it straight out, or the pusher thread on behalf of a sleeping
// program, which stores it. A send's completion, a flush and a datagram are always stored first.
// The thread that looks at the rings holds `poll`, so that a QP's receives stay in order; stored
// completions are handed out before new ones.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <bit>
#include <cstdint>
#include <vector>

#include "lib/base/raised_flag.hpp"
#include "lib/base/use_count.hpp"
#include "nic/shm/event_queue.hpp"
#include "nic/shm/layout.hpp"
#include "nic/shm/lock.hpp"
#include "nic/shm/untouched.hpp"

namespace penstock::nic::shm {

struct context;
struct queue_pair;
struct shared_receive_queue;
struct xrc_domain;

struct completion_queue;

using channel_events = event_queue<completion_queue*>;

/// A channel made by this device. The channels of the provider are libibverbs's own; their events
/// are kept apart.
struct completion_channel : ibv_comp_channel {
  channel_events events;
};

/// A stored completion; handing it out frees the send queue's slots up to `frees`.
struct completion {
  ibv_wc wc{};
  queue_pair* qp = nullptr;
  std::uint64_t frees = 0;  ///< 0 for a receive
  bool datagram = false;
};

struct completion_queue : ibv_cq {
  std::byte peeked[sizeof(ibv_cq_ex) - sizeof(ibv_cq)];  ///< zero: programs peek past ibv_cq
  shm::context* owner;
  cq_entry* bell;          ///< in our arena; peers ring it
  channel_events* events;  ///< of its channel, or null
  bool counts_channel;     ///< its reference in channel->refcnt is counted here, not by libibverbs
  std::uint32_t index;

  // The extended interface (nic/provider): from start_poll to end_poll one thread holds `session`,
  // and `current` is the completion that it reads.
  spin_lock session;
  ibv_wc current;
  bool one_poller;  ///< the program promises that only one thread polls: `session` is not taken

  spin_lock poll;
  std::vector<queue_pair*> rings;    // under poll: RC QPs that receive here: they have rings
  std::vector<queue_pair*> members;  // under poll: every QP that sends or receives here
  std::uint32_t turn = 0;            // under poll: which come first, the hot rings or the window
  std::uint32_t cursor = 0;          // under poll: where the rotating window starts
  std::vector<queue_pair*> hot;      // under poll: QPs that delivered lately, newest first
  std::vector<xrc_domain*> domains;  // under poll: their receives complete here (xrc.hpp)
  std::vector<shared_receive_queue*> selectable;  // under poll: SRQs, if it is a domain's own

  std::atomic<std::uint32_t> datagram_qps{0};  ///< UD QPs that receive here
  std::atomic<std::uint32_t> unfinished{0};    ///< QPs sending here that have work waiting
  raised_flag attention;                ///< a QP has entered the error state and must be flushed
  std::atomic<bool> polled{false};      ///< the program has polled: the pusher need not help
  std::atomic<std::uint32_t> armed{0};  ///< 0: no, 1: for solicited completions, 2: for any

  spin_lock queue_lock;
  untouched_vector<completion> queue;    // under queue_lock: a ring of `cqe` places, or more
  std::uint64_t head = 0;                // under queue_lock
  std::atomic<std::uint32_t> stored{0};  ///< completions in `queue`; written under queue_lock
  bool overrun = false;                  // under queue_lock
  use_count users;                       ///< QPs that complete here
  std::uint32_t events_delivered = 0;    // under the mutex of ibv_cq
  std::atomic<std::uint32_t> async_delivered{0};  ///< events handed out; see destroy
};

/// How many places `cqe` completions get: a power of two, so that a place is found without a
/// division.
inline std::size_t places_for(int cqe) noexcept {
  return std::bit_ceil(static_cast<std::size_t>(cqe));
}

inline completion_queue& of(ibv_cq* c) noexcept { return *static_cast<completion_queue*>(c); }

/// Stores a completion and wakes the sleeping program if it waits for this one. When the queue is
/// full it overruns: IBV_EVENT_CQ_ERR is raised once, and the QP whose completion is lost goes to
/// the error state.
void store(completion_queue& cq, const completion& c, bool solicited) noexcept;
/// One event per arming: the thread that finds the queue armed disarms it. Under queue_lock.
void wake(completion_queue& cq, bool solicited) noexcept;
inline bool full(const completion_queue& cq) noexcept {
  return cq.stored.load(std::memory_order_relaxed) >= static_cast<std::uint32_t>(cq.cqe);
}
/// Does the wake-up of store() for a completion that is handed straight out.
void announce(completion_queue& cq, bool solicited) noexcept;
/// Flushes QPs that broke, and continues waiting sends as far as possible. True if any moved.
bool attend(completion_queue& cq) noexcept;
/// Moves what waits in the rings into the queue, finishes flushes and sends. True if anything
/// moved.
bool absorb(completion_queue& cq) noexcept;
/// absorb() for a sleeping program whose bell was rung: repeats until nothing is left or the
/// program has been woken.
void answer_bell(completion_queue& cq) noexcept;
/// Takes completions of a QP out of the queue (it is reset or destroyed).
void purge(completion_queue& cq, const queue_pair& qp) noexcept;

int poll_cq(ibv_cq*, int n, ibv_wc* wc) noexcept;
int req_notify_cq(ibv_cq*, int solicited_only) noexcept;
ibv_comp_channel* create_comp_channel(ibv_context*);
int destroy_comp_channel(ibv_comp_channel*) noexcept;
ibv_cq* create_cq(ibv_context*, int cqe, void* cq_context, ibv_comp_channel*, int vector);
int destroy_cq(ibv_cq*) noexcept;
/// Gives the queue room for `cqe` completions, stored ones included. 0, EINVAL, ENOMEM, or
/// EOPNOTSUPP by personality.
int resize_cq(ibv_cq*, int cqe);
/// create_cq() with the channel's events where the channel is libibverbs's.
ibv_cq* make_cq(ibv_context*, int cqe, void* cq_context, ibv_comp_channel*, channel_events* events,
                int vector);
/// Takes the next event of a channel and counts it as delivered. 0, or -1 with errno.
int next_event(channel_events& events, completion_queue** cq) noexcept;
int get_cq_event(ibv_comp_channel*, ibv_cq**, void** cq_context) noexcept;
void ack_cq_events(ibv_cq*, unsigned n) noexcept;

}  // namespace penstock::nic::shm
