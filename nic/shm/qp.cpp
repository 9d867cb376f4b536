// Queue pairs: creating, breaking, destroying. The state machine is in modify.cpp.
#include "nic/shm/qp.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>

#include "lib/base/assert.hpp"
#include "nic/shm/boundary.hpp"
#include "nic/shm/context.hpp"
#include "nic/shm/peer.hpp"
#include "nic/shm/srq.hpp"

namespace penstock::nic::shm {
namespace {

/// Whether a poll of that queue looks elsewhere than in a ring for what comes to this queue pair.
bool without_ring(const completion_queue& cq, const queue_pair& qp) noexcept {
  return qp.owner->carrier || (&cq == qp.recv_cq && !connected(qp));
}

void join(completion_queue& cq, queue_pair& qp) {
  const hold guard(cq.poll);
  const bool apart = without_ring(cq, qp);
  if (&cq == qp.recv_cq && !apart) cq.rings.push_back(&qp);
  cq.members.push_back(&qp);  // the last that asks for memory: leave() tells by it
  if (apart) cq.datagram_qps.fetch_add(1, std::memory_order_relaxed);
}

void leave(completion_queue& cq, queue_pair& qp) noexcept {
  const hold guard(cq.poll);
  for (auto* list : {&cq.rings, &cq.hot}) std::erase(*list, &qp);
  purge(cq, qp);
  if (std::erase(cq.members, &qp) != 0 && without_ring(cq, qp)) {
    [[maybe_unused]] const auto before = cq.datagram_qps.fetch_sub(1, std::memory_order_relaxed);
    PENSTOCK_ASSERT(before, !=, 0u);
  }
}

/// Checks the attributes against the limits: 0 or an errno.
int check(const context& c, const ibv_qp_init_attr& a) noexcept {
  const bool xrc = a.qp_type == IBV_QPT_XRC_SEND || a.qp_type == IBV_QPT_XRC_RECV;
  if (a.qp_type != IBV_QPT_RC && a.qp_type != IBV_QPT_UC && a.qp_type != IBV_QPT_UD && !xrc)
    return EOPNOTSUPP;
  if (xrc && c.carrier) return EOPNOTSUPP;
  if (xrc && a.srq != nullptr) return EINVAL;
  if (a.send_cq == nullptr || a.recv_cq == nullptr) return EINVAL;
  if (of(a.send_cq).owner != &c || of(a.recv_cq).owner != &c) return EINVAL;
  const ibv_qp_cap& cap = a.cap;
  const device_limits& most = c.plays.limits;
  const bool receives = a.srq == nullptr;  // else what is said of a receive queue is ignored
  const bool bad = cap.max_send_wr > most.qp_wr || cap.max_send_sge > most.sge ||
                   cap.max_inline_data > most.inline_bytes ||
                   (receives && (cap.max_recv_wr > most.qp_wr || cap.max_recv_sge > most.sge));
  return bad ? EINVAL : 0;
}

}  // namespace

int new_ring(queue_pair& qp) {
  context& c = *qp.owner;
  if (c.carrier) return 0;
  constexpr ring_geometry geometry;
  const std::lock_guard objects(c.objects);
  c.retired.reserve(std::bit_ceil(c.retired.size() + c.rings + 1));  // disconnect() asks for none
  // A QP that sends takes the rest of the memory as it is used.
  const std::uint64_t offset =
      c.memory.carve(geometry.memory(), ring_length::holding(1, 0).memory());
  if (offset == 0) return errno;
  ++c.rings;
  {
    const hold guard(of(qp.recv_cq).poll);  // others look at the ring of a QP that is reset
    qp.ring = offset;
    qp.rx = ring_rx(ring_memory(c.memory.at(offset), geometry));
  }
  qp.shown->ring.store(offset, std::memory_order_relaxed);
  qp.shown->ring_slots.store(geometry.slots, std::memory_order_relaxed);
  qp.shown->ring_data.store(geometry.data_bytes, std::memory_order_relaxed);
  return 0;
}

void clear_entry(qp_entry& e) noexcept {
  e.nak.store(0, std::memory_order_relaxed);
  e.posted.store(0, std::memory_order_relaxed);
  e.dest_qpn.store(0, std::memory_order_relaxed);
  e.claims.store(0, std::memory_order_relaxed);
  e.touching.store(0, std::memory_order_relaxed);
}

void say_taken(queue_pair& qp) noexcept {
  if (qp.ring == 0 || qp.direct.load(std::memory_order_relaxed)) return;
  const hold guard(of(qp.recv_cq).poll);
  qp.rx.publish();
}

void publish_life(queue_pair& qp, qp_public s) noexcept {
  // L1 life  store-release life  -> L2 (link.cpp, send.cpp): what the entry says belongs to this
  // life
  qp.shown->life.store(life_word(qp.generation, s), std::memory_order_release);
}

ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* init) {
  if (init->qp_type == IBV_QPT_XRC_RECV) return errno = EINVAL, nullptr;
  if (init->qp_type == IBV_QPT_XRC_SEND) init->recv_cq = init->send_cq;  // this QP receives nothing
  return make_qp(of(pd->context), pd->context, pd, init, nullptr);
}

