// The data path of a context that has a fault plan or overruns. Each operation asks faults.hpp
// first and then does what the ordinary one does. Every send is stored first, so that all of them
// begin in push_on(), by played_attempt().
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "lib/base/clock.hpp"
#include "lib/base/cross_process.hpp"
#include "nic/shm/context.hpp"
#include "nic/shm/qp.hpp"
#include "nic/shm/srq.hpp"

namespace penstock::nic::shm {
namespace {

int refused(context& c, verb v) noexcept { return c.play != nullptr ? c.play->call(v) : 0; }

template <class Request>
int refuse_request(int e, Request* wr, Request** bad) noexcept {
  *bad = wr;
  return e;
}

}  // namespace

int played_post(queue_pair& qp, ibv_send_wr* wr, ibv_send_wr** bad) noexcept {
  faults& f = *qp.owner->play;
  const ibv_qp_state state = state_of(qp);
  int e = f.call(verb::post_send);
  if (state == IBV_QPS_RESET || state == IBV_QPS_INIT || state == IBV_QPS_RTR) e = EINVAL;
  if (e != 0) return refuse_request(e, wr, bad);
  for (; wr != nullptr && e == 0; wr = wr->next) {
    send_work w;
    e = qp.works.full() ? ENOMEM : read_request(qp, *wr, w);
    if (e != 0) {
      *bad = wr;
      break;
    }
    f.plan_send(qp, w);
    qp.works.store(w);
  }
  push_on(qp);
  return e;
}

outcome played_attempt(queue_pair& qp, send_work& w, ibv_wc_status* why) noexcept {
  faults& f = *qp.owner->play;
  if (w.at == stage::doomed) {
    *why = static_cast<ibv_wc_status>(w.tries);
    return outcome::failed;
  }
  if (w.at == stage::held) {
    if (now_ns() < w.deadline) return outcome::wait;
    w.at = stage::fresh;
    w.deadline = 0;
  }
  if (f.port_is_down()) return connected(qp) ? unreachable(qp, w, why) : outcome::done;
  const bool not_ready = answered(qp) && w.at < stage::claimed && w.deadline != 0 && !w.unreachable;
  if (f.plan.rnr_ns != 0 && not_ready && now_ns() < w.deadline) return outcome::wait;
  if (qp.qp_type != IBV_QPT_UD) return attempt(qp, w, why);
  // A datagram waits only for room in a socket, and whether it is lost is decided once.
  if (w.at == stage::fresh && f.happens(f.plan.lost)) return outcome::done;
  const outcome o = attempt(qp, w, why);
  if (o == outcome::wait) w.at = stage::written;
  if (o == outcome::done && f.happens(f.plan.doubled)) {
    send_work again = w;
    [[maybe_unused]] const outcome second = attempt(qp, again, why);
  }
  return o;
}

int played_post_send(ibv_qp* handle, ibv_send_wr* wr, ibv_send_wr** bad) noexcept {
  queue_pair& qp = of(handle);
  int e;
  {
    const hold guard(qp.sending);
    e = qp.owner->post(qp, wr, bad);
  }
  if (qp.owner->play != nullptr) qp.owner->play->look_at_the_clock();
  return e;
}

int played_post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad) noexcept {
  if (const int e = refused(*of(qp).owner, verb::post_recv)) return refuse_request(e, wr, bad);
  return post_recv(qp, wr, bad);
}

int played_post_srq_recv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad) noexcept {
  if (const int e = refused(*of(srq).owner, verb::post_srq_recv)) return refuse_request(e, wr, bad);
  return post_srq_recv(srq, wr, bad);
}

int played_req_notify_cq(ibv_cq* cq, int solicited_only) noexcept {
  if (const int e = refused(*of(cq).owner, verb::req_notify_cq)) return e;
  return req_notify_cq(cq, solicited_only);
}

int played_poll_cq(ibv_cq* handle, int n, ibv_wc* wc) noexcept {
  completion_queue& cq = of(handle);
  context& c = *cq.owner;
  if (c.plays.overruns) absorb(cq);
  if (c.play == nullptr) return poll_cq(handle, n, wc);
  if (c.play->call(verb::poll_cq) != 0) return -1;
  c.play->look_at_the_clock();
  if (c.unfinished.load(std::memory_order_relaxed) != 0) c.play->push_all();
  const int got = poll_cq(handle, n, wc);
  c.play->look_at_receives(cq, got, wc);
  return got;
}

int move_in_any_order(queue_pair& qp, send_work& w) noexcept {
  if (w.opcode == IBV_WR_RDMA_READ || asks_peer(qp, w)) return move_bytes(qp, w);
  constexpr std::uint32_t most = 32;
  faults& f = *qp.owner->play;
  const std::uint32_t n = std::min(w.bytes, most);
  std::uint32_t order[most];
  for (std::uint32_t i = 0; i < n; ++i) order[i] = i;
  for (std::uint32_t i = n; i > 1; --i) std::swap(order[i - 1], order[f.random() % i]);
  // Half of these WRITEs end with their first bytes, the order for which programs are least
  // prepared.
  if (n > 1 && f.happens(0.5)) std::swap(order[0], *std::find(order, order + n, n - 1));
  const auto start = [&](std::uint32_t i) {
    return static_cast<std::uint32_t>(std::uint64_t{w.bytes} * i / n);
  };
  int e = 0;
  for (std::uint32_t i = 0; i < n && e == 0; ++i) {
    const std::uint32_t first = start(order[i]), last = start(order[i] + 1);
    std::uint32_t at = 0;  // position in the gather list
    for (std::uint32_t k = 0; k < w.count && e == 0; at += w.list[k++].length) {
      const std::uint32_t from = std::max(at, first), to = std::min(at + w.list[k].length, last);
      if (from >= to) continue;
      const ibv_sge part{w.list[k].addr + (from - at), to - from, w.list[k].lkey};
      send_work some = w;
      some.list = &part;
      some.count = 1;
      some.remote = w.remote + from;
      some.bytes = to - from;
      e = move_bytes(qp, some);
    }
    if (f.happens(0.02)) ::sched_yield();
  }
  // Each piece has told of its own place, the first one maybe early; the sender listens where the
  // message begins.
  for (std::uint32_t k = 0; k < w.count; ++k)
    tsan_tell_peer(reinterpret_cast<const void*>(w.list[k].addr));
  return e;
}

}  // namespace penstock::nic::shm
