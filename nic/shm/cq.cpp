// Completion queues: creating, storing completions, waking sleepers. Polling is in poll.cpp.
#include "nic/shm/cq.hpp"

#include <algorithm>
#include <cerrno>
#include <memory>

#include "lib/base/assert.hpp"
#include "nic/shm/boundary.hpp"
#include "nic/shm/context.hpp"
#include "nic/shm/limits.hpp"
#include "nic/shm/qp.hpp"

namespace penstock::nic::shm {
void wake(completion_queue& cq, bool solicited) noexcept {
  PENSTOCK_ASSERT(cq.queue_lock.is_mine(), ==, true);
  const std::uint32_t armed = cq.armed.load(std::memory_order_relaxed);
  if (armed == 0 || (armed == 1 && !solicited)) return;
  cq.armed.store(0, std::memory_order_relaxed);
  cq.bell->bell.store(bell_off, std::memory_order_relaxed);
  if (cq.events != nullptr) cq.events->push(&cq);
}

void store(completion_queue& cq, const completion& c, bool solicited) noexcept {
  if (assertions && c.wc.status != IBV_WC_SUCCESS && c.qp != nullptr)  // who has it finds it broken
    PENSTOCK_ASSERT(state_of(*c.qp), !=, IBV_QPS_RTS);
  {
    const hold guard(cq.queue_lock);
    const std::uint32_t n = cq.stored.load(std::memory_order_relaxed);
    if (n < static_cast<std::uint32_t>(cq.cqe)) {
      PENSTOCK_ASSERT(n, <, cq.queue.size());
      cq.queue[(cq.head + n) & (cq.queue.size() - 1)] = c;
      // C1 stored  release stored  -> C2: a poller that sees the count takes the lock anyway
      cq.stored.store(n + 1, std::memory_order_release);
      if (c.datagram) cq.owner->datagrams.fetch_add(1, std::memory_order_release);
      wake(cq, solicited || c.wc.status != IBV_WC_SUCCESS);
      return;
    }
    if (cq.overrun) return;
    cq.overrun = true;
  }
  raise(*cq.owner, IBV_EVENT_CQ_ERR, {.cq = &cq}, &cq.async_delivered);
  if (c.qp != nullptr) enter_error(*c.qp);
}

void announce(completion_queue& cq, bool solicited) noexcept {
  if (cq.armed.load(std::memory_order_relaxed) == 0) return;
  const hold guard(cq.queue_lock);
  wake(cq, solicited);
}

void purge(completion_queue& cq, const queue_pair& qp) noexcept {
  const hold guard(cq.queue_lock);
  const std::uint64_t mask = cq.queue.size() - 1;
  const std::uint32_t n = cq.stored.load(std::memory_order_relaxed);
  std::uint32_t kept = 0;
  for (std::uint32_t i = 0; i < n; ++i) {
    const completion& c = cq.queue[(cq.head + i) & mask];
    if (c.qp != &qp) {
      cq.queue[(cq.head + kept++) & mask] = c;
    } else if (c.datagram) {
      [[maybe_unused]] const auto before =
          cq.owner->datagrams.fetch_sub(1, std::memory_order_relaxed);
      PENSTOCK_ASSERT(before, !=, 0u);
    }
  }
  PENSTOCK_ASSERT(kept, <=, n);
  cq.stored.store(kept,
                  std::memory_order_relaxed);  // relaxed: a poller that sees some takes the lock
}

ibv_comp_channel* create_comp_channel(ibv_context* handle) {
  if (const int e = refusal(of(handle), verb::create_comp_channel)) return errno = e, nullptr;
  auto ch = std::make_unique<completion_channel>();
  if (const int e = ch->events.open()) return errno = e, nullptr;
  ch->context = handle;
  ch->fd = ch->events.fd();
  of(handle).live.begin();
  return ch.release();
}

int destroy_comp_channel(ibv_comp_channel* channel) noexcept {
  context& c = of(channel->context);
  {
    const std::lock_guard guard(c.objects);
    if (channel->refcnt != 0) return EBUSY;
  }
  c.live.end();
  delete static_cast<completion_channel*>(channel);
  return 0;
}

ibv_cq* create_cq(ibv_context* handle, int cqe, void* cq_context, ibv_comp_channel* channel,
                  int vector) {
  channel_events* events =
      channel != nullptr ? &static_cast<completion_channel*>(channel)->events : nullptr;
  ibv_cq* cq = make_cq(handle, cqe, cq_context, channel, events, vector);
  if (cq == nullptr || channel == nullptr) return cq;
  const std::lock_guard guard(of(handle).objects);
  of(cq).counts_channel = true;
  ++channel->refcnt;
  return cq;
}

ibv_cq* make_cq(ibv_context* handle, int cqe, void* cq_context, ibv_comp_channel* channel,
                channel_events* events, int vector) {
  context& c = of(handle);
  if (const int e = refusal(c, verb::create_cq)) return errno = e, nullptr;
  if (cqe < 1 || static_cast<std::uint32_t>(cqe) > c.plays.limits.cqe || vector != 0)
    return errno = EINVAL, nullptr;
  {
    const std::lock_guard guard(c.objects);
    if (c.cqs.size() >= c.plays.limits.cq) return errno = ENOMEM, nullptr;
  }
  auto cq = std::make_unique<completion_queue>();
  cq->queue.resize(places_for(cqe));
  cq->hot.reserve(16);
  const std::lock_guard guard(c.objects);
  make_room(c.cqs);
  const int index = c.memory.take_entry(table::cq);
  if (index < 0) return nullptr;
  cq->context = handle;
  cq->channel = channel;
  cq->cq_context = cq_context;
  cq->handle = cq->index = static_cast<std::uint32_t>(index);
  cq->cqe = cqe;
  cq->owner = &c;
  cq->events = events;
  cq->bell = &c.memory.entry<cq_entry>(table::cq, cq->index);
  cq->bell->bell.store(bell_off, std::memory_order_relaxed);
  pthread_mutex_init(&cq->mutex, nullptr);
  pthread_cond_init(&cq->cond, nullptr);
  c.live.begin();
  c.cqs.push_back(cq.get());
  return cq.release();
}

int resize_cq(ibv_cq* handle, int cqe) {
  completion_queue& cq = of(handle);
  if (!cq.owner->plays.resizes) return EOPNOTSUPP;
  if (cqe < 1 || static_cast<std::uint32_t>(cqe) > cq.owner->plays.limits.cqe) return EINVAL;
  untouched_vector<completion> room(places_for(cqe));
  const hold poll(cq.poll);
  const hold guard(cq.queue_lock);
  const std::uint32_t n = cq.stored.load(std::memory_order_relaxed);
  if (n > static_cast<std::uint32_t>(cqe)) return EINVAL;  // stored completions are not thrown away
  for (std::uint32_t i = 0; i < n; ++i) room[i] = cq.queue[(cq.head + i) & (cq.queue.size() - 1)];
  cq.queue.swap(room);
  cq.head = 0;
  cq.cqe = cqe;
  return 0;
}

int destroy_cq(ibv_cq* handle) noexcept {
  completion_queue& cq = of(handle);
  context& c = *cq.owner;
  {
    const std::lock_guard guard(c.objects);
    if (!cq.users.none()) return EBUSY;
    c.cqs.erase(std::find(c.cqs.begin(), c.cqs.end(), &cq));
    if (cq.counts_channel) --cq.channel->refcnt;
  }
  c.pusher.let_go();
  if (cq.events != nullptr) cq.events->withdraw([&](completion_queue* e) { return e == &cq; });
  c.events.withdraw([&](const async_event& e) { return e.delivered == &cq.async_delivered; });
  // Events that were handed out name this queue until the program acknowledges them.
  pthread_mutex_lock(&cq.mutex);
  while (cq.comp_events_completed != cq.events_delivered ||
         cq.async_events_completed != cq.async_delivered.load(std::memory_order_relaxed))
    pthread_cond_wait(&cq.cond, &cq.mutex);
  pthread_mutex_unlock(&cq.mutex);
  c.memory.free_entry(table::cq, cq.index);
  pthread_cond_destroy(&cq.cond);
  pthread_mutex_destroy(&cq.mutex);
  c.live.end();
  delete &cq;
  return 0;
}

int next_event(channel_events& events, completion_queue** cq) noexcept {
  if (events.pop(*cq) != 0) return -1;
  pthread_mutex_lock(&(*cq)->mutex);
  ++(*cq)->events_delivered;
  pthread_mutex_unlock(&(*cq)->mutex);
  return 0;
}

int get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** cq_context) noexcept {
  completion_queue* got;
  if (next_event(static_cast<completion_channel*>(channel)->events, &got) != 0) return -1;
  *cq = got;
  *cq_context = got->cq_context;
  return 0;
}

void ack_cq_events(ibv_cq* cq, unsigned n) noexcept {
  pthread_mutex_lock(&cq->mutex);
  cq->comp_events_completed += n;
  pthread_cond_broadcast(&cq->cond);
  pthread_mutex_unlock(&cq->mutex);
}

}  // namespace penstock::nic::shm