ibv_qp* create_xrc_receiver(ibv_context* handle, ibv_qp_init_attr* init, xrc_domain& domain) {
  ibv_qp_init_attr a = *init;
  a.send_cq = a.recv_cq = domain.rings;
  a.cap = {};
  a.srq = nullptr;
  return make_qp(of(handle), handle, nullptr, &a, &domain);
}

ibv_qp* make_qp(context& c, ibv_context* handle, ibv_pd* pd, ibv_qp_init_attr* init,
                xrc_domain* domain) {
  if (const int e = refusal(c, verb::create_qp)) return errno = e, nullptr;
  if (const int e = check(c, *init)) return errno = e, nullptr;
  {
    const std::lock_guard guard(c.objects);
    if (c.qps.size() >= c.plays.limits.qp) return errno = ENOMEM, nullptr;
  }
  auto blank = std::make_unique<queue_pair>();
  ibv_qp_cap& cap = init->cap;
  // Inline data that fit a slot cost nothing more.
  const auto free_inline =
      std::min(static_cast<std::uint32_t>(slot_body), c.plays.limits.inline_bytes);
  cap.max_inline_data = std::max(cap.max_inline_data, free_inline);
  cap.max_send_sge = std::max(cap.max_send_sge, 1u);
  cap.max_recv_sge = std::max(cap.max_recv_sge, 1u);
  cap.max_send_wr = std::max(cap.max_send_wr, 1u);
  if (init->srq != nullptr) cap.max_recv_wr = 0, cap.max_recv_sge = 1;
  blank->works.size(cap.max_send_wr, cap.max_send_sge, cap.max_inline_data);
  blank->receives.size(std::max(cap.max_recv_wr, 1u), cap.max_recv_sge);
  if (c.carrier) blank->way = c.carrier->make(*blank);
  int index;
  do index = c.memory.take_entry(table::qp);
  while (index >= 0 && static_cast<std::uint32_t>(index) < first_qp);  // 0 and 1 stay taken
  if (index < 0) return nullptr;
  const auto i = static_cast<std::uint32_t>(index);
  // From here on destroy_qp() takes it apart, whatever of it has been entered.
  std::unique_ptr<queue_pair, destroyed_by<destroy_qp>> qp(blank.release());
  qp->context = handle;
  qp->qp_context = init->qp_context;
  qp->pd = pd;
  qp->send_cq = init->send_cq;
  qp->recv_cq = init->recv_cq;
  qp->srq = init->srq;
  qp->qp_type = init->qp_type;
  qp->owner = &c;
  qp->index = i;
  qp->shown = &c.memory.entry<qp_entry>(table::qp, i);
  qp->pd_number = pd != nullptr ? of(pd).number : 0;
  qp->domain = domain;
  qp->signal_all = init->sq_sig_all != 0;
  {
    const std::lock_guard guard(c.objects);
    qp->generation = c.next_generation(i);
  }
  qp->qp_num = qp->handle = c.number_of(i, qp->generation);
  qp->init = *init;
  clear_entry(*qp->shown);
  qp->shown->qpn.store(qp->qp_num, std::memory_order_relaxed);
  qp->shown->recv_cq.store(of(init->recv_cq).index, std::memory_order_relaxed);
  qp->shown->pd.store(qp->pd_number, std::memory_order_relaxed);
  qp->shown->domain.store(domain != nullptr ? domain->number : 0, std::memory_order_relaxed);
  qp->shown->srq.store(init->srq != nullptr ? of(init->srq).index + 1 : 0,
                       std::memory_order_relaxed);
  if (init->srq != nullptr) qp->shared_receives = &of(init->srq);
  pthread_mutex_init(&qp->mutex, nullptr);
  pthread_cond_init(&qp->cond, nullptr);
  if (pd != nullptr) of(pd).users.begin();
  if (domain != nullptr) domain->users.begin();
  of(init->send_cq).users.begin();
  of(init->recv_cq).users.begin();
  if (init->srq != nullptr) of(init->srq).users.begin();
  c.live.begin();
  if (const int e = connected(*qp) ? new_ring(*qp) : 0) return qp.reset(), errno = e, nullptr;
  join(of(init->send_cq), *qp);
  if (init->recv_cq != init->send_cq) join(of(init->recv_cq), *qp);
  if (c.play) c.play->know(*qp);
  const std::lock_guard guard(c.objects);
  make_room(c.qps);
  if (c.watched) c.watched->know(*qp);
  c.qps.push_back(qp.get());
  return qp.release();
}

