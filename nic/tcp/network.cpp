// Opening and closing, the look at what has come, and what goes out.
#include "nic/tcp/network.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "lib/base/clock.hpp"
#include "lib/base/descriptors.hpp"
#include "lib/base/log.hpp"
#include "nic/tcp/unshared.hpp"

namespace penstock::nic::tcp {
namespace {

// What an epoll event is about: one of these, a visitor (its number, and 2), or a remote's address.
constexpr std::uint64_t about_listener = 1, about_wake = 9, about_clock = 17;
constexpr std::uint64_t visitor_bits = 2;

/// How long a message may wait for others that go in the same call, while some are under way.
constexpr std::uint64_t batch_ns = 10'000;
constexpr std::size_t batch_bytes = 32 * 1024;
/// Up to this number of connections each is read at every look; of more, epoll tells which.
constexpr std::size_t few = 2;
constexpr std::uint64_t most_rest = 2000;    // ticks between looks that find nothing
constexpr std::uint32_t looks_a_round = 64;  // then the listener and the clock are looked at, too

/// The address that the option names, or the best: of the interface that leads to other networks,
/// else of the first that is up, else the loopback's.
std::uint32_t address_of(const std::string& where) noexcept {
  in_addr a{};
  if (!where.empty() && ::inet_pton(AF_INET, where.c_str(), &a) == 1) return a.s_addr;
  if (where.empty()) {
    const int s = opened("socket", ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_in out{};
    out.sin_family = AF_INET;
    out.sin_port = htons(9);
    out.sin_addr.s_addr = htonl(0xc0000201);  // 192.0.2.1, of documentation: nothing is sent
    socklen_t n = sizeof out;
    const bool found = s >= 0 && ::connect(s, reinterpret_cast<sockaddr*>(&out), n) == 0 &&
                       ::getsockname(s, reinterpret_cast<sockaddr*>(&out), &n) == 0;
    if (s >= 0) ::close(s);
    if (found) return out.sin_addr.s_addr;
  }
  ifaddrs* all = nullptr;
  std::uint32_t best = 0;
  if (::getifaddrs(&all) != 0) all = nullptr;
  for (const ifaddrs* i = all; i != nullptr && best == 0; i = i->ifa_next) {
    if (i->ifa_addr == nullptr || i->ifa_addr->sa_family != AF_INET) continue;
    const bool loop = (i->ifa_flags & IFF_LOOPBACK) != 0, on = (i->ifa_flags & IFF_UP) != 0;
    if (where.empty() ? on && !loop : where == i->ifa_name)
      best = reinterpret_cast<const sockaddr_in*>(i->ifa_addr)->sin_addr.s_addr;
  }
  if (all != nullptr) ::freeifaddrs(all);
  return best != 0 || !where.empty() ? best : htonl(INADDR_LOOPBACK);
}

int watch_fd(int epoll, int fd, std::uint32_t events, std::uint64_t about) noexcept {
  return shm::watch_socket(epoll, fd, events, about);
}

}  // namespace

int network::open(shm::context& c) {
  context_ = &c;
  self_.ip = address_of(options_.where);
  if (self_.ip == 0) return EADDRNOTAVAIL;
  if (::getrandom(&instance_, sizeof instance_, 0) != sizeof instance_) return EIO;
  table_ = zero_array<shm::queue_pair*>(1u << shm::own_bits);
  using unshared::open;
  epoll_ = open([] { return opened("epoll_create1", ::epoll_create1(EPOLL_CLOEXEC)); });
  wake_ = open([] { return opened("eventfd", ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)); });
  clock_ = open([] {
    return opened("timerfd_create", ::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  });
  listener_ = open([] {
    return opened("socket", ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  });
  if (epoll_ < 0 || wake_ < 0 || clock_ < 0 || listener_ < 0) return errno;
  const int one = 1;
  ::setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  // The first port that nobody has, from anywhere on: one that has just been left is not soon taken
  // again.
  const std::uint32_t first = static_cast<std::uint32_t>(instance_ % shm::most_contexts);
  int e = EADDRINUSE;
  for (std::uint32_t i = 0; i < shm::most_contexts && e == EADDRINUSE; ++i) {
    c.block = (first + i) % shm::most_contexts;
    self_.port = static_cast<std::uint16_t>(options_.first_port + c.block);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(self_.port);
    at.sin_addr.s_addr = self_.ip;
    const bool bound = ::bind(listener_, reinterpret_cast<sockaddr*>(&at), sizeof at) == 0 &&
                       ::listen(listener_, 4096) == 0;
    e = bound ? 0 : errno;
  }
  if (e != 0) return e;
  ibv_gid gid{};
  gid.raw[10] = gid.raw[11] = 0xff;
  std::memcpy(gid.raw + 12, &self_.ip, 4);
  c.name = shm::nonce::of(gid);
  e = watch_fd(epoll_, listener_, EPOLLIN, about_listener);
  if (e == 0) e = watch_fd(epoll_, wake_, EPOLLIN, about_wake);
  if (e == 0) e = watch_fd(epoll_, clock_, EPOLLIN, about_clock);
  if (e != 0) return e;
  // Where a sandbox refuses this, nobody could ever connect.
  const int first_look = accept_visitors();
  return first_look == EPERM || first_look == ENOSYS ? first_look : 0;
}

void network::close() noexcept {
  const std::lock_guard guard(reading_);
  constexpr std::uint64_t moment_ns = 1'000'000'000;
  const std::uint64_t until = now_ns() + moment_ns;
  for (remote* r : live_) {
    const std::lock_guard out(r->out.lock);
    const frame_head f{.what = kind::bye};
    r->out.append(&f, sizeof f);
    send_out(*r);
  }
  // What is left goes out, and the other end's hang-up is waited for: a socket that is closed while
  // it holds unread bytes takes back what it has sent.
  for (remote* r : live_) {
    for (;;) {
      const std::lock_guard out(r->out.lock);
      if (r->out.bytes() == 0 || now_ns() > until) break;
      pollfd p{r->socket, POLLOUT, 0};
      ::poll(&p, 1, 10);
      if (r->out.send(r->socket) == output::went::failed) break;
    }
    ::shutdown(r->socket, SHUT_WR);
  }
  for (remote* r : live_) {
    std::byte rest[4096];
    while (now_ns() < until) {
      pollfd p{r->socket, POLLIN, 0};
      if (::poll(&p, 1, 20) > 0 && ::recv(r->socket, rest, sizeof rest, MSG_DONTWAIT) <= 0) break;
    }
  }
  for (auto& r : remotes_) unshared::close(r->socket);
  if (self_in_) unshared::close(self_in_->socket);
  for (auto& v : visitors_) unshared::close(v->socket);
  visitors_.clear();
  live_.clear();
  for (int* fd : {&listener_, &wake_, &clock_, &epoll_}) unshared::close(*fd);
}

unsigned network::cut() noexcept {
  const std::lock_guard guard(reading_);
  for (const remote* r : live_) ::shutdown(r->socket, SHUT_RDWR);
  return static_cast<unsigned>(live_.size());
}

void network::wake() noexcept { ring_bell(wake_); }

void network::watch(remote& r, std::uint32_t events) noexcept {
  if (r.watched == events || r.socket < 0) return;
  epoll_event e{};
  e.events = events;
  e.data.u64 = reinterpret_cast<std::uint64_t>(&r);
  ::epoll_ctl(epoll_, r.watched == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, r.socket, &e);
  r.watched = events;
}

void network::happened(std::uint64_t about, std::uint32_t events) noexcept {
  if (about == about_listener) return (void)accept_visitors();
  if (about == about_wake) {
    (void)hush_bell(wake_);
    return look_at_the_clock();
  }
  if (about == about_clock) {
    (void)hush_bell(clock_);
    return look_at_the_clock();
  }
  if ((about & visitor_bits) != 0) {
    const auto at = std::ranges::find_if(
        visitors_, [&](const auto& v) { return v->id == static_cast<std::uint32_t>(about >> 2); });
    if (at != visitors_.end() && !hear(**at)) {
      unshared::close((*at)->socket);
      visitors_.erase(at);
    }
    return;
  }
  remote& r = *reinterpret_cast<remote*>(about);
  if (r.now == remote::phase::connecting) return connected(r);
  if (r.now == remote::phase::greeting) return greet_on(r);
  if (r.now != remote::phase::up) return;
  if ((events & EPOLLOUT) != 0) {
    {
      const std::lock_guard out(r.out.lock);
      send_out(r);
    }
    drain(r);
  }
  if ((events & ~std::uint32_t{EPOLLOUT}) != 0 && !take_in(r)) lose(r, errno);
}

bool network::progress(bool again) noexcept {
  // A look is a system call. After one that found nothing there is none for as long as it took: so
  // a thread that polls in a loop has half of its time for all else that it polls.
  const std::uint64_t begun = ticks();
  // relaxed: a hint; a thread that misses it looks once more
  if (again && static_cast<std::int64_t>(rest_until_.load(std::memory_order_relaxed) - begun) > 0)
    return true;
  const std::unique_lock guard(reading_, std::try_to_lock);
  if (!guard) return false;
  moved_ = false;
  const bool direct = !live_.empty() && live_.size() <= few &&
                      blocked_.load(std::memory_order_relaxed) == 0 &&
                      !wants_.load(std::memory_order_relaxed) && ++looks_ % looks_a_round != 0;
  if (direct) {
    for (std::size_t i = 0; i < live_.size(); ++i)
      if (remote& r = *live_[i]; !take_in(r)) lose(r, errno), --i;
  } else {
    epoll_event events[32];
    const int n = asked("epoll_wait", ::epoll_wait(epoll_, events, 32, 0));
    moved_ = n > 0;
    for (int i = 0; i < n; ++i) happened(events[i].data.u64, events[i].events);
    // Orders: as in want()
    if (wants_.exchange(false, std::memory_order_acquire)) look_at_the_clock();
  }
  const std::uint64_t ended = ticks();
  rest_until_.store(moved_ ? 0 : ended + std::min(ended - begun, most_rest),
                    std::memory_order_relaxed);
  if (dirty_.load(std::memory_order_relaxed) == 0) return true;
  const std::uint64_t now = now_ns();
  for (remote* r : live_) {
    const std::lock_guard out(r->out.lock);
    if (!r->dirty || r->blocked) continue;
    // Between two looks nothing has been posted: so a program waits for what comes of it.
    const std::size_t waits = r->out.bytes();
    const bool still = waits != 0 && waits == std::exchange(r->seen_bytes, waits);
    if (still || now - r->first_ns >= batch_ns) send_out(*r);
  }
  return true;
}

void network::flush() noexcept {
  if (!holds_back()) return;
  const std::unique_lock guard(reading_, std::try_to_lock);
  if (!guard) return;
  for (remote* r : live_) {
    const std::lock_guard out(r->out.lock);
    if (r->dirty && !r->blocked) send_out(*r);
  }
}

void network::add_acks(remote& r) noexcept {
  for (shm::queue_pair* qp : r.owing) {
    half& h = half_of(*qp);
    h.owes = false;
    const frame_head f{.what = kind::ack,
                       .to = h.dest,
                       .from = qp->qp_num,
                       .seq = h.expected.load(std::memory_order_relaxed) - 1};
    r.out.append(&f, sizeof f);
  }
  r.owing.clear();
  r.owes_now = false;
}

void network::send_out(remote& r) noexcept {
  if (!r.up) return;
  add_acks(r);
  const output::went went = r.out.send(r.socket);
  if (went == output::went::failed) ::shutdown(r.socket, SHUT_RDWR);  // the reader sees the end
  const bool blocked = went == output::went::some;
  if (blocked != r.blocked) {
    r.blocked = blocked;
    blocked_.fetch_add(blocked ? 1u : ~0u, std::memory_order_relaxed);
    watch(r, blocked ? EPOLLIN | EPOLLOUT : EPOLLIN);
  }
  r.sent_ns = now_ns();
  r.seen_bytes = 0;
  r.unsent = 0;
  r.awaited = false;
  if (std::exchange(r.dirty, false)) dirty_.fetch_sub(1, std::memory_order_relaxed);
}

/// Sends what waits, or leaves it for the next look, so that it goes with what comes after it.
void network::send_or_wait(remote& r) noexcept {
  if (r.blocked || !r.up) return;
  const std::uint64_t time = now_ns();
  const bool alone = r.under_way.load(std::memory_order_relaxed) <= r.unsent;
  if (r.out.bytes() >= batch_bytes || (r.awaited && (alone || time - r.sent_ns >= batch_ns)))
    return send_out(r);
  leave_for_later(r, time);
}

/// Something waits to go with what comes after it, but for a moment only: the pusher sees to that
/// where no program polls.
void network::leave_for_later(remote& r, std::uint64_t now) noexcept {
  if (std::exchange(r.dirty, true)) return;
  // W5 work left  seq_cst add dirty_, then load watching  <-> W6 (nic/shm/pusher.cpp)
  dirty_.fetch_add(1, std::memory_order_seq_cst);
  r.first_ns = now;
  context_->pusher.watch();
}

/// Lets queue pairs go on that found no room.
void network::drain(remote& r) noexcept {
  std::vector<shm::queue_pair*> waiting;
  {
    const std::lock_guard out(r.out.lock);
    if (r.blocked) return;
    waiting.swap(r.waiting);
  }
  for (shm::queue_pair* qp : waiting) {
    const shm::hold guard(qp->sending);
    shm::push_on(*qp);
  }
}

void network::wait_untouched(std::uint32_t rkey) noexcept {
  const std::lock_guard guard(reading_);  // what comes in is placed under it
  for (remote* r : live_) {
    const std::lock_guard out(r->out.lock);
    if (!r->out.let_go(nullptr, rkey)) ::shutdown(r->socket, SHUT_RDWR);
  }
}

}  // namespace penstock::nic::tcp
