// Polling a completion queue, arming it, and looking at its rings on behalf of a sleeper.
#include <sched.h>

#include <algorithm>

#include "lib/base/assert.hpp"
#include "nic/shm/context.hpp"
#include "nic/shm/cq.hpp"
#include "nic/shm/fence.hpp"
#include "nic/shm/peer.hpp"
#include "nic/shm/qp.hpp"

namespace penstock::nic::shm {
namespace {

constexpr std::size_t scan_all = 16;  // up to this number of rings, each poll looks at all
constexpr std::size_t window = 16;    // above it, at this number in turn, beside the hot ones
constexpr std::size_t hot_rings = 8;
/// From this number of polls without a completion on (about 40 us), every so many of them give the
/// core away.
constexpr std::uint32_t patient_polls = 4096, polls_a_turn = 64;
/// A thread's polls, of any queue, since the last one that found something.
thread_local constinit std::uint32_t fruitless __attribute__((tls_model("initial-exec"))) = 0;
constexpr int burst = 16;  // completions taken from one ring before the next one's turn

/// Hands out stored completions, oldest first. Those that an armed queue keeps give its event,
/// unless the personality says otherwise: the program may sleep before it polls again, and no later
/// completion may come.
int drain(completion_queue& cq, int room, ibv_wc* wc) noexcept {
  // C2 look  acquire stored  <- C1
  if (cq.stored.load(std::memory_order_acquire) == 0) return 0;
  const hold guard(cq.queue_lock);
  const std::uint32_t n = cq.stored.load(std::memory_order_relaxed);
  const std::uint64_t mask = cq.queue.size() - 1;
  PENSTOCK_ASSERT(n, <=, cq.queue.size());
  int got = 0;
  while (got < room && static_cast<std::uint32_t>(got) < n) {
    const completion& c = cq.queue[cq.head++ & mask];
    wc[got++] = c.wc;
    if (c.frees != 0) c.qp->works.release(c.frees);
    if (c.datagram) {
      [[maybe_unused]] const auto before =
          cq.owner->datagrams.fetch_sub(1, std::memory_order_relaxed);
      PENSTOCK_ASSERT(before, !=, 0u);
    }
  }
  const std::uint32_t kept = n - static_cast<std::uint32_t>(got);
  cq.stored.store(kept,
                  std::memory_order_relaxed);  // relaxed: a poller that sees some takes the lock
  if (kept != 0 && cq.owner->plays.armed != arming::later) wake(cq, false);
  return got;
}

/// Stores the completions of messages that the peer has put aside, and of those before them. What
/// finds no room waits. Under poll.
[[gnu::cold]] bool absorb_aside(completion_queue& cq, queue_pair& qp) noexcept {
  completion c;
  c.qp = &qp;
  bool moved = false, solicited = false;
  while ((cq.owner->plays.overruns || !full(cq)) && receive_one(qp, c.wc, &solicited)) {
    store(cq, c, solicited);
    moved = true;
  }
  // Looked at again, unless nothing more will be taken.
  if (state_of(qp) != IBV_QPS_ERR && waits_aside(qp)) cq.attention.raise();
  return moved;
}

/// Continues waiting sends and flushes QPs that broke. Under poll.
bool attend_held(completion_queue& cq) noexcept {
  PENSTOCK_ASSERT(cq.poll.is_mine(), ==, true);
  bool moved = false;
  const bool broken = cq.attention.take_down();
  for (queue_pair* q : cq.members) {
    const bool sends_here = q->send_cq == &cq;
    const bool in_error = broken && state_of(*q) == IBV_QPS_ERR;
    if (sends_here && (in_error || q->unfinished.load(std::memory_order_relaxed))) {
      if (in_error) {
        const hold guard(q->sending);
        moved |= push_on(*q);
      } else if (q->sending.try_lock()) {
        moved |= push_on(*q);
        q->sending.unlock();
      }
    }
    if (in_error && q->recv_cq == &cq) flush_receives(*q), moved = true;
    if (broken && q->recv_cq == &cq && q->has_aside.load(std::memory_order_relaxed) &&
        q->rx.connected()) [[unlikely]]
      moved |= absorb_aside(cq, *q);
  }
  return moved;
}

/// Notes that a QP delivered, so that its ring is looked at first. Under poll.
void warm(completion_queue& cq, queue_pair* q) noexcept {
  PENSTOCK_ASSERT(cq.hot.size(), <=, hot_rings);
  if (cq.rings.size() <= scan_all || (!cq.hot.empty() && cq.hot.front() == q)) return;
  const auto at = std::find(cq.hot.begin(), cq.hot.end(), q);
  if (at != cq.hot.end())
    cq.hot.erase(at);
  else if (cq.hot.size() == hot_rings)
    cq.hot.pop_back();
  cq.hot.insert(cq.hot.begin(), q);
}

/// Looks at the hot rings. False when take() has no more room. Under poll.
template <class Take>
bool scan_hot(completion_queue& cq, Take& take) noexcept {
  for (std::size_t i = 0; i < cq.hot.size(); ++i)
    if (cq.hot[i]->rx.ready() && !take(cq.hot[i])) return false;
  return true;
}

/// Looks at the next `looks` rings in turn. False when take() has no more room. Under poll.
template <class Take>
bool scan_window(completion_queue& cq, std::size_t looks, Take& take) noexcept {
  const auto n = static_cast<std::uint32_t>(cq.rings.size());
  std::uint32_t at = cq.cursor < n ? cq.cursor : 0;
  bool room = true;
  for (std::size_t i = 0; i < looks && room; ++i) {
    queue_pair* q = cq.rings[at];
    if (++at == n) at = 0;
    if (!q->rx.ready()) continue;
    warm(cq, q);
    room = take(q);
  }
  cq.cursor = at;
  return room;
}

/// Looks at the rings until take(qp) says that there is no more room. Fair: a busy ring gives way
/// after a burst, and the hot rings and the window take turns in coming first, so that neither
/// starves the other when a poll asks for few completions. Under poll.
template <class Take>
void scan(completion_queue& cq, Take take) noexcept {
  const std::size_t n = cq.rings.size();
  if (n == 0) return;
  if (n <= scan_all) {
    scan_window(cq, n, take);
  } else if ((++cq.turn & 1) != 0) {
    if (scan_hot(cq, take)) scan_window(cq, window, take);
  } else if (scan_window(cq, window, take)) {
    scan_hot(cq, take);
  }
}

/// Takes datagrams in on behalf of a program that polls. A program that has armed the queue is
/// about to sleep, and leaves later datagrams to the pusher.
void poll_datagrams(completion_queue& cq) noexcept {
  context& c = *cq.owner;
  if (cq.armed.load(std::memory_order_relaxed) == 0 &&
      !c.datagrams_polled.load(std::memory_order_relaxed))
    c.datagrams_polled.store(true, std::memory_order_relaxed);
  if (cq.stored.load(std::memory_order_relaxed) != 0) return;
  if (c.carrier) (void)c.carrier->progress(true);
  receive_datagrams(c, 16);
}

bool any_ready(const completion_queue& cq) noexcept {
  return std::any_of(cq.rings.begin(), cq.rings.end(),
                     [](const queue_pair* q) { return q->rx.ready(); });
}

/// Completes the sends of a QP that its peer has taken. An adapter does so before it takes the
/// peer's answer, so programs that sleep count on the order of the events. Under poll; `sending` is
/// taken inside it, as in disconnect(), and no thread that holds `sending` waits for a poll.
void finish_sends_first(queue_pair& q) noexcept {
  if (!q.unfinished.load(std::memory_order_relaxed)) return;
  const hold guard(q.sending);
  push_on(q);
}

/// Moves every waiting message into the queue. Under poll.
bool absorb_rings(completion_queue& cq) noexcept {
  PENSTOCK_ASSERT(cq.poll.is_mine(), ==, true);
  bool moved = false;
  for (queue_pair* q : cq.rings) {
    completion c;
    c.qp = q;
    bool solicited = false;
    // A message without room stays in its ring, so a program that sleeps too long overruns nothing.
    if (xrc_receiver(*q)) c.qp = nullptr;
    if (q->rx.ready()) finish_sends_first(*q);
    while ((cq.owner->plays.overruns || !full(cq)) && receive_one(*q, c.wc, &solicited)) {
      store(destination(*q), c, solicited);
      moved = true;
    }
  }
  return moved;
}

/// Called after a poll that found nothing. The program of an adapter may poll as long as it likes,
/// since nobody else needs its core for the message to come. Here the sender does, where there are
/// more threads than cores. True: it has had the core, and what the poll saw is old.
bool gave_way() noexcept {
  if (++fruitless < patient_polls || fruitless % polls_a_turn != 0) return false;
  ::sched_yield();
  return true;
}

/// poll_cq() for n > 0.
int look(completion_queue& cq, int n, ibv_wc* wc) noexcept {
  if (cq.owner->polls_datagrams.load(std::memory_order_relaxed) &&
      cq.datagram_qps.load(std::memory_order_relaxed) != 0)
    poll_datagrams(cq);
  if (!cq.polled.load(std::memory_order_relaxed)) cq.polled.store(true, std::memory_order_relaxed);
  // Another thread is looking at the rings; stored completions may be taken all the same.
  if (!cq.poll.try_lock()) return drain(cq, n, wc);
  if (cq.attention.is_up() || cq.unfinished.load(std::memory_order_relaxed) != 0) attend_held(cq);
  if (!cq.domains.empty()) [[unlikely]]
    gather(cq);
  int got = drain(cq, n, wc);
  if (got < n)
    scan(cq, [&](queue_pair* q) {
      bool solicited = false;
      if (cq.armed.load(std::memory_order_relaxed) != 0) [[unlikely]]
        finish_sends_first(*q);
      for (int i = 0; i < burst && got < n; ++i, ++got) {
        if (receive_short(*q, wc[got])) [[likely]] {
          announce(cq, false);
          continue;
        }
        if (!receive_one(*q, wc[got], &solicited)) break;
        announce(cq, solicited || wc[got].status != IBV_WC_SUCCESS);
      }
      return got < n;
    });
  cq.poll.unlock();
  return got;
}

}  // namespace

int poll_cq(ibv_cq* handle, int n, ibv_wc* wc) noexcept {
  completion_queue& cq = of(handle);
  if (n <= 0) return 0;
  int got;
  // The engine has its own ways to wait. Nothing is said to be there only by a poll that has just
  // looked: a program may take a disconnection that it sees next for the end of all messages.
  do {
    got = look(cq, n, wc);
  } while (got == 0 && cq.owner->device != nullptr && gave_way());
  if (got != 0) fruitless = 0;
  return got;
}

bool attend(completion_queue& cq) noexcept {
  const hold guard(cq.poll);
  return attend_held(cq);
}

bool absorb(completion_queue& cq) noexcept {
  const hold guard(cq.poll);
  bool moved = false;
  if (cq.attention.is_up() || cq.unfinished.load(std::memory_order_relaxed) != 0)
    moved = attend_held(cq);
  return absorb_rings(cq) || moved;
}

void answer_bell(completion_queue& cq) noexcept {
  // Bounded: a sender that floods rings again, and the thread has other queues to serve.
  for (int i = 0; i < 64 && cq.armed.load(std::memory_order_relaxed) != 0; ++i) {
    const bool rung = cq.bell->bell.load(std::memory_order_relaxed) == bell_rung;
    absorb(cq);
    const hold guard(cq.poll);
    // Messages of the direct path make no completion; the bell itself is their event.
    if (rung && std::any_of(cq.members.begin(), cq.members.end(), [](const queue_pair* q) {
          return q->direct.load(std::memory_order_relaxed);
        }))
      announce(cq, true);
    {
      const hold lock(cq.queue_lock);
      if (cq.armed.load(std::memory_order_relaxed) == 0) return;
      cq.bell->bell.store(bell_armed, std::memory_order_relaxed);
    }
    heavy_fence();  // F1: senders see the bell armed, or we see what they pushed
    if (!any_ready(cq)) return;
  }
}

int req_notify_cq(ibv_cq* handle, int solicited_only) noexcept {
  completion_queue& cq = of(handle);
  const arming plays = cq.owner->plays.armed;
  if (plays == arming::later) absorb(cq);  // what has come has come before the arming
  {
    const hold guard(cq.queue_lock);
    const std::uint32_t wanted = solicited_only != 0 ? 1 : 2;
    if (cq.armed.load(std::memory_order_relaxed) < wanted)
      cq.armed.store(wanted, std::memory_order_relaxed);
    cq.bell->bell.store(bell_armed, std::memory_order_relaxed);
    if (plays == arming::held && cq.stored.load(std::memory_order_relaxed) != 0) wake(cq, false);
  }
  arm_domains(cq);
  heavy_fence();  // F1
  if (cq.owner->polls_datagrams.load(std::memory_order_relaxed) &&
      cq.datagram_qps.load(std::memory_order_relaxed) != 0) {
    cq.owner->datagrams_polled.store(false, std::memory_order_relaxed);
    cq.owner->pusher.look_at_datagrams();
  }
  look_at_domains(cq);
  {
    const hold guard(cq.poll);
    if (!any_ready(cq)) {
      if (cq.owner->timed_bells.load(std::memory_order_relaxed)) cq.owner->pusher.watch();
      return 0;
    }
  }
  // A message that lies in a ring has no completion yet: it gets one now, and that is the awaited
  // event.
  answer_bell(cq);
  return 0;
}

}  // namespace penstock::nic::shm
