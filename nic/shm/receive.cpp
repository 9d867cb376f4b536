// The receiving side of RC: messages go from the ring into posted receives.
//
// A sender claims a receive before it pushes a message, so a receive is posted for each message.
// Claims are not trusted: a message that finds no receive waits in its ring until one is posted,
// and holds up only its own sender.
#include <cerrno>
#include <cstring>

#include "lib/base/assert.hpp"
#include "nic/shm/context.hpp"
#include "nic/shm/fence.hpp"
#include "nic/shm/message.hpp"
#include "nic/shm/page_guard.hpp"
#include "nic/shm/peer.hpp"
#include "nic/shm/qp.hpp"
#include "nic/shm/srq.hpp"
#include "nic/shm/window.hpp"

namespace penstock::nic::shm {
namespace {

/// Takes the receive for a message that begins.
bool begin(queue_pair& qp, std::uint32_t bytes) noexcept {
  assembly& m = qp.message;
  PENSTOCK_ASSERT(m.active, ==, false);  // else that message's receive would be lost
  shared_receive_queue* shared = qp.shared_receives;
  if (xrc_receiver(qp)) [[unlikely]] {
    // The sender has named the queue; if its completion queue is full, the message waits.
    shared = qp.selected;
    if (shared == nullptr || (!qp.owner->plays.overruns && full(*shared->cq))) return false;
  }
  if (shared != nullptr) {
    if (!take(*shared, m.work, m.list)) return false;
    ++qp.srq_taken;
  } else {
    const hold guard(qp.receives.lock);
    if (!qp.receives.take(m.work, m.list)) return false;
  }
  m.active = true;
  m.bytes = bytes;
  m.offset = 0;
  return true;
}

void fill(const queue_pair& qp, ibv_wc& wc, ibv_wc_status status) noexcept {
  wc = {};
  wc.wr_id = qp.message.work.wr_id;
  wc.status = status;
  wc.opcode = IBV_WC_RECV;
  wc.qp_num = qp.qp_num;
  wc.src_qp = peer_qpn(qp);
}

/// The message cannot be delivered: the receive ends with `local`, the sender's request with
/// `remote`.
void refuse(queue_pair& qp, ibv_wc& wc, ibv_wc_status local, ibv_wc_status remote) noexcept {
  PENSTOCK_ASSERT(qp.message.active, ==, true);
  fill(qp, wc, local);
  qp.message.active = false;
  qp.message.refused = true;
  qp.closed = true;  // the message stays in the ring: nothing may look as if it had been taken
  enter_error(qp, remote);
  // A sender that sleeps or has nothing outstanding gets an event, too.
  if (qp.remote) qp.remote->tell(qp.remote->make(request_kind::refused, peer_qpn(qp), qp.qp_num));
}

}  // namespace

ibv_wc_status scatter(const queue_pair& qp, std::uint32_t pd, const ibv_sge* list,
                      std::uint32_t count, std::uint64_t offset, const std::byte* from,
                      std::uint32_t n) noexcept {
  for (std::uint32_t i = 0; i < count && n != 0; ++i) {
    const ibv_sge& s = list[i];
    if (offset >= s.length) {
      offset -= s.length;
      continue;
    }
    const std::uint32_t here = s.length - static_cast<std::uint32_t>(offset);
    const std::uint32_t now = n < here ? n : here;
    // What no message fills is not looked at, as on adapters: perftest posts such lists.
    if (!qp.owner->regions.allows(s.lkey, pd, s.addr + offset, now, IBV_ACCESS_LOCAL_WRITE))
      return IBV_WC_LOC_PROT_ERR;
    if (!guarded_copy(reinterpret_cast<std::byte*>(s.addr) + offset, from, now))
      return IBV_WC_LOC_PROT_ERR;
    from += now;
    n -= now;
    offset = 0;
  }
  return n == 0 ? IBV_WC_SUCCESS : IBV_WC_LOC_LEN_ERR;
}

completion_queue& destination(queue_pair& qp) noexcept {
  return qp.selected != nullptr ? *qp.selected->cq : of(qp.recv_cq);
}

bool receive_short(queue_pair& qp, ibv_wc& wc) noexcept {
  PENSTOCK_ASSERT(of(qp.recv_cq).poll.is_mine(), ==, true);
  const ring_slot* slot;
  if (qp.rx.peek(kind_send, slot) != ring_rx::sight::plain || qp.message.active || qp.closed ||
      qp.shared_receives != nullptr || qp.domain != nullptr)
    return false;
  const auto bytes = static_cast<std::uint32_t>(slot->header);
  if (bytes > slot_body) [[unlikely]]
    return false;
  {
    const hold guard(qp.receives.lock);
    const ibv_sge* s = qp.receives.single();
    // post_recv() has looked at each receive; floor() is 0 once one may have lost its region
    // (doubt).
    if (s == nullptr || bytes > s->length ||
        (bytes != 0 && qp.receives.floor() == 0 &&
         !qp.owner->regions.allows(s->lkey, qp.pd_number, s->addr, bytes, IBV_ACCESS_LOCAL_WRITE)))
      return false;
    auto* to = reinterpret_cast<std::byte*>(s->addr);
    if (bytes == 8 ? !guarded_copy_8(to, slot->body) : !guarded_copy(to, slot->body, bytes))
        [[unlikely]]
      return false;  // receive_one() finds the same
    wc = {};
    wc.wr_id = qp.receives.drop();
  }
  static_assert(IBV_WC_SUCCESS == 0);
  wc.opcode = IBV_WC_RECV;
  wc.byte_len = bytes;
  wc.qp_num = qp.qp_num;
  wc.src_qp = peer_qpn(qp);
  qp.rx.pop_slot();
  qp.tx.answered();  // as in receive_one()
  return true;
}

bool waits_aside(queue_pair& qp) noexcept {
  // V2 given?  acquire has_aside  <- V1 (answers.cpp)
  if (!qp.has_aside.load(std::memory_order_acquire) || qp.rx.ready()) return false;
  if (qp.aside == nullptr || qp.aside->empty())
    // acq_rel: as in answers.cpp
    if (overflow* given = qp.aside_given.exchange(nullptr, std::memory_order_acq_rel))
      qp.aside.reset(given);
  // What the peer pushed before it gave this file can be seen by now, and comes first.
  return qp.aside != nullptr && !qp.aside->empty() && !qp.rx.ready();
}

bool receive_one(queue_pair& qp, ibv_wc& wc, bool* solicited) noexcept {
  PENSTOCK_ASSERT(of(qp.recv_cq).poll.is_mine(), ==, true);
  assembly& m = qp.message;
  for (;;) {
    const bool aside = waits_aside(qp);
    const ring_rx::message in = aside ? qp.aside->front() : qp.rx.front();
    const auto pop = [&] { aside ? qp.aside->pop(in) : qp.rx.pop(in); };
    if (!in || qp.closed) return false;
    const std::uint8_t kind = in.op & kind_mask;
    const auto total = static_cast<std::uint32_t>(in.slot->header);
    const auto imm = static_cast<std::uint32_t>(in.slot->header >> 32);
    if (in.op == 255 || kind < kind_send || kind > kind_send_inv) [[unlikely]] {
      if (kind == kind_select && xrc_receiver(qp) && !m.active) {
        qp.selected = select_queue(qp, total);
        if (qp.selected == nullptr) {
          enter_error(qp, IBV_WC_REM_INV_REQ_ERR);
          return false;
        }
        pop();
        continue;
      }
      // A broken message, or one of the direct path before the user has taken over the ring.
      if (in.op != 0 && state_of(qp) != IBV_QPS_ERR) enter_error(qp, IBV_WC_REM_INV_REQ_ERR);
      return false;
    }
    if (!m.active && !begin(qp, total)) return false;
    *solicited = (in.op & flag_solicited) != 0;
    if (kind != kind_write_imm) {
      const std::byte* from = in.data != nullptr ? in.data : in.slot->body;
      const std::uint32_t left = m.bytes - m.offset;
      const std::uint32_t piece = in.data != nullptr ? in.data_bytes : left;
      ibv_wc_status status = IBV_WC_SUCCESS;
      if (m.bytes > m.work.room)
        status = IBV_WC_LOC_LEN_ERR;
      else if (piece > left || (in.data == nullptr && piece > slot_body) ||
               (piece == 0 && left != 0))
        status = IBV_WC_LOC_QP_OP_ERR;  // the pieces do not add up: the sender is faulty
      else if (piece != 0)
        status = scatter(qp, qp.selected != nullptr ? qp.selected->pd_number : qp.pd_number, m.list,
                         m.work.count, m.offset, from, piece);
      if (status != IBV_WC_SUCCESS) [[unlikely]] {
        refuse(qp, wc, status,
               status == IBV_WC_LOC_PROT_ERR ? IBV_WC_REM_OP_ERR : IBV_WC_REM_INV_REQ_ERR);
        return true;
      }
      const bool more = (in.op & flag_more) != 0 && m.offset + piece < m.bytes;
      if (kind == kind_send_inv && !more && !close_window_for_peer(qp, imm)) [[unlikely]] {
        refuse(qp, wc, IBV_WC_LOC_ACCESS_ERR, IBV_WC_REM_ACCESS_ERR);
        return true;
      }
      m.offset += piece;
      PENSTOCK_ASSERT(m.offset, <=, m.work.room);
      const bool tell = (in.op & flag_tell) != 0;
      const bool with_imm = (in.op & flag_imm) != 0;
      pop();
      if (tell) qp.rx.publish();
      if (more) continue;
      fill(qp, wc, IBV_WC_SUCCESS);
      wc.byte_len = m.offset;
      if (with_imm) {
        wc.wc_flags = IBV_WC_WITH_IMM;
        wc.imm_data = imm;
      } else if (kind == kind_send_inv) {
        wc.wc_flags = IBV_WC_WITH_INV;
        wc.invalidated_rkey = imm;
      }
    } else {
      pop();
      fill(qp, wc, IBV_WC_SUCCESS);
      wc.opcode = IBV_WC_RECV_RDMA_WITH_IMM;
      wc.wc_flags = IBV_WC_WITH_IMM;
      wc.imm_data = imm;
      wc.byte_len = total;
    }
    m.active = false;
    qp.tx.answered();  // the next message sent is likely an answer, not part of a stream
    return true;
  }
}

void flush_receives(queue_pair& qp) noexcept {
  PENSTOCK_ASSERT(of(qp.recv_cq).poll.is_mine(), ==, true);
  completion_queue& cq = of(qp.recv_cq);
  completion c;
  c.qp = xrc_receiver(qp) ? nullptr : &qp;
  bool solicited = false;
  // What arrived before the error was acknowledged to its sender and is delivered. The fence pairs
  // with the sender's F2 between its push and its second look at our state: a message pushed too
  // late to be seen here is not reported as sent.
  heavy_fence();
  if (qp.ring != 0 && !qp.direct.load(std::memory_order_relaxed) && !qp.closed) {
    for (std::uint32_t i = 0; i < qp.rx.memory().geometry.slots || waits_aside(qp); ++i) {
      if (!receive_one(qp, c.wc, &solicited)) break;
      store(destination(qp), c, solicited);
    }
    qp.rx.publish();
    qp.closed = true;
  }
  if (qp.message.active) {
    qp.message.active = false;
    fill(qp, c.wc, IBV_WC_WR_FLUSH_ERR);
    store(destination(qp), c, false);
  }
  if (xrc_receiver(qp)) return;
  if (qp.shared_receives != nullptr) {
    if (!qp.last_wqe) raise_qp(qp, IBV_EVENT_QP_LAST_WQE_REACHED);
    qp.last_wqe = true;
    return;
  }
  for (;;) {
    {
      const hold guard(qp.receives.lock);
      if (!qp.receives.take(qp.message.work, qp.message.list)) return;
    }
    fill(qp, c.wc, IBV_WC_WR_FLUSH_ERR);
    store(cq, c, false);
  }
}

int post_recv(ibv_qp* handle, ibv_recv_wr* wr, ibv_recv_wr** bad) noexcept {
  queue_pair& qp = of(handle);
  const bool none = qp.shared_receives != nullptr || xrc_receiver(qp) ||
                    qp.qp_type == IBV_QPT_XRC_SEND || state_of(qp) == IBV_QPS_RESET;
  int e = none ? EINVAL : 0;
  if (e != 0) {
    *bad = wr;
    return e;
  }
  {
    const hold guard(qp.receives.lock);
    for (; wr != nullptr; wr = wr->next)
      if ((e = qp.receives.post(*wr)) != 0) {
        *bad = wr;
        break;
      } else if (!may_fill(qp.owner->regions, qp.pd_number, *wr)) [[unlikely]] {
        qp.receives.doubt();
      }
    qp.shown->floor.store(qp.receives.floor(), std::memory_order_relaxed);
    // P1 posted  store-release posted  -> P2: the sender that claims one sees a floor that holds
    qp.shown->posted.store(qp.receives.posted(), std::memory_order_release);
  }
  if (state_of(qp) == IBV_QPS_ERR) {  // flushed like those before
    of(qp.recv_cq).attention.raise();
    if (of(qp.recv_cq).armed.load(std::memory_order_relaxed) != 0) qp.owner->pusher.kick();
  }
  return e;
}

}  // namespace penstock::nic::shm
