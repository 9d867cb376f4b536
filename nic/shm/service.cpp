#include "nic/shm/service.hpp"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "lib/base/clock.hpp"
#include "lib/base/log.hpp"
#include "nic/shm/context.hpp"
#include "nic/shm/peer.hpp"
#include "nic/shm/qp.hpp"

namespace penstock::nic::shm {
namespace {

// What an epoll event is about: small numbers for the own sockets, a flag for peers' and visitors'.
constexpr std::uint64_t about_listener = 1, about_kicks = 2, about_datagrams = 3;
constexpr std::uint64_t about_peer = std::uint64_t{1} << 62;
constexpr std::uint64_t about_visitor = std::uint64_t{1} << 61;
constexpr std::uint64_t linger_ns =
    20'000'000;  // how long the thread stays alert after the last work

int watch_socket(int epoll, int fd, std::uint32_t events, std::uint64_t about) noexcept {
  epoll_event e{};
  e.events = events;
  e.data.u64 = about;
  return ::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e) == 0 ? 0 : errno;
}

int bound_socket(int type, const socket_name& at) noexcept {
  const int s = ::socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (s < 0) return -1;
  sockaddr_storage address{};
  address.ss_family = AF_UNIX;
  std::memcpy(reinterpret_cast<char*>(&address) + sizeof(sa_family_t), at.text,
              at.length - sizeof(sa_family_t));
  if (::bind(s, reinterpret_cast<sockaddr*>(&address), at.length) == 0) return s;
  const int e = errno;
  ::close(s);
  return errno = e, -1;
}

}  // namespace

int service_thread::start() {
  payload_ = std::make_unique<std::byte[]>(wire_payload);
  epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
  kicks_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  listener_ = bound_socket(SOCK_SEQPACKET, name_of(context_.name, ""));
  datagrams_ = bound_socket(SOCK_DGRAM, name_of(context_.name, "-ud"));
  if (epoll_ < 0 || kicks_ < 0 || listener_ < 0 || datagrams_ < 0) return errno;
  const int one = 1;
  if (::setsockopt(datagrams_, SOL_SOCKET, SO_PASSCRED, &one, sizeof one) != 0) return errno;
  if (::listen(listener_, 4096) != 0) return errno;
  int e = watch_socket(epoll_, listener_, EPOLLIN, about_listener);
  if (e == 0) e = watch_socket(epoll_, kicks_, EPOLLIN, about_kicks);
  if (e == 0) e = watch_socket(epoll_, datagrams_, EPOLLIN, about_datagrams);
  if (e != 0) return e;
  // Peers may read and write registered memory where Yama would otherwise forbid it to siblings.
  ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
  // Signals are the program's: its own threads take them.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { run(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return 0;
}

void service_thread::stop() noexcept {
  if (thread_.joinable()) {
    stopping_.store(true, std::memory_order_release);
    kick();
    thread_.join();
  }
  for (int* fd : {&listener_, &datagrams_, &kicks_, &epoll_}) {
    if (*fd >= 0) ::close(*fd);
    *fd = -1;
  }
  for (const auto& [fd, v] : visitors_) ::close(fd);
  visitors_.clear();
}

void service_thread::kick() noexcept {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto n = ::write(kicks_, &one, sizeof one);
}

void service_thread::begin_watch() noexcept {
  if (!watching_.exchange(true, std::memory_order_seq_cst)) kick();
}

int service_thread::add_peer(const std::shared_ptr<peer>& p) {
  // Answers are read by who asks; the thread only waits for the end.
  return watch_socket(epoll_, p->socket, EPOLLRDHUP, about_peer | p->id);
}

void service_thread::remove_peer(peer& p) noexcept {
  ::epoll_ctl(epoll_, EPOLL_CTL_DEL, p.socket, nullptr);
}

/// How long to sleep, in milliseconds: for ever, unless some queue holds work that may become
/// possible without anybody telling us.
int service_thread::patience() noexcept {
  if (!watching_.load(std::memory_order_relaxed)) return -1;
  const bool work = context_.unfinished.load(std::memory_order_relaxed) != 0 ||
                    context_.timed_bells.load(std::memory_order_relaxed);
  const std::uint64_t now = now_ns();
  if (work) quiet_since_ = now;
  if (now - quiet_since_ < linger_ns) return 1;
  // W2 rest  seq_cst store watching, then look again  <-> W1, W3
  watching_.store(false, std::memory_order_seq_cst);
  if (context_.unfinished.load(std::memory_order_seq_cst) == 0) return -1;
  watching_.store(true, std::memory_order_seq_cst);
  return 1;
}

