// The sending side of an RC QP: it claims a receive at the peer and pushes a message into the
// peer's ring; and when a send completes.
//
// When a SEND completes. It has completed once (a) one of the peer's posted receives was claimed
// for it, (b) it certainly fits that receive, (c) all of it lies in the peer's ring, and (d) the
// peer's QP was still alive after (c). That is what an acknowledgement says on an adapter: the
// responder's hardware has it and a receive for it; nothing is said about the responder's program
// having looked. If that process dies before it polls, the ring dies with it, as an adapter's
// completion queue would; the sender's QP enters the error state, raises IBV_EVENT_QP_FATAL and
// flushes what is outstanding. If the peer's QP is moved to the error state, messages already in
// the ring are delivered before its receives are flushed (flush_receives), and (d) keeps a message
// that came too late from being reported. Where (b) is not certain (longer than the smallest
// receive that is posted), the request waits until the receiver has taken the message, and gets its
// refusal. A message that finds no room, since its receiver does not run, goes another way
// (overflow.hpp), and (c) holds for that.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "lib/base/assert.hpp"
#include "lib/base/clock.hpp"
#include "lib/base/cross_process.hpp"
#include "nic/shm/context.hpp"
#include "nic/shm/fence.hpp"
#include "nic/shm/message.hpp"
#include "nic/shm/page_guard.hpp"
#include "nic/shm/peer.hpp"
#include "nic/shm/qp.hpp"
#include "nic/shm/srq.hpp"
#include "nic/shm/window.hpp"

