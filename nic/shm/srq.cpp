#include "nic/shm/srq.hpp"

#include <algorithm>
#include <cerrno>
#include <limits>
#include <memory>

#include "lib/base/assert.hpp"
#include "nic/shm/boundary.hpp"
#include "nic/shm/context.hpp"
#include "nic/shm/limits.hpp"

namespace penstock::nic::shm {

bool take(shared_receive_queue& srq, receive_work& w, ibv_sge* list) noexcept {
  bool low = false;
  {
    const hold guard(srq.works.lock);
    if (!srq.works.take(w, list)) return false;
    if (srq.limit != 0 && srq.works.size() < srq.limit) {
      PENSTOCK_ASSERT(srq.limit, <=, srq.works.capacity());
      srq.limit = 0;  // once per arming
      low = true;
    }
  }
  if (low) raise(*srq.owner, IBV_EVENT_SRQ_LIMIT_REACHED, {.srq = &srq}, &srq.async_delivered);
  return true;
}

int post_srq_recv(ibv_srq* handle, ibv_recv_wr* wr, ibv_recv_wr** bad) noexcept {
  shared_receive_queue& srq = of(handle);
  const hold guard(srq.works.lock);
  std::int64_t added = 0;
  int e = 0;
  const std::uint32_t pd = of(srq.pd).number;
  for (; wr != nullptr; wr = wr->next, ++added)
    if ((e = srq.works.post(*wr)) != 0) {
      *bad = wr;
      break;
    } else if (!may_fill(srq.owner->regions, pd, *wr)) [[unlikely]] {
      srq.works.doubt();
    }
  // It never rises: a message that was claimed before may get a receive that is posted later.
  srq.shown->floor.store(
      std::min(srq.shown->floor.load(std::memory_order_relaxed), srq.works.floor()),
      std::memory_order_relaxed);
  srq.shown->posted.store(srq.works.posted(), std::memory_order_relaxed);
  PENSTOCK_ASSERT(srq.shown->floor.load(std::memory_order_relaxed), <=, srq.works.floor());
  // S1 posted  release available  -> S2: a sender that claims one sees a floor that holds for it
  if (added != 0) srq.shown->available.fetch_add(added, std::memory_order_release);
  return e;
}

ibv_srq* create_srq(ibv_pd* pd, ibv_srq_init_attr* init) {
  context& c = of(pd->context);
  const device_limits& most = c.plays.limits;
  if (const int e = refusal(c, verb::create_srq)) return errno = e, nullptr;
  if (most.srq == 0 || most.srq_wr == 0) return errno = EOPNOTSUPP, nullptr;
  if (init->attr.max_wr == 0 || init->attr.max_wr > most.srq_wr || init->attr.max_sge > most.sge)
    return errno = EINVAL, nullptr;
  auto srq = std::make_unique<shared_receive_queue>();
  srq->works.size(init->attr.max_wr, std::max(init->attr.max_sge, 1u));
  const std::lock_guard guard(c.objects);
  if (c.shared_queues.size() >= most.srq) return errno = ENOMEM, nullptr;
  make_room(c.shared_queues);
  const int index = c.memory.take_entry(table::srq);
  if (index < 0) return nullptr;
  srq->context = pd->context;
  srq->srq_context = init->srq_context;
  srq->pd = pd;
  srq->handle = srq->index = static_cast<std::uint32_t>(index);
  srq->owner = &c;
  srq->shown = &c.memory.entry<srq_entry>(table::srq, srq->index);
  srq->shown->available.store(0, std::memory_order_relaxed);
  srq->shown->posted.store(0, std::memory_order_relaxed);
  srq->shown->floor.store(std::numeric_limits<std::uint32_t>::max(), std::memory_order_relaxed);
  srq->shown->domain.store(0, std::memory_order_relaxed);
  init->attr.max_sge = srq->works.sges();
  pthread_mutex_init(&srq->mutex, nullptr);
  pthread_cond_init(&srq->cond, nullptr);
  of(pd).users.begin();
  c.live.begin();
  c.shared_queues.push_back(srq.get());
  return srq.release();
}

int modify_srq(ibv_srq* handle, ibv_srq_attr* attr, int mask) {
  shared_receive_queue& srq = of(handle);
  if ((mask & IBV_SRQ_MAX_WR) != 0) {
    const personality& plays = srq.owner->plays;
    if (!plays.resizes) return EOPNOTSUPP;
    if (attr->max_wr == 0 || attr->max_wr > plays.limits.srq_wr) return EINVAL;
    const hold guard(srq.works.lock);
    if (attr->max_wr < srq.limit) return EINVAL;
    if (const int e = srq.works.resize(attr->max_wr); e != 0) return e;
  }
  if ((mask & IBV_SRQ_LIMIT) != 0) {
    const hold guard(srq.works.lock);
    if (attr->srq_limit > srq.works.capacity()) return EINVAL;
    srq.limit = attr->srq_limit;
  }
  return 0;
}

int query_srq(ibv_srq* handle, ibv_srq_attr* attr) noexcept {
  shared_receive_queue& srq = of(handle);
  const hold guard(srq.works.lock);
  *attr = {srq.works.capacity(), srq.works.sges(), srq.limit};
  return 0;
}

int destroy_srq(ibv_srq* handle) noexcept {
  shared_receive_queue& srq = of(handle);
  context& c = *srq.owner;
  if (!srq.users.none()) return EBUSY;
  if (srq.domain != nullptr) forget_queue(srq);
  {
    const std::lock_guard guard(c.objects);
    std::erase(c.shared_queues, &srq);
  }
  c.events.withdraw([&](const async_event& e) { return e.delivered == &srq.async_delivered; });
  pthread_mutex_lock(&srq.mutex);
  while (srq.events_completed != srq.async_delivered.load(std::memory_order_relaxed))
    pthread_cond_wait(&srq.cond, &srq.mutex);
  pthread_mutex_unlock(&srq.mutex);
  c.memory.free_entry(table::srq, srq.index);
  of(srq.pd).users.end();
  pthread_cond_destroy(&srq.cond);
  pthread_mutex_destroy(&srq.mutex);
  c.live.end();
  delete &srq;
  return 0;
}

}  // namespace penstock::nic::shm
