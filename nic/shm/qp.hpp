// Queue pairs: state, the sending side (under `sending`) and the receiving side (under the receive
// CQ's `poll`). Attributes change only in modify_qp, under `control`.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "nic/shm/cq.hpp"
#include "nic/shm/limits.hpp"
#include "nic/shm/lock.hpp"
#include "nic/shm/peer.hpp"
#include "nic/shm/receive_queue.hpp"
#include "nic/shm/ring.hpp"
#include "nic/shm/send_queue.hpp"

namespace penstock::nic::shm {

struct context;
struct shared_receive_queue;

/// What the sending side knows of the peer's QP.
struct link {
  qp_entry* remote = nullptr;
  std::uint32_t ready = 0;  ///< remote->life while the connection lives; 0: not established
  srq_entry* srq = nullptr;
  cq_entry* bell = nullptr;
  std::uint64_t posted = 0, claimed = 0;  ///< receives of the peer's own queue
  std::uint32_t rest = 0;                 ///< attempts until the peer's count is read again
  std::uint64_t srq_claims = 0;
  std::uint32_t floor = 0;  ///< a message of that size fits every receive posted so far
};

/// A message that is being put together from its pieces.
struct assembly {
  bool active = false;
  receive_work work;
  ibv_sge list[max_sges];
  std::uint32_t bytes = 0, offset = 0;
};

struct queue_pair : ibv_qp {
  // The rest of an ibv_qp_ex, zero unless the QP was created with ibv_wr_*, and what libibverbs
  // keeps behind it (abi34.hpp in nic/provider).
  std::byte peeked[sizeof(ibv_qp_ex) - sizeof(ibv_qp)];
  std::uint32_t exposed_mask = 0;
  void* exposed_xrcd = nullptr;
  std::shared_ptr<void> collected;  ///< requests between ibv_wr_start and ibv_wr_complete
  shm::context* owner = nullptr;
  std::uint32_t index = 0, generation = 0;
  qp_entry* shown = nullptr;  ///< our entry in our arena
  std::atomic<ibv_qp_state> now{IBV_QPS_RESET};
  std::uint32_t pd_number = 0;
  std::atomic<std::uint32_t> async_delivered{0};  ///< events handed out; see destroy

  // Whom we are connected to, for those who may not take `sending`; 0 when to nobody.
  std::atomic<std::uint32_t> dest{0};
  std::atomic<std::uint64_t> dest_high{0}, dest_low{0}, peer_id{0};

  std::mutex control;
  ibv_qp_attr attr{};       // under control
  ibv_qp_init_attr init{};  // fixed
  bool signal_all = false;

  // Sending.
  alignas(cache_line) spin_lock sending;
  send_queue works;
  ring_tx tx;
  link to;
  std::shared_ptr<peer> remote;         // set in RTR, dropped in RESET
  std::atomic<bool> unfinished{false};  ///< works holds some
  std::uint64_t transport_ns = 0;       ///< how long an unreachable peer is tried; 0: for ever
  std::uint32_t rnr_retry = 0;
  std::uint32_t near_key = 0, near_epoch = 0;  ///< rkey of the mapping used last, and its epoch
  std::shared_ptr<peer::mapping> near;         ///< null: it cannot be mapped
  std::vector<std::shared_ptr<peer::mapping>> kept;  ///< what map_remote gave out
  /// What the oldest request ends with once the QP is broken from outside; then the rest is
  /// flushed.
  std::atomic<ibv_wc_status> verdict{IBV_WC_WR_FLUSH_ERR};
  bool tell_drained = false;  ///< IBV_EVENT_SQ_DRAINED is owed

