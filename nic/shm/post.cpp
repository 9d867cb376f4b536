// Posting sends: checking a request, doing it at once or storing it, and finishing stored requests.
#include <cerrno>

#include "lib/base/assert.hpp"
#include "nic/shm/context.hpp"
#include "nic/shm/qp.hpp"
#include "nic/shm/window.hpp"

namespace penstock::nic::shm {
namespace {

/// Completes the commonest requests: a SEND or a WRITE of at most one part that is done.
void finish_at_once(queue_pair& qp, const ibv_send_wr& wr, ibv_wc_opcode opcode) noexcept {
  const std::uint64_t slot = qp.works.pass();
  if (!qp.signal_all && (wr.send_flags & IBV_SEND_SIGNALED) == 0) return;
  completion c;
  c.qp = &qp;
  c.frees = slot;
  c.wc.wr_id = wr.wr_id;
  c.wc.qp_num = qp.qp_num;
  c.wc.opcode = opcode;
  c.wc.byte_len = wr.num_sge == 0 ? 0 : wr.sg_list[0].length;
  static_assert(IBV_WC_SUCCESS == 0);
  store(of(qp.send_cq), c, false);
}

void finish(queue_pair& qp, const send_work& w, std::uint64_t slot, ibv_wc_status status) noexcept {
  if (status == IBV_WC_SUCCESS && !qp.signal_all && (w.flags & IBV_SEND_SIGNALED) == 0) return;
  completion c;
  c.qp = &qp;
  c.frees = slot;
  c.wc.wr_id = w.wr_id;
  c.wc.status = status;
  c.wc.qp_num = qp.qp_num;
  switch (w.opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      c.wc.opcode = IBV_WC_RDMA_WRITE;
      break;
    case IBV_WR_RDMA_READ:
      c.wc.opcode = IBV_WC_RDMA_READ;
      break;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
      c.wc.opcode = IBV_WC_COMP_SWAP;
      break;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      c.wc.opcode = IBV_WC_FETCH_ADD;
      break;
    case IBV_WR_BIND_MW:
      c.wc.opcode = IBV_WC_BIND_MW;
      break;
    case IBV_WR_LOCAL_INV:
      c.wc.opcode = IBV_WC_LOCAL_INV;
      break;
    default:
      c.wc.opcode = IBV_WC_SEND;
      break;
  }
  c.wc.byte_len = w.bytes;
  store(of(qp.send_cq), c, false);
}

/// Notes whether stored work waits. Under sending.
void note_unfinished(queue_pair& qp, bool some) noexcept {
  PENSTOCK_ASSERT(qp.sending.is_mine(), ==, true);
  if (qp.unfinished.load(std::memory_order_relaxed) == some) return;
  qp.unfinished.store(some, std::memory_order_relaxed);
  auto& here = of(qp.send_cq).unfinished;
  if (some) {
    here.fetch_add(1, std::memory_order_relaxed);
    // W3 work left  seq_cst  <-> W2
    qp.owner->unfinished.fetch_add(1, std::memory_order_seq_cst);
    qp.owner->pusher.watch();
  } else {
    [[maybe_unused]] const auto before = here.fetch_sub(1, std::memory_order_relaxed);
    PENSTOCK_ASSERT(before, !=, 0u);
    // seq_cst: in one order with W3
    qp.owner->unfinished.fetch_sub(1, std::memory_order_seq_cst);
  }
}

int check(const queue_pair& qp, const ibv_send_wr& wr) noexcept {
  if (wr.num_sge < 0 || static_cast<std::uint32_t>(wr.num_sge) > qp.works.sges()) return EINVAL;
  if (xrc_receiver(qp)) [[unlikely]]
    return EINVAL;
  const bool datagram = !connected(qp);
  switch (wr.opcode) {
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
      break;
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      if (datagram) return EINVAL;
      break;
    case IBV_WR_RDMA_READ:
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      if (!answered(qp) || (wr.send_flags & IBV_SEND_INLINE) != 0) return EINVAL;
      break;
    case IBV_WR_SEND_WITH_INV:
      if (!answered(qp)) return EINVAL;
      break;
    case IBV_WR_BIND_MW:
      if (wr.bind_mw.mw == nullptr) return EINVAL;
      if ((wr.bind_mw.bind_info.mw_access_flags & IBV_ACCESS_ZERO_BASED) != 0) return EOPNOTSUPP;
      [[fallthrough]];
    case IBV_WR_LOCAL_INV:
      if (datagram) return EINVAL;
      break;
    default:
      return EOPNOTSUPP;
  }
  return datagram && wr.wr.ud.ah == nullptr ? EINVAL : 0;
}

}  // namespace

int read_request(const queue_pair& qp, const ibv_send_wr& wr, send_work& w) noexcept {
  if (const int e = check(qp, wr)) return e;
  w.wr_id = wr.wr_id;
  w.opcode = wr.opcode;
  w.flags = wr.send_flags;
  w.imm = wr.imm_data;
  w.list = wr.sg_list;
  w.count = static_cast<std::uint32_t>(wr.num_sge);
  if (wr.opcode == IBV_WR_BIND_MW || wr.opcode == IBV_WR_LOCAL_INV) [[unlikely]] {
    w.count = 0;
    w.flags &= ~static_cast<unsigned>(IBV_SEND_INLINE);
    w.rkey = wr.invalidate_rkey;
    if (wr.opcode == IBV_WR_BIND_MW) store_window_request(w, wr);
    return 0;
  }
  std::uint64_t bytes = 0;
  for (std::uint32_t i = 0; i < w.count; ++i) bytes += wr.sg_list[i].length;
  if (bytes > max_message_bytes) return EINVAL;
  w.bytes = static_cast<std::uint32_t>(bytes);
  if ((w.flags & IBV_SEND_INLINE) != 0 && w.bytes > qp.works.inline_room()) return EINVAL;
  if (qp.qp_type == IBV_QPT_UD) {
    const auto& ah = *static_cast<const address_handle*>(wr.wr.ud.ah);
    w.datagram_to = ah.to;
    w.datagram_by_lid = ah.by_lid;
    w.datagram_qpn = wr.wr.ud.remote_qpn;
    w.datagram_qkey = wr.wr.ud.remote_qkey;
  } else if (wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
    w.remote = wr.wr.atomic.remote_addr;
    w.rkey = wr.wr.atomic.rkey;
    w.operand = wr.wr.atomic.compare_add;
    w.swap = wr.wr.atomic.swap;
  } else if (wr.opcode != IBV_WR_SEND && wr.opcode != IBV_WR_SEND_WITH_IMM &&
             wr.opcode != IBV_WR_SEND_WITH_INV) {
    w.remote = wr.wr.rdma.remote_addr;
    w.rkey = wr.wr.rdma.rkey;
  }
  if (qp.qp_type == IBV_QPT_XRC_SEND) [[unlikely]]
    w.datagram_qpn = wr.qp_type.xrc.remote_srqn;
  return 0;
}

bool push_on(queue_pair& qp) noexcept {
  PENSTOCK_ASSERT(qp.sending.is_mine(), ==, true);
  bool moved = false;
  if (qp.owner->carrier) qp.owner->carrier->advance(qp);
  while (!qp.works.idle()) {
    send_work& w = qp.works.oldest();
    ibv_wc_status why = IBV_WC_WR_FLUSH_ERR;
    const ibv_qp_state state = state_of(qp);
    outcome o = outcome::failed;
    if (state == IBV_QPS_ERR)
      why = qp.verdict.exchange(IBV_WC_WR_FLUSH_ERR, std::memory_order_relaxed);
    if (state == IBV_QPS_RTS) {
      o = qp.owner->attempt(qp, w, &why);
    } else if (state == IBV_QPS_SQD) {
      // In SQD: a request that has begun is finished, the others wait.
      o = w.at <= stage::fresh ? outcome::wait : qp.owner->attempt(qp, w, &why);
    }
    if (o == outcome::wait) break;
    const send_work done = w;
    const std::uint64_t slot = qp.works.finish();
    moved = true;
    if (o == outcome::failed && state != IBV_QPS_ERR && state != IBV_QPS_SQE) fail_sends(qp);
    finish(qp, done, slot, o == outcome::done ? IBV_WC_SUCCESS : why);
  }
  if (qp.tell_drained && state_of(qp) == IBV_QPS_SQD &&
      (qp.works.idle() || qp.works.oldest().at <= stage::fresh)) {
    qp.tell_drained = false;
    raise_qp(qp, IBV_EVENT_SQ_DRAINED);
  }
  note_unfinished(qp, !qp.works.idle());
  return moved;
}

void announce_drained(queue_pair& qp, bool wanted) noexcept {
  const hold guard(qp.sending);
  qp.tell_drained = wanted;
  push_on(qp);
}

namespace {

/// post_held(). Without quick_way no request takes the quick way, and each goes through
/// context::attempt.
template <bool quick_way>
int post_all(queue_pair& qp, ibv_send_wr* wr, ibv_send_wr** bad) noexcept {
  PENSTOCK_ASSERT(qp.sending.is_mine(), ==, true);
  const ibv_qp_state state = state_of(qp);
  if (state == IBV_QPS_RESET || state == IBV_QPS_INIT || state == IBV_QPS_RTR) {
    *bad = wr;
    return EINVAL;
  }
  if (!qp.works.idle()) push_on(qp);
  for (; wr != nullptr; wr = wr->next) {
    const bool full = qp.works.full();
    outcome quick = outcome::failed;
    const bool write = wr->opcode == IBV_WR_RDMA_WRITE || wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
    if (quick_way && !full && qp.works.idle())
      quick = write ? write_at_once(qp, *wr) : send_short(qp, *wr);
    if (quick == outcome::done) [[likely]] {
      finish_at_once(qp, *wr, write ? IBV_WC_RDMA_WRITE : IBV_WC_SEND);
      continue;
    }
    send_work w;
    int e = full ? ENOMEM : read_request(qp, *wr, w);
    if (e != 0) {
      *bad = wr;
      return e;
    }
    if (quick == outcome::wait) [[unlikely]] {
      w.at = stage::pushed;
      w.position = qp.tx.position();
    }
    if (qp.works.idle() && state_of(qp) == IBV_QPS_RTS) [[likely]] {
      ibv_wc_status why = IBV_WC_SUCCESS;
      const outcome o = quick_way ? attempt(qp, w, &why) : qp.owner->attempt(qp, w, &why);
      if (o != outcome::wait) [[likely]] {
        if (o == outcome::failed) fail_sends(qp);
        finish(qp, w, qp.works.pass(), o == outcome::done ? IBV_WC_SUCCESS : why);
        continue;
      }
    }
    qp.works.store(w);
    if (state_of(qp) == IBV_QPS_RTS || state_of(qp) == IBV_QPS_SQD)
      note_unfinished(qp, true);
    else
      push_on(qp);  // flushed
  }
  return 0;
}

}  // namespace

int post_held(queue_pair& qp, ibv_send_wr* wr, ibv_send_wr** bad) noexcept {
  return post_all<true>(qp, wr, bad);
}

int observed_post(queue_pair& qp, ibv_send_wr* wr, ibv_send_wr** bad) noexcept {
  return post_all<false>(qp, wr, bad);
}

outcome carried_attempt(queue_pair& qp, send_work& w, ibv_wc_status* why) noexcept {
  return qp.owner->carrier->attempt(qp, w, why);
}

int carried_post(queue_pair& qp, ibv_send_wr* wr, ibv_send_wr** bad) noexcept {
  PENSTOCK_ASSERT(qp.sending.is_mine(), ==, true);
  const ibv_qp_state state = state_of(qp);
  int e = state == IBV_QPS_RESET || state == IBV_QPS_INIT || state == IBV_QPS_RTR ? EINVAL : 0;
  for (; e == 0 && wr != nullptr; wr = wr->next) {
    send_work w;
    e = qp.works.full() ? ENOMEM : read_request(qp, *wr, w);
    if (e == 0 && (w.opcode == IBV_WR_BIND_MW || w.opcode == IBV_WR_LOCAL_INV ||
                   w.opcode == IBV_WR_SEND_WITH_INV))
      e = EOPNOTSUPP;
    if (e != 0) break;
    qp.works.store(w);
  }
  if (e != 0) *bad = wr;
  if (!qp.works.idle()) push_on(qp);
  return e;
}

int carried_post_send(ibv_qp* handle, ibv_send_wr* wr, ibv_send_wr** bad) noexcept {
  queue_pair& qp = of(handle);
  const hold guard(qp.sending);
  return carried_post(qp, wr, bad);
}

int post_send(ibv_qp* handle, ibv_send_wr* wr, ibv_send_wr** bad) noexcept {
  queue_pair& qp = of(handle);
  const hold guard(qp.sending);
  return post_held(qp, wr, bad);
}

int post_together(queue_pair& qp, ibv_send_wr* first, std::uint64_t count) noexcept {
  const hold guard(qp.sending);
  if (!qp.works.has_room(count)) return ENOMEM;
  for (const ibv_send_wr* wr = first; wr != nullptr && count > 1; wr = wr->next) {
    send_work w;
    if (const int e = read_request(qp, *wr, w)) return e;
  }
  ibv_send_wr* bad = nullptr;
  return qp.owner->post(qp, first, &bad);
}

}  // namespace penstock::nic::shm
