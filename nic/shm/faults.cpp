// The clock, the counts and the dice of faults.hpp.
#include "nic/shm/faults.hpp"

#include <algorithm>
#include <cerrno>

#include "lib/base/clock.hpp"
#include "lib/base/mix.hpp"
#include "nic/shm/context.hpp"
#include "nic/shm/qp.hpp"

namespace penstock::nic::shm {

faults::faults(context& c, const fault_plan& p)
    : plan(p),
      context_(c),
      opened_ns_(now_ns()),
      random_(p.seed),
      dates_left_(p.gone.ever() || p.port_down.ever()) {}

int faults::call(verb v) noexcept {
  const auto i = static_cast<std::size_t>(v);
  const fault_plan::nth& n = plan.calls[i];
  if (counts_[i].fetch_add(1, std::memory_order_relaxed) + 1 == n.k) return n.code;
  // A device that is gone flushes its posted requests, which can still be polled.
  return gone() && v < verb::post_send ? EIO : 0;
}

std::uint64_t faults::random() noexcept {
  return mix(random_.fetch_add(0x9e3779b97f4a7c15, std::memory_order_relaxed));
}

bool faults::happens(double share) noexcept {
  return share > 0 && static_cast<double>(random() >> 11) < share * 0x1p53;
}

bool faults::due(const fault_plan::moment& m, std::uint64_t now) const noexcept {
  if (m.sends != 0) return sends_.load(std::memory_order_relaxed) >= m.sends;
  return m.ns != 0 && now - opened_ns_ >= m.ns;
}

void faults::plan_send(const queue_pair& qp, send_work& w) noexcept {
  if (sends_.fetch_add(1, std::memory_order_relaxed) + 1 == plan.send.k) {
    w.at = stage::doomed;
    w.tries = static_cast<std::uint32_t>(plan.send.code);
    return;
  }
  if (plan.delay_ns == 0 && plan.ns_per_byte == 0) return;
  // The link carries one message after the other, and an answer crosses it, too.
  const bool comes_back = answered(qp) && w.opcode != IBV_WR_SEND &&
                          w.opcode != IBV_WR_SEND_WITH_IMM && w.opcode != IBV_WR_RDMA_WRITE &&
                          w.opcode != IBV_WR_RDMA_WRITE_WITH_IMM;
  const auto busy = static_cast<std::uint64_t>(w.bytes * plan.ns_per_byte);
  const std::uint64_t now = now_ns();
  std::uint64_t free = link_free_ns_.load(std::memory_order_relaxed), end;
  do end = std::max(free, now) + busy;
  while (!link_free_ns_.compare_exchange_weak(free, end, std::memory_order_relaxed));
  w.at = stage::held;
  w.deadline = end + plan.delay_ns * (comes_back ? 2 : 1);
}

void faults::look_at_the_clock() noexcept {
  if (!has_dates() || !clock_lock_.try_lock()) return;
  const std::uint64_t now = now_ns();
  if (!gone() && due(plan.gone, now)) {
    gone_.store(true, std::memory_order_relaxed);
    {
      const std::lock_guard guard(context_.objects);
      for (queue_pair* q : context_.qps) enter_error(*q);
    }
    raise(context_, IBV_EVENT_DEVICE_FATAL, {}, nullptr);
  }
  const bool was_down = was_down_.load(std::memory_order_relaxed);
  if (!was_down && due(plan.port_down, now)) {
    was_down_.store(true, std::memory_order_relaxed);
    down_since_ns_ = now;
    down_.store(true, std::memory_order_relaxed);
    cut_off(qp_public::ready, qp_public::cut);
    raise(context_, IBV_EVENT_PORT_ERR, {.port_num = 1}, nullptr);
  } else if (port_is_down() && plan.port_down_ns != 0 &&
             now - down_since_ns_ >= plan.port_down_ns) {
    down_.store(false, std::memory_order_relaxed);
    cut_off(qp_public::cut, qp_public::ready);
    raise(context_, IBV_EVENT_PORT_ACTIVE, {.port_num = 1}, nullptr);
  }
  const bool port_waits = plan.port_down.ever() && (!was_down_.load(std::memory_order_relaxed) ||
                                                    (port_is_down() && plan.port_down_ns != 0));
  dates_left_.store((plan.gone.ever() && !gone()) || port_waits, std::memory_order_relaxed);
  clock_lock_.unlock();
}

/// What peers send to a port that is down waits for its retries to end, as what this side sends.
void faults::cut_off(qp_public from, qp_public to) noexcept {
  const std::lock_guard guard(context_.objects);
  for (queue_pair* q : context_.qps) {
    std::uint32_t life = life_word(q->generation, from);
    // L1 life  cas release life  -> L2 (link.cpp, send.cpp)
    q->shown->life.compare_exchange_strong(life, life_word(q->generation, to),
                                           std::memory_order_release, std::memory_order_relaxed);
  }
}

void faults::look_at_receives(completion_queue& cq, int n, ibv_wc* wc) noexcept {
  if (plan.receive.k == 0) return;
  for (int i = 0; i < n; ++i) {
    if (wc[i].status != IBV_WC_SUCCESS || (wc[i].opcode & IBV_WC_RECV) == 0) continue;
    if (receives_.fetch_add(1, std::memory_order_relaxed) + 1 != plan.receive.k) continue;
    wc[i].status = static_cast<ibv_wc_status>(plan.receive.code);
    const hold guard(cq.poll);
    for (queue_pair* q : cq.members) {
      if (q->qp_num != wc[i].qp_num) continue;
      enter_error(*q, IBV_WC_REM_OP_ERR);
      if (q->remote)
        q->remote->tell(q->remote->make(request_kind::refused, peer_qpn(*q), q->qp_num));
    }
  }
}

void faults::know(queue_pair& qp) {
  const hold guard(qps_lock_);
  qps_.push_back(&qp);
}

void faults::forget(queue_pair& qp) noexcept {
  const hold guard(qps_lock_);
  std::erase(qps_, &qp);
}

void faults::push_all() noexcept {
  if (!qps_lock_.try_lock()) return;
  for (queue_pair* q : qps_)
    if (q->unfinished.load(std::memory_order_relaxed) && q->sending.try_lock()) {
      push_on(*q);
      q->sending.unlock();
    }
  qps_lock_.unlock();
}

}  // namespace penstock::nic::shm