  // Receiving.
  alignas(cache_line) ring_rx rx;
  receive_queue receives;
  assembly message;
  shared_receive_queue* shared_receives = nullptr;
  shared_receive_queue* selected = nullptr;  ///< of XRC_RECV: whom the current message is for
  xrc_domain* domain = nullptr;              ///< of XRC_RECV
  std::uint64_t ring = 0;                    ///< offset of our receive ring
  std::uint64_t srq_taken = 0;
  bool closed = false;    ///< broken, and what had arrived was delivered: the ring is dead
  bool last_wqe = false;  ///< LAST_WQE_REACHED was raised
  std::atomic<bool> direct{false};  ///< the user pops the ring himself
  std::atomic<std::uint32_t> qkey{0};
};

inline queue_pair& of(ibv_qp* q) noexcept { return *static_cast<queue_pair*>(q); }

/// RC and UC: a ring of its own, one peer.
inline bool connected(const queue_pair& q) noexcept { return q.qp_type != IBV_QPT_UD; }
/// RC and the sending side of XRC: requests that the peer answers.
inline bool answered(const queue_pair& q) noexcept {
  return q.qp_type == IBV_QPT_RC || q.qp_type == IBV_QPT_XRC_SEND;
}
inline bool xrc_receiver(const queue_pair& q) noexcept { return q.qp_type == IBV_QPT_XRC_RECV; }
/// UC: nobody answers its requests, so whatever goes wrong at the peer is a lost message.
inline bool unanswered(const queue_pair& q) noexcept { return q.qp_type == IBV_QPT_UC; }

inline ibv_qp_state state_of(const queue_pair& q) noexcept {
  return q.now.load(std::memory_order_acquire);
}

inline std::uint32_t peer_qpn(const queue_pair& q) noexcept {
  return q.dest.load(std::memory_order_relaxed);
}

/// Breaks a QP from any thread, whatever it holds: states are set and published; the queues are
/// flushed by whoever polls the CQs next, or by the pusher thread. nak: what the peer's oldest
/// request ends with (IBV_WC_SUCCESS: nothing, it finds out by its timer).
void enter_error(queue_pair& qp, ibv_wc_status nak = IBV_WC_SUCCESS) noexcept;
/// A request failed: RC breaks, UC and UD stop sending (SQE).
void fail_sends(queue_pair& qp) noexcept;
void raise_qp(queue_pair& qp, ibv_event_type type) noexcept;

// qp.cpp, link.cpp
/// Gives the QP a fresh receive ring. 0 or an errno.
int new_ring(queue_pair& qp) noexcept;
/// Removes what a former life left in the entry.
void clear_entry(qp_entry& e) noexcept;
/// Tells the peer which of its messages were taken, before publish_life(none): a sender that finds
/// this QP gone learns that the message it has just pushed was delivered all the same.
void say_taken(queue_pair& qp) noexcept;
/// Shows peers how far the QP is.
void publish_life(queue_pair& qp, qp_public s) noexcept;
/// Finds the peer's QP and its ring; under `sending`. False: it is not ready for us (yet). early:
/// its ring will do although it does not know us yet (the direct path).
bool attach(queue_pair& qp, bool early) noexcept;
/// Our RC or UC QP of that number, if it is connected to that QP of that context. Under objects.
queue_pair* connected_qp(context& c, const nonce& peer_name, std::uint32_t qpn,
                         std::uint32_t peer_qpn) noexcept;
/// Forgets the peer and both rings, and what was posted. After publish_life(none).
void disconnect(queue_pair& qp) noexcept;
/// Owes (or not) the event that the send queue has drained, in SQD.
void announce_drained(queue_pair& qp, bool wanted) noexcept;

// send.cpp: the sending side, under `sending`.
enum class outcome : std::uint8_t { done, wait, failed };
/// Tries to do (more of) a request. failed: *why says with which status.
outcome attempt(queue_pair& qp, send_work& w, ibv_wc_status* why) noexcept;
/// Does what can be done of the stored work; flushes it in the error state. True if any finished.
bool push_on(queue_pair& qp) noexcept;
int post_send(ibv_qp*, ibv_send_wr*, ibv_send_wr** bad);
/// post_send() under `sending`.
int post_held(queue_pair& qp, ibv_send_wr* wr, ibv_send_wr** bad) noexcept;
/// The request as the device keeps it; the scatter list still lies with the caller. 0 or an errno.
int read_request(const queue_pair& qp, const ibv_send_wr& wr, send_work& w) noexcept;
/// Posts all of a chain of `count` requests, or none of it: 0, or the errno of the first that
/// cannot be posted.
int post_together(queue_pair& qp, ibv_send_wr* first, std::uint64_t count) noexcept;

// onesided.cpp, datagram.cpp
/// Copies the bytes of a WRITE or READ. 0 or an errno.
int move_bytes(queue_pair& qp, const send_work& w) noexcept;
/// WRITE, READ and atomics, done from here in the peer's memory.
outcome access_remote(queue_pair& qp, send_work& w, ibv_wc_status* why) noexcept;
/// The peer cannot be reached: wait, or RETRY_EXC_ERR when the request's transport timer has ended.
outcome unreachable(queue_pair& qp, send_work& w, ibv_wc_status* why) noexcept;
/// Does the commonest request at once: a SEND of one piece that fits a slot of the ring, and finds
/// a receive that is known of. failed: nothing has been done; wait: it is in the ring, and what has
/// become of the peer meanwhile will be seen (stage::pushed).
outcome send_short(queue_pair& qp, const ibv_send_wr& wr) noexcept;
outcome send_message(queue_pair& qp, send_work& w, ibv_wc_status* why) noexcept;
outcome send_datagram(queue_pair& qp, send_work& w, ibv_wc_status* why) noexcept;
/// Takes datagrams from the socket to their QPs, at most so many, unless another thread does. True
/// if there may be more.
bool receive_datagrams(context& c, int most) noexcept;

// receive.cpp: the receiving side, under the receive CQ's `poll`.
/// Takes messages from the ring until one completion is made. False: nothing (more) to take.
bool receive_one(queue_pair& qp, ibv_wc& out, bool* solicited) noexcept;
/// Where the receive that receive_one() has just completed belongs: XRC has one for each queue.
completion_queue& destination(queue_pair& qp) noexcept;
/// In the error state: delivers what has arrived, then flushes every posted receive.
void flush_receives(queue_pair& qp) noexcept;
/// Copies n bytes into a scatter list at an offset, checking keys against that domain.
/// IBV_WC_SUCCESS or the error.
ibv_wc_status scatter(const queue_pair& qp, std::uint32_t pd, const ibv_sge* list,
                      std::uint32_t count, std::uint64_t offset, const std::byte* from,
                      std::uint32_t n) noexcept;
int post_recv(ibv_qp*, ibv_recv_wr*, ibv_recv_wr** bad);

ibv_qp* create_qp(ibv_pd*, ibv_qp_init_attr*);
/// create_qp() of any type; without a pd: of an XRC domain.
ibv_qp* make_qp(context& c, ibv_context* handle, ibv_pd*, ibv_qp_init_attr*, xrc_domain*);
int modify_qp(ibv_qp*, ibv_qp_attr*, int mask);
int query_qp(ibv_qp*, ibv_qp_attr*, int mask, ibv_qp_init_attr*);
int destroy_qp(ibv_qp*);

struct address_handle : ibv_ah {
  nonce to;
};
ibv_ah* create_ah(ibv_pd*, ibv_ah_attr*);
int destroy_ah(ibv_ah*);

}  // namespace penstock::nic::shm
