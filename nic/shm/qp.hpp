// Queue pairs: state, the sending side (under `sending`) and the receiving side (under the receive
// CQ's `poll`). Attributes change only in modify_qp, under `control`.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "nic/shm/carrier.hpp"
#include "nic/shm/cq.hpp"
#include "nic/shm/datagram.hpp"
#include "nic/shm/limits.hpp"
#include "nic/shm/lock.hpp"
#include "nic/shm/overflow.hpp"
#include "nic/shm/patience.hpp"
#include "nic/shm/peer.hpp"
#include "nic/shm/receive_queue.hpp"
#include "nic/shm/ring.hpp"
#include "nic/shm/send_queue.hpp"

namespace penstock::nic::shm {

struct context;
struct shared_receive_queue;
struct qp_traffic;

/// What the sending side knows of the peer's QP.
struct link {
  qp_entry* remote = nullptr;
  std::uint32_t ready = 0;  ///< remote->life while the connection lives; 0: no connection
  srq_entry* srq = nullptr;
  std::unique_ptr<overflow> aside;  ///< where messages go that find no room; null: none has
  bool diverted = false;            ///< some of them lie there: later ones follow
  std::uint64_t stuck_at = 0, stuck_since = 0;  ///< a position, and the time; 0: not stuck
  cq_entry* bell = nullptr;
  std::uint64_t posted = 0, claimed = 0;  ///< receives of the peer's own queue
  std::uint32_t rest = 0;                 ///< attempts until the peer's count is read again
  std::uint64_t srq_claims = 0;
  std::uint64_t claimed_at = ~std::uint64_t{0};  ///< messages pushed before the last of these
  std::uint32_t floor = 0;  ///< a message of at most this size fits the receives up to `posted`
};

/// A message that is being put together from its pieces.
struct assembly {
  bool active = false;
  bool refused = false;  ///< its rest stays in the ring
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

  // The QP at the other end, for threads that may not take `sending`; 0: not connected.
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
  std::atomic<bool> unfinished{false};  ///< `works` holds some
  std::uint64_t transport_ns = 0;       ///< how long an unreachable peer is tried; 0: for ever
  std::uint32_t rnr_retry = 0;
  std::uint32_t near_key = 0, near_epoch = 0;  ///< rkey of the mapping used last, and its epoch
  std::shared_ptr<peer::mapping> near;         ///< null: it cannot be mapped
  std::vector<std::shared_ptr<peer::mapping>> kept;  ///< what map_remote handed out
  /// The status of the oldest request once the QP is broken from outside; the other requests are
  /// flushed.
  std::atomic<ibv_wc_status> verdict{IBV_WC_WR_FLUSH_ERR};
  bool tell_drained = false;     ///< IBV_EVENT_SQ_DRAINED has to be raised
  std::unique_ptr<carried> way;  ///< in a context with a carrier: what that keeps; fixed
  std::uint32_t sq_psn = 0, reads_at_once = 1;  ///< as modify_qp() set them; a carrier's
  receive_patience patience;  ///< UC: with the peer's receives, of this connection

  // Receiving.
  alignas(cache_line) ring_rx rx;
  receive_queue receives;
  assembly message;
  shared_receive_queue* shared_receives = nullptr;
  shared_receive_queue* selected = nullptr;  ///< of XRC_RECV: the queue of the current message
  xrc_domain* domain = nullptr;              ///< of XRC_RECV
  std::uint64_t ring = 0;                    ///< offset of our receive ring
  std::uint64_t srq_taken = 0;
  bool closed = false;    ///< broken, and all earlier messages were delivered: the ring is dead
  bool last_wqe = false;  ///< LAST_WQE_REACHED was raised
  std::atomic<bool> has_aside{false};           ///< the peer has put messages aside, or had
  std::atomic<overflow*> aside_given{nullptr};  ///< what it gave last, until a poll takes it over
  std::unique_ptr<overflow> aside;
  std::atomic<bool> direct{false};  ///< the user pops messages from the ring directly
  std::atomic<std::uint32_t> qkey{0};
  /// The last atomic that the service thread did for the peer; under context::objects.
  struct {
    nonce from;
    std::uint64_t number = 0, old = 0;
  } last_atomic;
  datagram_line arrived;  ///< of UD: those that wait for a receive; under context::datagram_lock

