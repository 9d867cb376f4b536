#include "nic/shm/pusher.hpp"

#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "lib/base/clock.hpp"
#include "lib/base/descriptors.hpp"
#include "lib/base/no_memory.hpp"
#include "lib/base/quiet_thread.hpp"
#include "lib/base/short_slices.hpp"
#include "nic/shm/context.hpp"
#include "nic/shm/lock.hpp"
#include "nic/shm/own_threads.hpp"
#include "nic/shm/peer.hpp"
#include "nic/shm/qp.hpp"

namespace penstock::nic::shm {
namespace {

// What an epoll event is about: small numbers for our own sockets, a flag for those of peers.
constexpr std::uint64_t about_bells = 1, about_kicks = 2, about_datagrams = 3;
constexpr std::uint64_t about_peer = std::uint64_t{1} << 62;     // its end
constexpr std::uint64_t about_answers = std::uint64_t{1} << 61;  // its socket
constexpr unsigned sleepers_turn_us = 100;
constexpr std::uint64_t linger_ns = 20'000'000;  // how long it stays alert after the last work

/// A message of ours was refused after it had completed. The QP breaks, and the program gets an
/// event even if nothing is outstanding.
void notice_refusal(queue_pair& qp) noexcept {
  bool refused = false;
  {
    const hold sending(qp.sending);
    if (qp.to.ready == 0 || unanswered(qp)) return;
    push_on(qp);
    // L2 nak?  load-acquire life  <- L1 (qp.cpp, faults.cpp)
    const std::uint32_t life = qp.to.remote->life.load(std::memory_order_acquire);
    refused = life >> 8 == qp.to.ready >> 8 && life != qp.to.ready &&
              qp.to.remote->nak.load(std::memory_order_relaxed) != 0;
  }
  if (!refused || state_of(qp) == IBV_QPS_ERR) return;
  enter_error(qp);
  raise_qp(qp, IBV_EVENT_QP_FATAL);
}

/// True if the program itself polls this queue and has done so since the last look. The program
/// then does the work, and this thread stays out of its way.
bool looked_after(completion_queue& cq) noexcept {
  return cq.polled.load(std::memory_order_relaxed) &&
         cq.polled.exchange(false, std::memory_order_relaxed);
}

}  // namespace

int pusher_thread::start() {
  epoll_ = opened("epoll_create1", ::epoll_create1(EPOLL_CLOEXEC));
  kicks_ = opened("eventfd", ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (epoll_ < 0 || kicks_ < 0) return errno;
  kept(epoll_), kept(kicks_);
  if (context_.carrier) return start_beside_carrier();
  bells_ = bound_socket(SOCK_DGRAM, name_of(context_.name, "-bell"));
  datagrams_ = bound_socket(SOCK_DGRAM, name_of(context_.name, "-ud"));
  if (bells_ < 0 || datagrams_ < 0) return errno;
  kept(bells_), kept(datagrams_);
  const int one = 1;
  for (const int s : {datagrams_, bells_})
    if (asked("setsockopt", ::setsockopt(s, SOL_SOCKET, SO_PASSCRED, &one, sizeof one)) != 0)
      return errno;
  int e = watch_socket(epoll_, kicks_, EPOLLIN, about_kicks);
  if (e == 0) e = watch_socket(epoll_, bells_, EPOLLIN, about_bells);
  if (e == 0) e = watch_socket(epoll_, datagrams_, EPOLLIN, about_datagrams);
  return e != 0 ? e : begin();
}

/// What comes by the carrier stands for datagrams here: it is left to the program while that polls.
int pusher_thread::start_beside_carrier() {
  datagrams_ = context_.carrier->fd();
  int e = watch_socket(epoll_, kicks_, EPOLLIN, about_kicks);
  if (e == 0) e = watch_socket(epoll_, datagrams_, EPOLLIN, about_datagrams);
  return e != 0 ? e : begin();
}

int pusher_thread::begin() {
  const int e = start_quiet_thread(thread_, "penstock-push", [this] {
    run();
    count_own_thread(-1);
  });
  if (e == 0) count_own_thread(1);
  return e;
}

void pusher_thread::stop() noexcept {
  if (thread_.joinable()) {
    stopping_.store(true, std::memory_order_relaxed);  // relaxed: the kick comes after it
    kick();
    thread_.join();
  }
  if (context_.carrier) datagrams_ = -1;  // the carrier closes it
  if (bells_ >= 0) remove_name(name_of(context_.name, "-bell"));
  if (datagrams_ >= 0) remove_name(name_of(context_.name, "-ud"));
  for (int* fd : {&bells_, &datagrams_, &kicks_, &epoll_}) close_kept(*fd);
}

void pusher_thread::kick() noexcept { ring_bell(kicks_); }

void pusher_thread::begin_watch() noexcept {
  // W1 work left  seq_cst exchange watching  <-> W2
  if (!watching_.exchange(true, std::memory_order_seq_cst)) kick();
}

int pusher_thread::add_peer(const std::shared_ptr<peer>& p) {
  // Of answers this thread only hears that some have come, once for each.
  const int e =
      watch_socket(epoll_, p->socket, EPOLLRDHUP | EPOLLIN | EPOLLET, about_answers | p->id);
  return e == 0 && p->process >= 0 ? watch_socket(epoll_, p->process, EPOLLIN, about_peer | p->id)
                                   : e;
}

void pusher_thread::remove_peer(peer& p) noexcept {
  ::epoll_ctl(epoll_, EPOLL_CTL_DEL, p.socket, nullptr);
  if (p.process >= 0) ::epoll_ctl(epoll_, EPOLL_CTL_DEL, p.process, nullptr);
}

bool pusher_thread::held_back() const noexcept {
  // W6 held back  seq_cst load, behind the store of watching  <-> W5 (nic/tcp/network.cpp)
  return context_.carrier != nullptr && context_.carrier->holds_back();
}

/// How long to sleep, in milliseconds: for ever, unless a queue holds work that may become possible
/// without a message to this thread.
int pusher_thread::patience() noexcept {
  // Sends wait for the clock, a kept datagram for the next one, or the device for its end.
  if (context_.play != nullptr)
    return context_.play->plays_a_link() && context_.unfinished.load(std::memory_order_relaxed) != 0
               ? 0
               : 1;
  if (!watching_.load(std::memory_order_relaxed)) return -1;
  const bool work = context_.unfinished.load(std::memory_order_relaxed) != 0 ||
                    context_.timed_bells.load(std::memory_order_relaxed) ||
                    resting_.load(std::memory_order_relaxed) ||
                    context_.waiting_datagrams.load(std::memory_order_relaxed) != 0 || held_back();
  const std::uint64_t now = now_ns();
  if (work) quiet_since_ = now;
  if (now - quiet_since_ < linger_ns) return 1;
  // W2 rest  seq_cst store watching, then look again  <-> W1, W3, W4
  watching_.store(false, std::memory_order_seq_cst);
  if (context_.unfinished.load(std::memory_order_seq_cst) == 0 &&
      context_.waiting_datagrams.load(std::memory_order_seq_cst) == 0 && !held_back())
    return -1;
  watching_.store(true, std::memory_order_seq_cst);
  return 1;
}

void pusher_thread::run() noexcept {
  const doing now{"looking after queues of shm0"};
  thread_mark = 1;
  ask_for_short_slices();  // sleepers wait for it
  epoll_event events[64];
  int wait = 0;
  while (!stopping_.load(std::memory_order_relaxed)) {
    if (wait == 0) ::sched_yield();  // while work moves, the thread only gives way to others
    const int n = asked("epoll_wait", ::epoll_wait(epoll_, events, 64, wait));
    if (n < 0 && errno != EINTR) return give_up(context_, errno);
    // The program was woken as well. If it looks in time its queues are armed again, and no event
    // is due; relaxed: a hint.
    if (shared_.load(std::memory_order_relaxed) &&
        std::any_of(events, events + std::max(n, 0),
                    [](const epoll_event& e) { return e.data.u64 == about_bells; }))
      ::usleep(sleepers_turn_us);
    const working_time busy = begin_more_work();
    const std::lock_guard guard(working_);
    for (int i = 0; i < n; ++i) {
      const std::uint64_t about = events[i].data.u64;
      if ((about & about_peer) != 0) {
        bury(about & ~about_peer);
      } else if ((about & about_answers) != 0) {
        if ((events[i].events & ~std::uint32_t{EPOLLIN}) != 0) bury(about & ~about_answers);
      } else if (about == about_bells) {
        hear_kicks();
      } else if (about == about_datagrams) {
        take_datagrams();
      } else {
        (void)hush_bell(kicks_);
      }
    }
    if (context_.play != nullptr) context_.play->look_at_the_clock();
    if (resting_.load(std::memory_order_relaxed) || context_.play != nullptr ||
        context_.waiting_datagrams.load(std::memory_order_relaxed) != 0)
      take_datagrams();
    if (context_.carrier) context_.carrier->flush();
    wait = look_after_queues() ? 0 : patience();
  }
}

/// Takes in the datagrams that wait, unless the program has polled since the last look. The socket
/// wakes the thread only if the thread reads it, since this thread would else turn in a loop where
/// the program needs the core to take them in.
void pusher_thread::take_datagrams() noexcept {
  const bool rests = resting_.load(std::memory_order_relaxed);
  const bool polled = context_.polls_datagrams.load(std::memory_order_relaxed) &&
                      context_.datagrams_polled.exchange(false, std::memory_order_relaxed);
  // Who is inside the carrier looks after it, even if that thread waits for a core.
  const bool served = polled || (context_.carrier && !context_.carrier->progress(false));
  if (!served) receive_datagrams(context_, 64);
  const bool rest = served || waiting_room_full(context_);
  if (rest != rests) {
    epoll_event e{};
    if (!rest) e.events = EPOLLIN;
    e.data.u64 = about_datagrams;
    ::epoll_ctl(epoll_, EPOLL_CTL_MOD, datagrams_, &e);
    // relaxed: this thread looks every millisecond while it rests, and clears watching_ alone (W2)
    resting_.store(rest, std::memory_order_relaxed);
    watching_.store(true, std::memory_order_relaxed);
  }
}

/// Reads which QPs the peers want looked at. A rung bell needs no more: bells are looked at every
/// round.
void pusher_thread::hear_kicks() noexcept {
  for (int i = 0; i < 256; ++i) {
    request q;
    ssize_t n;
    if (!receive_credited(bells_, &q, sizeof q, &n)) {
      if (meaning_of(errno) == meaning::refused) return give_up(context_, errno);
      break;
    }
    if (n != sizeof q || q.version != arena_version) continue;
    queue_pair* qp = nullptr;
    {
      const std::lock_guard guard(context_.objects);
      qp = connected_qp(context_, q.from, q.qpn, q.src_qpn);
    }
    if (qp == nullptr) continue;
    if (q.kind == request_kind::refused) notice_refusal(*qp);
    // The sender is stuck on a full ring: an adapter would take messages in whether or not the
    // program polls.
    if (q.kind == request_kind::take_in && !looked_after(of(qp->recv_cq))) absorb(of(qp->recv_cq));
  }
  // A peer that found this socket full does not tell again of what it has put aside since: so the
  // words that were in it stand for all of them, once they have been read.
  const std::lock_guard guard(context_.objects);
  if (!context_.asides) return;
  for (queue_pair* with : context_.qps)
    if (with->has_aside.load(std::memory_order_relaxed)) of(with->recv_cq).attention.raise();
}

/// A peer is gone: the QPs connected to it break. A peer that had destroyed its QP before has only
/// left; sends to that QP end by their own timer, as on a network.
void pusher_thread::bury(std::uint64_t id) noexcept {
  const std::lock_guard guard(context_.objects);
  for (const auto& p : context_.peers) {
    if (p->id != id) continue;
    remove_peer(*p);
    p->dead.store(true, std::memory_order_relaxed);  // relaxed: what has died writes no more
    for (queue_pair* q : context_.qps) {
      // N2 whose  acquire peer_id  <- N1 (modify.cpp): dest is that peer's
      if (q->peer_id.load(std::memory_order_acquire) != id || state_of(*q) == IBV_QPS_ERR ||
          unanswered(*q))
        continue;
      const std::uint32_t dest = q->dest.load(std::memory_order_relaxed);
      const auto* e = p->entry<qp_entry>(table::qp, context_.entry_of(dest));
      if (e == nullptr || e->qpn.load(std::memory_order_relaxed) != dest) continue;
      // L2 there?  load-acquire life  <- L1 (qp.cpp, faults.cpp)
      const std::uint32_t life = e->life.load(std::memory_order_acquire);
      if ((life & 0xff) == static_cast<std::uint32_t>(qp_public::none)) continue;
      // The status that the retries would have had in the end.
      q->verdict.store(IBV_WC_RETRY_EXC_ERR, std::memory_order_relaxed);
      enter_error(*q);
      raise_qp(*q, IBV_EVENT_QP_FATAL);
    }
    return;
  }
}

/// Looks once at everything that may wait for this thread. True if anything moved.
bool pusher_thread::look_after_queues() noexcept {
  {
    const std::lock_guard guard(context_.objects);
    round_ = context_.cqs;
  }
  bool moved = false, owed = false;
  const bool timed = context_.timed_bells.load(std::memory_order_relaxed);
  for (completion_queue* cq : round_) {
    const bool rung = cq->bell->bell.load(std::memory_order_relaxed) == bell_rung || timed;
    const bool work = cq->attention.is_up() || cq->unfinished.load(std::memory_order_relaxed) != 0;
    if (work && !looked_after(*cq)) moved |= attend(*cq);
    owed |= cq->attention.is_up();
    if (cq->armed.load(std::memory_order_relaxed) != 0 && rung) answer_bell(*cq);
  }
  if (owed) watch();  // work is left to the program, if it goes on polling: look again soon
  return moved;
}

}  // namespace penstock::nic::shm