namespace penstock::nic::shm {
std::uint64_t rnr_timer_ns(std::uint32_t code) noexcept {
  static constexpr std::uint32_t hundredths_ms[32] = {
      65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,   32,
      48,    64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536,
      2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};
  return std::uint64_t{hundredths_ms[code & 31]} * 10'000;
}

namespace {

/// A position that no receiver says it has passed: of a message that is not in the ring.
constexpr std::uint64_t never_passed = ~std::uint64_t{0};

/// How many attempts to claim a receive lie between two looks at the peer's count of posted
/// receives.
constexpr std::uint32_t looks_apart = 8;

outcome not_ready(queue_pair& qp, send_work& w, ibv_wc_status* why) noexcept {
  const std::uint64_t now = now_ns();
  const std::uint64_t timer =
      std::max(rnr_timer_ns(qp.to.remote->min_rnr_timer.load(std::memory_order_relaxed)),
               qp.owner->play != nullptr ? qp.owner->play->plan.rnr_ns : 0);
  if (w.deadline != 0 && !w.unreachable && now < w.deadline) return outcome::wait;
  if (qp.to.srq == nullptr && qp.to.rest != looks_apart) {  // not looked yet; the next attempt does
    qp.to.rest = 0;
    return outcome::wait;
  }
  // One more attempt has found no receive.
  qp.owner->rnr_received.fetch_add(1, std::memory_order_relaxed);
  reinterpret_cast<arena_header*>(qp.remote->base)
      ->rnr_sent.fetch_add(1, std::memory_order_relaxed);
  if (w.tries >= qp.rnr_retry && qp.rnr_retry != 7) {
    *why = IBV_WC_RNR_RETRY_EXC_ERR;
    return outcome::failed;
  }
  if (qp.traffic != nullptr) qp.traffic->rnr.fetch_add(1, std::memory_order_relaxed);
  ++w.tries;
  w.unreachable = false;
  w.deadline = now + timer;
  return outcome::wait;
}

/// UC: whether a request that finds no receive waits for one, or is lost.
[[gnu::cold]] outcome without_receive(queue_pair& qp, send_work& w) noexcept {
  link& l = qp.to;
  const bool begins = w.deadline == 0;
  if (!begins && l.srq == nullptr && l.rest != looks_apart) return outcome::wait;  // not looked yet
  const std::uint64_t posted =
      l.srq != nullptr ? l.srq->posted.load(std::memory_order_relaxed) : l.posted;
  if (qp.patience.waits(begins, posted, patience_ns(*qp.owner))) {
    w.deadline = 1;  // the time itself is the patience's
    return outcome::wait;
  }
  qp.owner->lost_for_receive.fetch_add(1, std::memory_order_relaxed);
  return outcome::done;
}

/// `waiting`: the request has already found no receive.
[[gnu::always_inline]] inline bool claim(queue_pair& qp, bool waiting) noexcept {
  PENSTOCK_ASSERT(qp.sending.is_mine(), ==, true);
  link& l = qp.to;
  if (l.srq == nullptr) {
    if (l.claimed == l.posted) {
      // Each look takes the line away from the peer, which writes it for each receive. A sender
      // that is ahead looks now and then, and finds several new receives at once.
      if (waiting && l.rest != 0) return --l.rest, false;
      // P2 refresh  load-acquire posted  <- P1
      l.posted = l.remote->posted.load(std::memory_order_acquire);
      l.floor = l.remote->floor.load(std::memory_order_relaxed);
      if (l.claimed == l.posted) {
        l.rest = looks_apart;
        return false;
      }
    }
    ++l.claimed;
    return true;
  }
  if (l.srq->available.load(std::memory_order_relaxed) <= 0) return false;
  // The count is published before the claim. If we die in between, the owner returns one claim too
  // many, and a message may wait in its ring for a receive. In the other order a receive would be
  // lost for ever.
  qp.shown->claims.store(++l.srq_claims, std::memory_order_relaxed);
  light_fence();  // F2: a peer that goes away (F1) counts this claim, or we see that it has gone
  if (l.remote->life.load(std::memory_order_relaxed) == l.ready && try_claim(*l.srq)) {
    l.floor = l.srq->floor.load(std::memory_order_relaxed);
    l.claimed_at = qp.tx.pushed();
    return true;
  }
  qp.shown->claims.store(--l.srq_claims, std::memory_order_relaxed);
  return false;
}

/// XRC: tells the peer, once, which queue the message is for. False when the ring is full.
bool push_selection(queue_pair& qp, send_work& w) noexcept {
  if (w.datagram_qkey == 0) {
    if (!qp.tx.try_push(kind_select, w.datagram_qpn, 0, [](std::byte*, std::byte*) {}))
      return false;
    w.datagram_qkey = 1;
    w.deadline = 0;
  }
  return true;
}

/// XRC: makes claims come from the queue that the request names.
bool turn_to_queue(queue_pair& qp, const send_work& w) noexcept {
  auto* e = qp.remote->entry<srq_entry>(table::srq, w.datagram_qpn - 1);
  // X2 open?  acquire domain  <- X1 (xrc.cpp)
  if (e == nullptr || e->domain.load(std::memory_order_acquire) == 0 ||
      e->domain.load(std::memory_order_relaxed) !=
          qp.to.remote->domain.load(std::memory_order_relaxed))
    return false;
  qp.to.srq = e;
  return true;
}

/// Pushes the rest of the message. False when the ring is full.
bool push(queue_pair& qp, send_work& w, std::uint8_t op) noexcept {
  const std::uint64_t header = message_header(w.bytes, w.imm);
  if (w.bytes <= slot_body)
    return qp.tx.try_push(op, header, 0,
                          [&](std::byte* body, std::byte*) { gather(w, 0, body, w.bytes); });
  while (w.offset < w.bytes) {
    const std::uint32_t left = w.bytes - w.offset;
    const std::uint32_t piece = left < ring_piece ? left : ring_piece;
    const bool more = piece < left;
    const auto piece_op = static_cast<std::uint8_t>(
        more ? (op & static_cast<std::uint8_t>(~flag_tell)) | flag_more : op);
    if (!qp.tx.try_push(piece_op, header, piece,
                        [&](std::byte*, std::byte* data) { gather(w, w.offset, data, piece); }))
      return false;
    w.offset += piece;
    PENSTOCK_ASSERT(w.offset, <=, w.bytes);
  }
  return true;
}

/// The receiver must take messages in before we can go on. If its program does not poll for a
/// while, its device is asked to: a send's completion never depends on the peer polling.
outcome stuck(queue_pair& qp, send_work& w) noexcept {
  constexpr std::uint64_t patience_ns = 200'000;
  const std::uint64_t now = now_ns();
  if (w.deadline == 0 || w.unreachable)
    w.deadline = now + patience_ns;  // not the transport's timer
  w.unreachable = false;
  if (now >= w.deadline) {
    qp.remote->tell(qp.remote->make(request_kind::take_in, peer_qpn(qp), qp.qp_num));
    w.deadline = now + patience_ns;
  }
  return outcome::wait;
}

/// Whether the ring has had no room for so long that its receiver seems not to run.
[[gnu::cold]] bool overflows(queue_pair& qp) noexcept {
  return qp.qp_type == IBV_QPT_RC && stands_still(qp, qp.tx.position(), qp.owner->overflow_ns);
}

/// Wakes the receiver if it sleeps.
void ring_bell(queue_pair& qp) noexcept {
  light_fence();  // F2: after the push
  std::uint32_t armed = bell_armed;
  if (qp.to.bell->bell.load(std::memory_order_relaxed) != bell_armed) [[likely]]
    return;
  if (qp.to.bell->bell.compare_exchange_strong(armed, bell_rung, std::memory_order_relaxed))
    qp.remote->tell(qp.remote->make(request_kind::kick, peer_qpn(qp), qp.qp_num));
}

/// Whether the peer says that it has taken a message that was pushed, the last one so far.
bool was_taken(queue_pair& qp, const send_work& w) noexcept {
  if (w.position != never_passed) return qp.tx.passed(w.position);
  return qp.to.aside != nullptr && qp.to.aside->all_taken();
}

/// Whether what a message will be gathered from is mapped.
bool mapped(const send_work& w) noexcept {
  if ((w.flags & IBV_SEND_INLINE) != 0) return true;
  for (std::uint32_t i = 0; i < w.count; ++i)
    if (!readable(reinterpret_cast<const void*>(w.list[i].addr), w.list[i].length)) return false;
  return true;
}

}  // namespace

bool keys_hold(const queue_pair& qp, const send_work& w) noexcept {
  if ((w.flags & IBV_SEND_INLINE) != 0) return true;
  const bool written = w.opcode == IBV_WR_RDMA_READ || w.opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
                       w.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
  for (std::uint32_t i = 0; i < w.count; ++i)
    if (w.list[i].length != 0 &&
        !qp.owner->regions.allows(
            w.list[i].lkey, qp.pd_number, w.list[i].addr, w.list[i].length,
            written ? std::uint32_t{IBV_ACCESS_LOCAL_WRITE} : region_table::local_use))
      return false;
  return true;
}

void gather(const send_work& w, std::uint32_t offset, std::byte* to, std::uint32_t n) noexcept {
  for (std::uint32_t i = 0; n != 0; ++i) {
    PENSTOCK_ASSERT(i, <, w.count);
    const ibv_sge& s = w.list[i];
    if (offset >= s.length) {
      offset -= s.length;
      continue;
    }
    const std::uint32_t now = n < s.length - offset ? n : s.length - offset;
    // mapped() has read it. Since then the program has taken it away, and the receiver gets zeros.
    const auto* from = reinterpret_cast<const std::byte*>(s.addr) + offset;
    if (now == 8 ? !guarded_copy_8(to, from) : !guarded_copy(to, from, now)) [[unlikely]]
      std::memset(to, 0, now);
    tsan_tell_peer(reinterpret_cast<const void*>(s.addr));
    to += now;
    n -= now;
    offset = 0;
  }
}

outcome send_short(queue_pair& qp, const ibv_send_wr& wr) noexcept {
  PENSTOCK_ASSERT(qp.sending.is_mine(), ==, true);
  link& l = qp.to;
  if ((wr.opcode != IBV_WR_SEND && wr.opcode != IBV_WR_SEND_WITH_IMM) || wr.num_sge != 1 ||
      qp.qp_type != IBV_QPT_RC || l.ready == 0 || l.claimed == l.posted || l.srq != nullptr ||
      l.diverted || state_of(qp) != IBV_QPS_RTS)
    return outcome::failed;
  const ibv_sge& s = wr.sg_list[0];
  const bool in_line = (wr.send_flags & IBV_SEND_INLINE) != 0;
  const bool fits = s.length <= slot_body && s.length <= l.floor &&
                    (!in_line || s.length <= qp.works.inline_room());
  if (!fits ||
      (!in_line && s.length != 0 &&
       !qp.owner->regions.allows(s.lkey, qp.pd_number, s.addr, s.length, region_table::local_use)))
    return outcome::failed;
  // L2 alive?  load-acquire life  <- L1 (qp.cpp, faults.cpp)
  if (l.remote->life.load(std::memory_order_acquire) != l.ready || !qp.tx.has_room(1, 0))
    return outcome::failed;
  const auto* from = reinterpret_cast<const std::byte*>(s.addr);
  std::uint8_t op = kind_send;
  if (wr.opcode == IBV_WR_SEND_WITH_IMM) op |= flag_imm;
  if ((wr.send_flags & IBV_SEND_SOLICITED) != 0) op |= flag_solicited;
  const bool pushed =
      qp.tx.push_if(op, message_header(s.length, wr.imm_data), [&](std::byte* body) {
        tsan_tell_peer(from);
        if (!in_line)
          return s.length == 8 ? guarded_copy_8(body, from) : guarded_copy(body, from, s.length);
        if (s.length == 8)
          std::memcpy(body, from, 8);
        else
          std::memcpy(body, from, s.length);
        return true;
      });
  if (!pushed) [[unlikely]]
    return outcome::failed;
  ++l.claimed;
  ring_bell(qp);
  // (d) after the push (F2): still alive?
  if (l.remote->life.load(std::memory_order_relaxed) == l.ready) [[likely]]
    return outcome::done;
  return outcome::wait;
}

bool may_tell(queue_pair& qp) noexcept { return !qp.to.diverted && qp.tx.has_room(1, 0); }

outcome tell_written(queue_pair& qp, const ibv_send_wr& wr, std::uint32_t bytes) noexcept {
  PENSTOCK_ASSERT(qp.to.diverted, ==, false);  // may_tell() was true
  if (!claim(qp, false)) return outcome::failed;
  std::uint8_t op = kind_write_imm;
  if ((wr.send_flags & IBV_SEND_SOLICITED) != 0) op |= flag_solicited;
  qp.tx.push(op, message_header(bytes, wr.imm_data), 0, [](std::byte*, std::byte*) {});
  ring_bell(qp);
  // (d) after the push (F2): still alive?
  if (qp.to.remote->life.load(std::memory_order_relaxed) == qp.to.ready) [[likely]]
    return outcome::done;
  return outcome::wait;
}

outcome unreachable(queue_pair& qp, send_work& w, ibv_wc_status* why) noexcept {
  if (unanswered(qp)) return outcome::done;
  const std::uint64_t now = now_ns();
  if (w.deadline == 0 || !w.unreachable) {
    if (qp.traffic != nullptr) qp.traffic->retries.fetch_add(1, std::memory_order_relaxed);
    w.unreachable = true;
    w.deadline = now + qp.transport_ns;
  }
  if (qp.transport_ns == 0 || now < w.deadline) return outcome::wait;
  *why = IBV_WC_RETRY_EXC_ERR;
  return outcome::failed;
}

outcome send_message(queue_pair& qp, send_work& w, ibv_wc_status* why) noexcept {
  if (w.at < stage::claimed) {
    if (qp.qp_type == IBV_QPT_XRC_SEND && !push_selection(qp, w)) [[unlikely]]
      return stuck(qp, w);
    if (!claim(qp, w.deadline != 0))
      return unanswered(qp) ? without_receive(qp, w) : not_ready(qp, w, why);
    // Once a message, and before any of it is pushed.
    if (w.opcode != IBV_WR_RDMA_WRITE_WITH_IMM && !mapped(w)) [[unlikely]] {
      PENSTOCK_ASSERT(qp.to.srq != nullptr || qp.to.claimed != 0, ==, true);
      if (qp.to.srq == nullptr)
        --qp.to.claimed;
      else
        return_claim(qp);
      *why = IBV_WC_LOC_PROT_ERR;
      return outcome::failed;
    }
    w.at = stage::claimed;
    w.deadline = 0;
  }
  if (w.at == stage::claimed) {
    PENSTOCK_ASSERT(qp.tx.connected(), ==, true);
    const bool no_bytes = w.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;  // they have been written
    // A SEND that closes a window completes when the window is closed.
    const bool closes = w.opcode == IBV_WR_SEND_WITH_INV;
    // The receives may have become larger since the last look at their count. Not once a piece is
    // under way: its receive may have been taken, and the floor speaks of those that are left.
    if (w.offset == 0 && w.bytes > qp.to.floor) [[unlikely]]
      qp.to.floor = (qp.to.srq != nullptr ? qp.to.srq->floor : qp.to.remote->floor)
                        .load(std::memory_order_relaxed);
    const bool fits = no_bytes || unanswered(qp) || (w.bytes <= qp.to.floor && !closes);
    std::uint8_t op = no_bytes ? kind_write_imm : closes ? kind_send_inv : kind_send;
    if (w.opcode == IBV_WR_SEND_WITH_IMM) op |= flag_imm;
    if ((w.flags & IBV_SEND_SOLICITED) != 0) op |= flag_solicited;
    if (!fits) op |= flag_tell;
    // Else the compiler prepares what follows for each of its values: a hundred instructions.
    __asm__("" : "+r"(op));
    // Behind what was put aside: there, too, or only when all of that has been taken.
    const bool follows = qp.to.diverted && follows_aside(qp);
    if (follows && (!fits || !put_aside(qp, w, op))) [[unlikely]]
      return stuck(qp, w);
    bool all = follows;
    if (!follows)
      all = no_bytes ? qp.tx.try_push(op, message_header(w.bytes, w.imm), 0,
                                      [](std::byte*, std::byte*) {})
                     : push(qp, w, op);
    ring_bell(qp);
    const bool aside = !all && fits && overflows(qp) && put_aside(qp, w, op);
    if (!all && !aside) return stuck(qp, w);
    w.at = stage::pushed;
    w.position = follows || aside ? never_passed : qp.tx.position();
    w.tells = !fits;
    // (d) after the push (F2): still alive?
    if (fits && qp.to.remote->life.load(std::memory_order_relaxed) != qp.to.ready &&
        !unanswered(qp)) [[unlikely]]
      return outcome::wait;
  }
  // A message that fits waits here only for (d), which it missed while the port was down. attempt()
  // has found the peer alive since, and a life that has ended does not come back under its
  // generation. No receiver tells at once that it has taken such a message.
  return !w.tells || was_taken(qp, w) ? outcome::done : stuck(qp, w);
}

outcome attempt(queue_pair& qp, send_work& w, ibv_wc_status* why) noexcept {
  PENSTOCK_ASSERT(qp.sending.is_mine(), ==, true);
  if (w.at == stage::fresh && !keys_hold(qp, w)) [[unlikely]] {
    *why = IBV_WC_LOC_PROT_ERR;
    return outcome::failed;
  }
  if (qp.qp_type == IBV_QPT_UD) return send_datagram(qp, w, why);
  if (w.opcode == IBV_WR_BIND_MW || w.opcode == IBV_WR_LOCAL_INV) [[unlikely]] {
    *why = w.opcode == IBV_WR_BIND_MW ? bind_window(qp, w) : close_window(qp, w.rkey);
    return *why == IBV_WC_SUCCESS ? outcome::done : outcome::failed;
  }
  link& l = qp.to;
  if (l.ready == 0 && !attach(qp, false)) [[unlikely]]
    return unreachable(qp, w, why);
  PENSTOCK_ASSERT(l.remote != nullptr, ==, true);
  if (unanswered(qp) && qp.remote->dead.load(std::memory_order_relaxed)) [[unlikely]]
    return outcome::done;
  // L2 alive?  load-acquire life  <- L1 (qp.cpp, faults.cpp)
  const std::uint32_t life = l.remote->life.load(std::memory_order_acquire);
  if (life != l.ready) [[unlikely]] {
    const std::uint32_t nak = l.remote->nak.load(std::memory_order_relaxed);
    const bool broke = (life >> 8) == (l.ready >> 8) && nak != 0 && nak <= IBV_WC_GENERAL_ERR;
    // The peer took the message, or its device did what it was asked, before it went.
    if (unanswered(qp) || (w.at == stage::pushed && was_taken(qp, w)) || was_answered(qp, w))
      return outcome::done;
    if (!broke) return unreachable(qp, w, why);
    *why = static_cast<ibv_wc_status>(nak);
    return outcome::failed;
  }
  if (qp.qp_type == IBV_QPT_XRC_SEND && w.at < stage::claimed && !turn_to_queue(qp, w))
      [[unlikely]] {
    *why = IBV_WC_REM_INV_REQ_ERR;
    return outcome::failed;
  }
  if (w.opcode == IBV_WR_SEND || w.opcode == IBV_WR_SEND_WITH_IMM ||
      w.opcode == IBV_WR_SEND_WITH_INV)
    return send_message(qp, w, why);
  return access_remote(qp, w, why);
}

}  // namespace penstock::nic::shm