  // Of a context that is watched (observer.hpp); under sending.
  qp_traffic* traffic = nullptr;  ///< its counts; null: nobody counts
  bool psn_known = false;
  std::uint32_t psn = 0, message_number = 0;  ///< of the trace's next packet, and last message
};

inline queue_pair& of(ibv_qp* q) noexcept { return *static_cast<queue_pair*>(q); }

/// RC and UC: a ring of its own, one peer.
inline bool connected(const queue_pair& q) noexcept { return q.qp_type != IBV_QPT_UD; }
/// RC and the sending side of XRC: requests that the peer answers.
inline bool answered(const queue_pair& q) noexcept {
  return q.qp_type == IBV_QPT_RC || q.qp_type == IBV_QPT_XRC_SEND;
}
inline bool xrc_receiver(const queue_pair& q) noexcept { return q.qp_type == IBV_QPT_XRC_RECV; }
/// UC: no peer answers its requests, so a request that fails at the peer is a lost message.
inline bool unanswered(const queue_pair& q) noexcept { return q.qp_type == IBV_QPT_UC; }

inline ibv_qp_state state_of(const queue_pair& q) noexcept {
  // QS2 state  acquire now  <- QS1 (modify.cpp, qp.cpp): what was set for that state
  return q.now.load(std::memory_order_acquire);
}

inline std::uint32_t peer_qpn(const queue_pair& q) noexcept {
  return q.dest.load(std::memory_order_relaxed);
}

/// Breaks a QP. Any thread, whatever it holds: this only sets and publishes states. The thread that
/// polls the CQs next, or the pusher thread, flushes the queues. nak: the status of the peer's
/// oldest request (IBV_WC_SUCCESS: none, the peer finds out by its timer).
void enter_error(queue_pair& qp, ibv_wc_status nak = IBV_WC_SUCCESS) noexcept;
/// Called when a request failed: an RC QP breaks, a UC or UD QP stops sending (SQE).
void fail_sends(queue_pair& qp) noexcept;
void raise_qp(queue_pair& qp, ibv_event_type type) noexcept;

// qp.cpp, link.cpp
/// Gives the QP a fresh receive ring. 0 or an errno.
int new_ring(queue_pair& qp);
/// Removes from the entry what a former life has left there.
void clear_entry(qp_entry& e) noexcept;
/// Tells the peer which of its messages were taken. To be called before publish_life(none): a
/// sender that finds this QP gone then learns whether the message that it has just pushed was
/// delivered.
void say_taken(queue_pair& qp) noexcept;
/// Frees the shared receive that was claimed for a message of which nothing was pushed. To be
/// called by a sender that leaves, or cannot send the message. Under `sending`.
void return_claim(queue_pair& qp) noexcept;
/// Publishes the QP's state to its peers.
void publish_life(queue_pair& qp, qp_public s) noexcept;
/// Finds the peer's QP and its ring; under `sending`. False: that QP is not ready for us (yet).
/// early: take its ring although it is not connected to us yet (the direct path).
bool attach(queue_pair& qp, bool early) noexcept;
/// Our RC or UC QP of that number, if it is connected to that QP of that context. Under objects.
queue_pair* connected_qp(context& c, const nonce& peer_name, std::uint32_t qpn,
                         std::uint32_t peer_qpn) noexcept;
/// Forgets the peer and both rings, and what was posted. After publish_life(none).
void disconnect(queue_pair& qp) noexcept;
/// Notes whether the event that the send queue has drained is wanted, in SQD.
void announce_drained(queue_pair& qp, bool wanted) noexcept;

// send.cpp: the sending side, under `sending`.
/// Copies n bytes at an offset of the request's gather list; zeros where its memory is not mapped
/// any more.
void gather(const send_work& w, std::uint32_t offset, std::byte* to, std::uint32_t n) noexcept;
enum class outcome : std::uint8_t { done, wait, failed };
/// Tries to do a request, or more of it. failed: *why is the status with which it failed.
outcome attempt(queue_pair& qp, send_work& w, ibv_wc_status* why) noexcept;
/// Continues stored work as far as possible; flushes it in the error state. True if any finished.
bool push_on(queue_pair& qp) noexcept;
int post_send(ibv_qp*, ibv_send_wr*, ibv_send_wr** bad) noexcept;
/// post_send() and post_held() of a context with a carrier.
int carried_post_send(ibv_qp*, ibv_send_wr*, ibv_send_wr** bad) noexcept;
int carried_post(queue_pair& qp, ibv_send_wr* wr, ibv_send_wr** bad) noexcept;
outcome carried_attempt(queue_pair& qp, send_work& w, ibv_wc_status* why) noexcept;
/// Whether the keys of a request's list hold.
bool keys_hold(const queue_pair& qp, const send_work& w) noexcept;
/// The responder's minimum RNR timer code in nanoseconds (the specification's table).
std::uint64_t rnr_timer_ns(std::uint32_t code) noexcept;
/// post_send() under `sending`.
int post_held(queue_pair& qp, ibv_send_wr* wr, ibv_send_wr** bad) noexcept;
/// Translates the request into the device's form; the scatter list stays in the caller's memory. 0
/// or an errno.
int read_request(const queue_pair& qp, const ibv_send_wr& wr, send_work& w) noexcept;
/// Posts all of a chain of `count` requests, or none of it: 0, or the errno of the first that
/// cannot be posted.
int post_together(queue_pair& qp, ibv_send_wr* first, std::uint64_t count) noexcept;

// onesided.cpp, datagram.cpp
/// Copies the bytes of a WRITE or READ. 0 or an errno; EINPROGRESS: the peer has been asked.
int move_bytes(queue_pair& qp, send_work& w) noexcept;
/// Whether the peer itself has to copy for such a request.
bool asks_peer(queue_pair& qp, const send_work& w) noexcept;
/// Does a WRITE of one piece into mapped memory at once, and pushes what it tells if it has an
/// immediate. failed: its bytes may have been written, and nothing has been told. wait: as
/// send_short().
outcome write_at_once(queue_pair& qp, const ibv_send_wr& wr) noexcept;
/// WRITE, READ and atomics: the requester does them itself in the peer's memory.
outcome access_remote(queue_pair& qp, send_work& w, ibv_wc_status* why) noexcept;
/// Whether a peer that has gone has done what access_remote() asked its device to do. Under
/// `sending`.
bool was_answered(queue_pair& qp, send_work& w) noexcept;
/// Called when the peer cannot be reached: answers wait, or fails with RETRY_EXC_ERR when the
/// request's transport timer has ended.
outcome unreachable(queue_pair& qp, send_work& w, ibv_wc_status* why) noexcept;
/// Does the commonest request at once: a SEND of one piece that fits a slot of the ring and finds a
/// receive that is already known. failed: nothing has been done. wait: the message is in the ring,
/// and the peer's state is checked later (stage::pushed).
outcome send_short(queue_pair& qp, const ibv_send_wr& wr) noexcept;
/// Of a WRITE with immediate whose bytes have been written: whether the ring has room for what it
/// tells, and behind all that was sent before; and the push of that, if a receive is found.
bool may_tell(queue_pair& qp) noexcept;
outcome tell_written(queue_pair& qp, const ibv_send_wr& wr, std::uint32_t bytes) noexcept;
outcome send_message(queue_pair& qp, send_work& w, ibv_wc_status* why) noexcept;
outcome send_datagram(queue_pair& qp, send_work& w, ibv_wc_status* why) noexcept;
/// Puts a datagram together. False: its memory is not mapped any more.
bool pack(const queue_pair& qp, const send_work& w, datagram_packet& d) noexcept;
/// Takes a datagram that a carrier has brought.
void take_datagram(context& c, const datagram_packet& d) noexcept;
/// Takes at most `most` datagrams from the socket to their QPs, unless another thread is doing so.
/// True if there may be more.
bool receive_datagrams(context& c, int most) noexcept;
/// Drops the datagrams that wait for a receive of the QP, which takes no more. After this no thread
/// is delivering one to it. If the QP is in RESET, those in the socket are dropped, too, as far as
/// the context has room for what lies between them.
void forget_datagrams(queue_pair& qp) noexcept;

// receive.cpp: the receiving side, under the receive CQ's `poll`.
/// Takes messages from the ring until one completion is made. False: no message is left that can be
/// taken.
bool receive_one(queue_pair& qp, ibv_wc& out, bool* solicited) noexcept;
/// Takes the commonest message at once: one that fits a slot of the ring, asks for nothing special,
/// and finds a receive of one piece in the QP's own queue. False: nothing has been done.
bool receive_short(queue_pair& qp, ibv_wc& out) noexcept;
/// The completion queue of the receive that receive_one() has just completed; XRC has one for each
/// SRQ.
completion_queue& destination(queue_pair& qp) noexcept;
/// Whether the next message is one that the peer has put aside (overflow.hpp). Under poll of the
/// receive CQ.
bool waits_aside(queue_pair& qp) noexcept;
/// In the error state: delivers the messages that have arrived, then flushes every posted receive.
void flush_receives(queue_pair& qp) noexcept;
/// Copies n bytes into a scatter list at an offset; the keys must be of domain pd. Answers
/// IBV_WC_SUCCESS or the error.
ibv_wc_status scatter(const queue_pair& qp, std::uint32_t pd, const ibv_sge* list,
                      std::uint32_t count, std::uint64_t offset, const std::byte* from,
                      std::uint32_t n) noexcept;
int post_recv(ibv_qp*, ibv_recv_wr*, ibv_recv_wr** bad) noexcept;

ibv_qp* create_qp(ibv_pd*, ibv_qp_init_attr*);
/// create_qp() of any type; without a pd the QP belongs to an XRC domain.
ibv_qp* make_qp(context& c, ibv_context* handle, ibv_pd*, ibv_qp_init_attr*, xrc_domain*);
int modify_qp(ibv_qp*, ibv_qp_attr*, int mask);
int query_qp(ibv_qp*, ibv_qp_attr*, int mask, ibv_qp_init_attr*) noexcept;
int destroy_qp(ibv_qp*) noexcept;

struct address_handle : ibv_ah {
  nonce to;  ///< for context_at()
  bool by_lid = false;
};
ibv_ah* create_ah(ibv_pd*, ibv_ah_attr*);
int destroy_ah(ibv_ah*) noexcept;

}  // namespace penstock::nic::shm
