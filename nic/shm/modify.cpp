// The QP state machine: a table of the transitions and of the attributes that each needs, as in the
// specification; then the functions that carry them out.
#include <cerrno>

#include "nic/shm/context.hpp"
#include "nic/shm/peer.hpp"
#include "nic/shm/qp.hpp"
#include "nic/shm/srq.hpp"

namespace penstock::nic::shm {
namespace {

struct transition {
  ibv_qp_state from, to;
  int rc_needs, rc_may, ud_needs, ud_may, uc_needs, uc_may;
};

constexpr int timing = IBV_QP_MIN_RNR_TIMER;
constexpr int init_rc = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
constexpr int init_ud = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
constexpr int rtr_rc = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
constexpr int rts_rc =
    IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
constexpr int rtr_uc = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
constexpr int rts_may = IBV_QP_ACCESS_FLAGS | timing | IBV_QP_CUR_STATE;

constexpr int uc_may = IBV_QP_ACCESS_FLAGS | IBV_QP_CUR_STATE;
constexpr int never = -1;

constexpr transition transitions[] = {
    {IBV_QPS_RESET, IBV_QPS_INIT, init_rc, 0, init_ud, 0, init_rc, 0},
    {IBV_QPS_INIT, IBV_QPS_INIT, 0, init_rc, 0, init_ud, 0, init_rc},
    {IBV_QPS_INIT, IBV_QPS_RTR, rtr_rc, IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX, 0,
     IBV_QP_PKEY_INDEX | IBV_QP_QKEY, rtr_uc, IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
    {IBV_QPS_RTR, IBV_QPS_RTS, rts_rc, rts_may, IBV_QP_SQ_PSN, IBV_QP_CUR_STATE | IBV_QP_QKEY,
     IBV_QP_SQ_PSN, uc_may},
    {IBV_QPS_RTS, IBV_QPS_RTS, 0, rts_may, 0, IBV_QP_CUR_STATE | IBV_QP_QKEY, 0, uc_may},
    {IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY, 0,
     IBV_QP_EN_SQD_ASYNC_NOTIFY},
    {IBV_QPS_SQD, IBV_QPS_RTS, 0, rts_may, 0, IBV_QP_CUR_STATE | IBV_QP_QKEY, 0, uc_may},
    {IBV_QPS_SQD, IBV_QPS_SQD, 0, rts_may | rts_rc, 0, IBV_QP_QKEY, 0, IBV_QP_ACCESS_FLAGS},
    {IBV_QPS_SQE, IBV_QPS_RTS, never, 0, 0, IBV_QP_CUR_STATE | IBV_QP_QKEY, 0, uc_may},
};

/// 0 or EINVAL.
int allowed(ibv_qp_type type, ibv_qp_state from, ibv_qp_state to, int mask) noexcept {
  mask &= ~IBV_QP_STATE;
  if (to == IBV_QPS_RESET || to == IBV_QPS_ERR) return mask == 0 ? 0 : EINVAL;
  for (const transition& t : transitions) {
    if (t.from != from || t.to != to) continue;
    if (type == IBV_QPT_XRC_SEND || type == IBV_QPT_XRC_RECV) {
      // As RC; each end may omit the attributes that concern only the other end.
      constexpr int of_one_end = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER |
                                 IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
      const int needs = t.rc_needs & ~of_one_end;
      const int may = t.rc_may | t.rc_needs;
      if (t.rc_needs == never) return EINVAL;
      return (mask & needs) == needs && (mask & ~may) == 0 ? 0 : EINVAL;
    }
    const int needs = type == IBV_QPT_RC   ? t.rc_needs
                      : type == IBV_QPT_UC ? t.uc_needs
                                           : t.ud_needs;
    const int may = type == IBV_QPT_RC ? t.rc_may : type == IBV_QPT_UC ? t.uc_may : t.ud_may;
    if (needs == never) return EINVAL;
    return (mask & needs) == needs && (mask & ~(needs | may)) == 0 ? 0 : EINVAL;
  }
  return EINVAL;
}

int check_values(const ibv_qp_attr& a, int mask, std::uint32_t reads) noexcept {
  if ((mask & IBV_QP_PORT) != 0 && a.port_num != 1) return EINVAL;
  if ((mask & IBV_QP_PKEY_INDEX) != 0 && a.pkey_index != 0) return EINVAL;
  if ((mask & IBV_QP_AV) != 0 && a.ah_attr.port_num != 1) return EINVAL;
  if ((mask & IBV_QP_PATH_MTU) != 0 && (a.path_mtu < IBV_MTU_256 || a.path_mtu > IBV_MTU_4096))
    return EINVAL;
  if ((mask & IBV_QP_MIN_RNR_TIMER) != 0 && a.min_rnr_timer > 31) return EINVAL;
  if ((mask & IBV_QP_TIMEOUT) != 0 && a.timeout > 31) return EINVAL;
  if ((mask & IBV_QP_RETRY_CNT) != 0 && a.retry_cnt > 7) return EINVAL;
  if ((mask & IBV_QP_RNR_RETRY) != 0 && a.rnr_retry > 7) return EINVAL;
  if ((mask & IBV_QP_MAX_QP_RD_ATOMIC) != 0 && a.max_rd_atomic > reads) return EINVAL;
  if ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) != 0 && a.max_dest_rd_atomic > reads) return EINVAL;
  return 0;
}

void take_values(queue_pair& qp, const ibv_qp_attr& a, int mask) noexcept {
  ibv_qp_attr& own = qp.attr;
  if ((mask & IBV_QP_PORT) != 0) own.port_num = a.port_num;
  if ((mask & IBV_QP_PKEY_INDEX) != 0) own.pkey_index = a.pkey_index;
  if ((mask & IBV_QP_ACCESS_FLAGS) != 0) own.qp_access_flags = a.qp_access_flags;
  if ((mask & IBV_QP_QKEY) != 0) own.qkey = a.qkey;
  if ((mask & IBV_QP_AV) != 0) own.ah_attr = a.ah_attr;
  if ((mask & IBV_QP_PATH_MTU) != 0) own.path_mtu = a.path_mtu;
  if ((mask & IBV_QP_DEST_QPN) != 0) own.dest_qp_num = a.dest_qp_num;
  if ((mask & IBV_QP_RQ_PSN) != 0) own.rq_psn = a.rq_psn;
  if ((mask & IBV_QP_SQ_PSN) != 0) own.sq_psn = a.sq_psn;
  if ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) != 0) own.max_dest_rd_atomic = a.max_dest_rd_atomic;
  if ((mask & IBV_QP_MAX_QP_RD_ATOMIC) != 0) own.max_rd_atomic = a.max_rd_atomic;
  if ((mask & IBV_QP_MIN_RNR_TIMER) != 0) own.min_rnr_timer = a.min_rnr_timer;
  if ((mask & IBV_QP_TIMEOUT) != 0) own.timeout = a.timeout;
  if ((mask & IBV_QP_RETRY_CNT) != 0) own.retry_cnt = a.retry_cnt;
  if ((mask & IBV_QP_RNR_RETRY) != 0) own.rnr_retry = a.rnr_retry;
  const hold guard(qp.sending);
  qp.qkey.store(own.qkey, std::memory_order_relaxed);
  qp.rnr_retry = own.rnr_retry;
  qp.sq_psn = own.sq_psn;
  qp.reads_at_once = own.max_rd_atomic;
  // An unreachable peer is tried retry_cnt more times, each time for 4.096 us * 2^timeout.
  qp.transport_ns =
      own.timeout == 0 ? 0 : (std::uint64_t{4096} << own.timeout) * (own.retry_cnt + 1u);
  qp.shown->access.store(own.qp_access_flags, std::memory_order_relaxed);
  qp.shown->min_rnr_timer.store(own.min_rnr_timer, std::memory_order_relaxed);
  qp.shown->reads_allowed.store(own.max_dest_rd_atomic, std::memory_order_relaxed);
}