void service_thread::run() noexcept {
  epoll_event events[64];
  bool moved = false;
  while (!stopping_.load(std::memory_order_acquire)) {
    // While work moves, the thread only gives way to others.
    const int wait = moved ? 0 : patience();
    if (moved) ::sched_yield();
    const int n = ::epoll_wait(epoll_, events, 64, wait);
    for (int i = 0; i < n; ++i) {
      const std::uint64_t about = events[i].data.u64;
      if ((about & about_peer) != 0) {
        bury(about & ~about_peer);
      } else if ((about & about_visitor) != 0) {
        const int fd = static_cast<int>(about & 0xffffffff);
        const auto at = visitors_.find(fd);
        if (at != visitors_.end() && !serve(fd, at->second)) {
          ::close(fd);
          visitors_.erase(at);
        }
      } else if (about == about_listener) {
        accept_visitors();
      } else if (about == about_datagrams) {
        for (int k = 0; k < 64 && receive_datagram(context_, datagrams_); ++k) {
        }
      } else {
        std::uint64_t count;
        [[maybe_unused]] const auto r = ::read(kicks_, &count, sizeof count);
      }
    }
    moved = look_after_queues();
  }
}

void service_thread::accept_visitors() noexcept {
  for (;;) {
    const int s = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (s < 0) {
      if (errno == EMFILE || errno == ENFILE) {
        log(log_level::error, "shm0: no descriptor left for a peer; raise ulimit -n");
        ::poll(nullptr, 0, 1);
      }
      return;
    }
    if (!same_user(s, nullptr) ||
        watch_socket(epoll_, s, EPOLLIN, about_visitor | static_cast<std::uint32_t>(s)) != 0) {
      ::close(s);
      continue;
    }
    visitors_.emplace(s, visitor{});
  }
}

/// Reads the requests that wait. False: the visitor is gone, or talks nonsense.
bool service_thread::serve(int socket, visitor& v) noexcept {
  for (int i = 0; i < 64; ++i) {
    request q;
    const ssize_t n = receive_packet(socket, &q, sizeof q, payload_.get(), wire_payload, nullptr);
    if (n < 0) return errno == EAGAIN;
    if (q.version != arena_version) return false;
    if (q.kind == request_kind::hello)
      say_hello(socket, v, q);
    else if (!v.greeted)
      return false;
    else
      answer(socket, v, q, static_cast<std::size_t>(n));
  }
  return true;
}

/// A peer is gone: its QPs here break. A peer that had destroyed its QP first has only left; sends
/// to it then end by their own timer, as on a network.
void service_thread::bury(std::uint64_t id) noexcept {
  const std::lock_guard guard(context_.objects);
  for (const auto& p : context_.peers) {
    if (p->id != id) continue;
    remove_peer(*p);
    p->dead.store(true, std::memory_order_release);
    for (queue_pair* q : context_.qps) {
      bool broken = false;
      {
        const hold sending(q->sending);
        if (q->remote == p) {
          const auto* e = p->entry<qp_entry>(table::qp, q->dest & 0xffff);
          const std::uint32_t life = e != nullptr ? e->life.load(std::memory_order_acquire) : 0;
          broken = (life & 0xff) != static_cast<std::uint32_t>(qp_public::none) &&
                   e->qpn.load(std::memory_order_relaxed) == q->dest;
        }
      }
      if (broken && state_of(*q) != IBV_QPS_ERR) {
        enter_error(*q);
        raise_qp(*q, IBV_EVENT_QP_FATAL);
      }
    }
    return;
  }
}

/// One look at everything that may wait for this thread. True if something moved.
bool service_thread::look_after_queues() noexcept {
  bool moved = false;
  const std::lock_guard guard(context_.objects);
  const bool timed = context_.timed_bells.load(std::memory_order_relaxed);
  for (completion_queue* cq : context_.cqs) {
    const bool rung = cq->bell->bell.load(std::memory_order_relaxed) == bell_rung || timed;
    if (cq->armed.load(std::memory_order_relaxed) != 0 && rung)
      answer_bell(*cq);
    else if (cq->attention.load(std::memory_order_relaxed) ||
             cq->unfinished.load(std::memory_order_relaxed) != 0)
      moved |= absorb(*cq);
  }
  return moved;
}

}  // namespace penstock::nic::shm