int destroy_qp(ibv_qp* handle) noexcept {
  queue_pair& qp = of(handle);
  context& c = *qp.owner;
  if (c.play) c.play->forget(qp);
  {
    const std::lock_guard guard(c.objects);
    std::erase(c.qps, &qp);
  }
  c.pusher.let_go();
  forget_datagrams(qp);
  // Else a thread that takes in what peers send could complete a receive behind leave()'s purge.
  if (c.carrier) c.carrier->disconnect(qp);
  leave(of(qp.send_cq), qp);
  if (qp.recv_cq != qp.send_cq) leave(of(qp.recv_cq), qp);
  say_taken(qp);
  publish_life(qp, qp_public::none);
  disconnect(qp);
  c.events.withdraw([&](const async_event& e) { return e.delivered == &qp.async_delivered; });
  pthread_mutex_lock(&qp.mutex);
  while (qp.events_completed != qp.async_delivered.load(std::memory_order_relaxed))
    pthread_cond_wait(&qp.cond, &qp.mutex);
  pthread_mutex_unlock(&qp.mutex);
  if (c.watched) c.watched->forget(qp);
  c.memory.free_entry(table::qp, qp.index);
  if (qp.pd != nullptr) of(qp.pd).users.end();
  of(qp.send_cq).users.end();
  of(qp.recv_cq).users.end();
  if (qp.shared_receives != nullptr) qp.shared_receives->users.end();
  if (qp.domain != nullptr) qp.domain->users.end();
  c.live.end();
  pthread_cond_destroy(&qp.cond);
  pthread_mutex_destroy(&qp.mutex);
  delete &qp;
  return 0;
}

void raise_qp(queue_pair& qp, ibv_event_type type) noexcept {
  raise(*qp.owner, type, {.qp = &qp}, &qp.async_delivered);
}

void enter_error(queue_pair& qp, ibv_wc_status nak) noexcept {
  ibv_qp_state state = state_of(qp);
  // QS1 break  acq_rel now  -> QS2 (qp.hpp): the verdict was stored before
  do {
    if (state == IBV_QPS_ERR || state == IBV_QPS_RESET) return;
  } while (!qp.now.compare_exchange_weak(state, IBV_QPS_ERR, std::memory_order_acq_rel,
                                         std::memory_order_acquire));
  qp.shown->nak.store(nak, std::memory_order_relaxed);
  publish_life(qp, qp_public::error);
  for (ibv_cq* cq : {qp.send_cq, qp.recv_cq}) of(cq).attention.raise();
  qp.owner->pusher.kick();  // it flushes the queues that no thread polls
}

void fail_sends(queue_pair& qp) noexcept {
  if (answered(qp)) return enter_error(qp);
  ibv_qp_state state = IBV_QPS_RTS;
  // acq_rel: as in enter_error()
  qp.now.compare_exchange_strong(state, IBV_QPS_SQE, std::memory_order_acq_rel,
                                 std::memory_order_acquire);
}

}  // namespace penstock::nic::shm