/// INIT to RTR: fixes the peer. Its process is contacted here; its QP is looked up at the first
/// send.
int connect(queue_pair& qp, const ibv_qp_attr& a) {
  nonce to;
  if (const int e = resolve(*qp.owner, a.ah_attr, to)) return e;
  if (qp.owner->carrier) return qp.owner->carrier->connect(qp, a);
  const nonce name = qp.owner->context_at(to, a.dest_qp_num);
  auto p = find_peer(*qp.owner, name);
  if (!p) return errno;
  const hold guard(qp.sending);
  qp.dest.store(a.dest_qp_num, std::memory_order_relaxed);
  qp.dest_high.store(name.high, std::memory_order_relaxed);
  qp.dest_low.store(name.low, std::memory_order_relaxed);
  // N1 name  store-release peer_id  -> N2 (link.cpp, onesided.cpp, pusher.cpp)
  qp.peer_id.store(p->id, std::memory_order_release);
  qp.remote = std::move(p);
  qp.shown->dest_qpn.store(a.dest_qp_num, std::memory_order_relaxed);
  qp.shown->dest_high.store(name.high, std::memory_order_relaxed);
  qp.shown->dest_low.store(name.low, std::memory_order_relaxed);
  return 0;
}

/// Back to RESET: nothing is outstanding, posted or uncollected, and no peer writes to the ring.
void reset(queue_pair& qp) noexcept {
  context& c = *qp.owner;
  {
    const std::lock_guard guard(c.objects);
    qp.generation = c.next_generation(qp.index);
  }
  // QS1 turn  release now  -> QS2 (qp.hpp)
  qp.now.store(IBV_QPS_RESET, std::memory_order_release);
  say_taken(qp);
  publish_life(qp, qp_public::none);
  if (!connected(qp)) forget_datagrams(qp);
  disconnect(qp);
  purge(of(qp.send_cq), qp);
  purge(of(qp.recv_cq), qp);
  clear_entry(*qp.shown);
  qp.attr = {};
}

}  // namespace

