#include "nic/shm/xrc.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "lib/base/assert.hpp"
#include "nic/shm/boundary.hpp"
#include "nic/shm/context.hpp"
#include "nic/shm/cq.hpp"
#include "nic/shm/fence.hpp"
#include "nic/shm/qp.hpp"
#include "nic/shm/srq.hpp"

namespace penstock::nic::shm {
namespace {

/// The domain that this file names, or null. Under context::objects.
xrc_domain* domain_of(context& c, dev_t device, ino_t file) noexcept {
  for (const auto& d : c.xrc_domains)
    if (d->device == device && d->file == file) return d.get();
  return nullptr;
}

/// A completion queue's list of the domains whose receives it takes: one entry for each shared
/// receive queue, so that a domain goes with the last of them. Under poll.
void add_domain(completion_queue& cq, xrc_domain& d) {
  make_room(cq.domains);
  if (std::find(cq.domains.begin(), cq.domains.end(), &d) == cq.domains.end())
    d.queues.fetch_add(1, std::memory_order_relaxed);
  cq.domains.push_back(&d);
}

void remove_domain(completion_queue& cq, xrc_domain& d) noexcept {
  const hold guard(cq.poll);
  const auto at = std::find(cq.domains.begin(), cq.domains.end(), &d);
  PENSTOCK_ASSERT(at != cq.domains.end(), ==, true);
  cq.domains.erase(at);
  if (std::find(cq.domains.begin(), cq.domains.end(), &d) == cq.domains.end()) {
    [[maybe_unused]] const auto before = d.queues.fetch_sub(1, std::memory_order_relaxed);
    PENSTOCK_ASSERT(before, !=, 0u);
  }
}

}  // namespace

ibv_xrcd* open_xrcd(ibv_context* handle, ibv_xrcd_init_attr* init) {
  context& c = of(handle);
  constexpr std::uint32_t needed = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  if ((init->comp_mask & ~needed) != 0) return errno = EOPNOTSUPP, nullptr;
  if (init->comp_mask != needed || (init->oflags & ~(O_CREAT | O_EXCL)) != 0)
    return errno = EINVAL, nullptr;
  struct stat st {};
  if (init->fd != -1 && ::fstat(init->fd, &st) != 0) return nullptr;
  const bool create = (init->oflags & O_CREAT) != 0;
  if (init->fd == -1 && !create) return errno = EINVAL, nullptr;
  auto x = std::make_unique<xrc_handle>();
  x->context = handle;
  {
    const std::lock_guard guard(c.objects);
    if (init->fd != -1) x->domain = domain_of(c, st.st_dev, st.st_ino);
    if (x->domain != nullptr && (init->oflags & O_EXCL) != 0) return errno = EINVAL, nullptr;
    if (x->domain != nullptr) ++x->domain->handles;
  }
  if (x->domain == nullptr) {
    if (!create) return errno = EAGAIN, nullptr;
    auto d = std::make_unique<xrc_domain>();
    std::unique_ptr<ibv_cq, destroyed_by<destroy_cq>> rings(
        make_cq(handle, 1, nullptr, nullptr, nullptr, 0));
    if (!rings) return nullptr;
    d->number = c.next_pd.fetch_add(1, std::memory_order_relaxed);
    d->handles = 1;
    if (init->fd != -1) d->device = st.st_dev, d->file = st.st_ino;
    const std::lock_guard guard(c.objects);
    make_room(c.xrc_domains);
    d->rings = &of(rings.release());
    x->domain = d.get();
    c.xrc_domains.push_back(std::move(d));
  }
  return x.release();
}

int close_xrcd(ibv_xrcd* handle) noexcept {
  auto* x = static_cast<xrc_handle*>(handle);
  context& c = of(x->context);
  xrc_domain& d = *x->domain;
  completion_queue* rings = nullptr;
  {
    const std::lock_guard guard(c.objects);
    if (d.handles == 1) {
      if (!d.users.none()) return EBUSY;
      rings = d.rings;
      std::erase_if(c.xrc_domains, [&](const auto& e) { return e.get() == &d; });
    } else {
      --d.handles;
    }
  }
  if (rings != nullptr) destroy_cq(rings);
  delete x;
  return 0;
}

ibv_srq* create_srq_ex(ibv_context* handle, ibv_srq_init_attr_ex* init) {
  const std::uint32_t mask = init->comp_mask;
  const ibv_srq_type type = (mask & IBV_SRQ_INIT_ATTR_TYPE) != 0 ? init->srq_type : IBV_SRQT_BASIC;
  constexpr std::uint32_t known =
      IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
  if ((mask & ~known) != 0 || (type != IBV_SRQT_BASIC && type != IBV_SRQT_XRC))
    return errno = EOPNOTSUPP, nullptr;
  if ((mask & IBV_SRQ_INIT_ATTR_PD) == 0) return errno = EINVAL, nullptr;
  // The classic attributes are the first part of the extended ones.
  auto* classic = reinterpret_cast<ibv_srq_init_attr*>(init);
  if (type == IBV_SRQT_BASIC) return create_srq(init->pd, classic);
  if ((mask & IBV_SRQ_INIT_ATTR_XRCD) == 0 || (mask & IBV_SRQ_INIT_ATTR_CQ) == 0 ||
      of(init->cq).owner != &of(handle))
    return errno = EINVAL, nullptr;
  std::unique_ptr<ibv_srq, destroyed_by<destroy_srq>> made(create_srq(init->pd, classic));
  if (!made) return nullptr;
  shared_receive_queue& srq = of(made.get());
  xrc_domain& d = of(init->xrcd);
  srq.cq = &of(init->cq);
  srq.pd_number = of(init->pd).number;
  {
    const hold polling(srq.cq->poll);
    const hold guard(d.rings->poll);
    make_room(d.rings->selectable);
    add_domain(*srq.cq, d);
    d.rings->selectable.push_back(&srq);
  }
  srq.domain = &d;
  srq.shown->pd.store(srq.pd_number, std::memory_order_relaxed);
  // X1 open  store-release domain  -> X2 (send.cpp): pd is the queue's
  srq.shown->domain.store(d.number, std::memory_order_release);
  d.users.begin();
  srq.cq->users.begin();
  d.pd_number.store(srq.pd_number, std::memory_order_relaxed);
  if (srq.cq->armed.load(std::memory_order_relaxed) != 0) {  // its sleeper waits for this one, too
    arm_domains(*srq.cq);
    heavy_fence();
    look_at_domains(*srq.cq);
  }
  return made.release();
}

int get_srq_num(ibv_srq* srq, std::uint32_t* number) noexcept {
  if (of(srq).domain == nullptr) return EINVAL;
  *number = of(srq).index + 1;
  return 0;
}

void gather(completion_queue& cq) noexcept {
  for (std::size_t i = 0; i < cq.domains.size(); ++i) {
    xrc_domain& d = *cq.domains[i];
    if (i != 0 && cq.domains[i - 1] == &d) continue;
    completion_queue& rings = *d.rings;
    if (!rings.polled.load(std::memory_order_relaxed))
      rings.polled.store(true, std::memory_order_relaxed);
    // A program that polls need not be woken; another queue of the domain may have a sleeping one.
    if (rings.armed.load(std::memory_order_relaxed) != 0 &&
        cq.armed.load(std::memory_order_relaxed) == 0 &&
        d.queues.load(std::memory_order_relaxed) == 1) {
      const hold guard(rings.queue_lock);
      rings.armed.store(0, std::memory_order_relaxed);
      rings.bell->bell.store(bell_off, std::memory_order_relaxed);
    }
    absorb(rings);
  }
}

void arm_domains(completion_queue& cq) noexcept {
  const hold poll(cq.poll);
  for (xrc_domain* d : cq.domains) {
    const hold guard(d->rings->queue_lock);
    d->rings->armed.store(2, std::memory_order_relaxed);
    d->rings->bell->bell.store(bell_armed, std::memory_order_relaxed);
  }
}

void look_at_domains(completion_queue& cq) noexcept {
  const hold poll(cq.poll);
  for (xrc_domain* d : cq.domains) answer_bell(*d->rings);
}

shared_receive_queue* select_queue(queue_pair& qp, std::uint32_t number) noexcept {
  for (shared_receive_queue* s : of(qp.recv_cq).selectable)
    if (s->index + 1 == number) return s;
  return nullptr;
}

void forget_queue(shared_receive_queue& srq) noexcept {
  xrc_domain& d = *srq.domain;
  srq.shown->domain.store(0, std::memory_order_relaxed);  // relaxed: nothing is behind a 0
  remove_domain(*srq.cq, d);
  {
    const hold guard(d.rings->poll);
    std::erase(d.rings->selectable, &srq);
    for (queue_pair* q : d.rings->members)
      if (q->selected == &srq) q->selected = nullptr;
  }
  srq.cq->users.end();
  d.users.end();
}

}  // namespace penstock::nic::shm