// The field `state` is libibverbs': it notes there what its caller set or asked for. The engine
// calls these two without libibverbs, so they do the same.
int modify_qp(ibv_qp* handle, ibv_qp_attr* a, int mask) {
  queue_pair& qp = of(handle);
  if (const int e = refusal(*qp.owner, verb::modify_qp)) return e;
  const std::lock_guard guard(qp.control);
  const ibv_qp_state from = state_of(qp);
  if ((mask & IBV_QP_CUR_STATE) != 0 && a->cur_qp_state != from) return EINVAL;
  const ibv_qp_state to = (mask & IBV_QP_STATE) != 0 ? a->qp_state : from;
  constexpr int unsupported =
      IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE | IBV_QP_CAP | IBV_QP_RATE_LIMIT;
  if ((mask & unsupported) != 0) return EOPNOTSUPP;
  if (const int e = allowed(qp.qp_type, from, to, mask)) return e;
  if (const int e = check_values(*a, mask, qp.owner->plays.limits.reads)) return e;
  if (to == IBV_QPS_RESET) {
    if (from != IBV_QPS_RESET) reset(qp);
    qp.state = to;
    return 0;
  }
  if (to == IBV_QPS_ERR) {
    if (from == IBV_QPS_RESET) return EINVAL;
    enter_error(qp);
    absorb(of(qp.send_cq));
    if (qp.recv_cq != qp.send_cq) absorb(of(qp.recv_cq));
    qp.state = to;
    return 0;
  }
  if (from == IBV_QPS_RESET && connected(qp) && qp.ring == 0)  // it has been reset
    if (const int e = new_ring(qp)) return e;
  if (from == IBV_QPS_INIT && to == IBV_QPS_RTR && connected(qp))
    if (const int e = connect(qp, *a)) return e;
  take_values(qp, *a, mask);
  ibv_qp_state expected = from;
  // QS1 turn  acq_rel now  -> QS2 (qp.hpp): the values were taken before
  if (!qp.now.compare_exchange_strong(expected, to, std::memory_order_acq_rel,
                                      std::memory_order_acquire))
    return EINVAL;  // the QP broke meanwhile
  if ((mask & IBV_QP_STATE) != 0) qp.state = to;
  if (to == IBV_QPS_INIT) publish_life(qp, qp_public::made);
  if (from == IBV_QPS_INIT && to == IBV_QPS_RTR) publish_life(qp, qp_public::ready);
  if (from == IBV_QPS_SQD && to == IBV_QPS_RTS) qp.owner->pusher.kick();
  if (to == IBV_QPS_SQD && from == IBV_QPS_RTS)
    announce_drained(qp, (mask & IBV_QP_EN_SQD_ASYNC_NOTIFY) != 0 && a->en_sqd_async_notify != 0);
  return 0;
}

int query_qp(ibv_qp* handle, ibv_qp_attr* a, int mask, ibv_qp_init_attr* init) noexcept {
  queue_pair& qp = of(handle);
  const std::lock_guard guard(qp.control);
  *a = qp.attr;
  a->qp_state = a->cur_qp_state = state_of(qp);
  if ((mask & IBV_QP_STATE) != 0) qp.state = a->qp_state;
  a->cap = qp.init.cap;
  a->path_mig_state = IBV_MIG_MIGRATED;
  *init = qp.init;
  return 0;
}

}  // namespace penstock::nic::shm
