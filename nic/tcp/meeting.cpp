// Connections: made on demand, greeted, lost, made again; and the end of a peer.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "lib/base/clock.hpp"
#include "lib/base/descriptors.hpp"
#include "lib/base/log.hpp"
#include "nic/tcp/hello.hpp"
#include "nic/tcp/network.hpp"
#include "nic/tcp/unshared.hpp"

namespace penstock::nic::tcp {
namespace {

constexpr std::uint64_t ms = 1'000'000;
constexpr std::uint64_t greeting_ns = 3000 * ms;  // a greeting that lasts longer is none
constexpr std::uint64_t retry_after_ns = 50 * ms;
constexpr std::uint64_t crossing_ns = 1000 * ms;  // how long two connections may be made at once
constexpr std::size_t most_visitors = 64;
constexpr long tick_ns = 5 * ms;

sockaddr_in socket_address(const endpoint& at) noexcept {
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_port = htons(at.port);
  a.sin_addr.s_addr = at.ip;
  return a;
}

std::string text_of(const endpoint& at) {
  char text[INET_ADDRSTRLEN] = "";
  ::inet_ntop(AF_INET, &at.ip, text, sizeof text);
  return std::string(text) + ":" + std::to_string(at.port);
}

bool fill_random(std::uint64_t (&number)[2]) noexcept {
  return ::getrandom(number, sizeof number, 0) == sizeof number;
}

bool send_whole(int socket, const void* bytes, std::size_t n) noexcept {
  return ::send(socket, bytes, n, MSG_NOSIGNAL | MSG_DONTWAIT) == static_cast<ssize_t>(n);
}

}  // namespace

remote& network::at(const endpoint& where) {
  const std::lock_guard guard(names_);
  remote*& known = by_name_[where.order()];
  if (known == nullptr) {
    remotes_.push_back(std::make_unique<remote>());
    known = remotes_.back().get();
    known->at = where;
  }
  return *known;
}

void network::want(remote& r) noexcept {
  // Orders: who sees wants_ sees wanted
  if (r.wanted.exchange(true, std::memory_order_acq_rel)) return;
  if (!wants_.exchange(true, std::memory_order_acq_rel)) wake();
}

void network::arm_clock() noexcept {
  if (std::exchange(clock_runs_, true)) return;
  const itimerspec every{{0, tick_ns}, {0, tick_ns}};
  ::timerfd_settime(clock_, 0, &every, nullptr);
}

/// Makes the connections that are wanted, and ends what has lasted too long.
void network::look_at_the_clock() noexcept {
  using phase = remote::phase;
  const std::uint64_t now = now_ns();
  std::vector<remote*> all;
  {
    const std::lock_guard guard(names_);
    for (const auto& r : remotes_) all.push_back(r.get());
  }
  bool more = false;
  for (remote* r : all) {
    const bool wanted = r->wanted.load(std::memory_order_relaxed);
    if (r->now == phase::up) continue;
    if (r->now != phase::idle && now - r->since_ns > greeting_ns) give_up_connecting(*r, ETIMEDOUT);
    if (wanted && r->lost_ns == 0) r->lost_ns = now;
    if (wanted && r->lost_ns != 0 && now - r->lost_ns > options_.patience_ns) {
      if (r->no_socket != 0) return shm::give_up(*context_, r->no_socket);
      die(*r, "cannot be reached", r->why_not);
    }
    if (r->now == phase::idle && r->wanted.load(std::memory_order_relaxed) && now >= r->retry_ns)
      begin_connect(*r);
    more = more || (r->now != phase::up && r->wanted.load(std::memory_order_relaxed));
  }
  std::erase_if(visitors_, [&](const auto& v) {
    if (now - v->since_ns <= greeting_ns) return false;
    unshared::close(v->socket);
    return true;
  });
  more = more || !visitors_.empty();
  if (more) return arm_clock();
  if (!std::exchange(clock_runs_, false)) return;
  const itimerspec never{};
  ::timerfd_settime(clock_, 0, &never, nullptr);
}

void network::begin_connect(remote& r) noexcept {
  const sockaddr_in at = socket_address(r.at);
  r.since_ns = now_ns();
  r.watched = 0;
  r.socket = unshared::open([] {
    return opened("socket", ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  });
  r.no_socket = r.socket < 0 ? errno : 0;
  if (r.socket < 0) return give_up_connecting(r, errno);
  const int one = 1;
  ::setsockopt(r.socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  r.now = remote::phase::connecting;
  r.ours = true;
  if (::connect(r.socket, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0)
    return connected(r);
  if (errno != EINPROGRESS) return give_up_connecting(r, errno);
  watch(r, EPOLLOUT);
}

void network::give_up_connecting(remote& r, int code) noexcept {
  unshared::close(r.socket);
  r.now = remote::phase::idle;
  r.retry_ns = now_ns() + retry_after_ns;
  r.why_not = code;
  if (code == ECONNREFUSED) die(r, "has no process any more", code, true);
}

void network::connected(remote& r) noexcept {
  int e = 0;
  socklen_t n = sizeof e;
  if (::getsockopt(r.socket, SOL_SOCKET, SO_ERROR, &e, &n) != 0) e = errno;
  hello h;
  h.from_ip = self_.ip, h.from_port = self_.port;
  h.to_ip = r.at.ip, h.to_port = r.at.port;
  h.instance = instance_;
  if (e == 0 && (!fill_random(h.number) || !send_whole(r.socket, &h, sizeof h))) e = EIO;
  if (e != 0) return give_up_connecting(r, e);
  std::memcpy(r.greeting, &h, sizeof h);
  r.greeting_bytes = sizeof h;
  r.now = remote::phase::greeting;
  watch(r, EPOLLIN);
}

void network::greet_on(remote& r) noexcept {
  static_assert(sizeof(hello) + sizeof(challenge) <= sizeof r.greeting);
  constexpr std::size_t whole = sizeof(hello) + sizeof(challenge);
  const ssize_t n = ::recv(r.socket, r.greeting + r.greeting_bytes, whole - r.greeting_bytes, 0);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0) return give_up_connecting(r, EPIPE);
  r.greeting_bytes += static_cast<std::size_t>(n);
  if (r.greeting_bytes < whole) return;
  hello h;
  challenge c;
  std::memcpy(&h, r.greeting, sizeof h);
  std::memcpy(&c, r.greeting + sizeof h, sizeof c);
  if (!prove(options_.key, 1, h, c).same(c.shown)) {
    give_up_connecting(r, EACCES);
    return die(r, "does not know this job's secret", EACCES);
  }
  const proof mine = prove(options_.key, 2, h, c);
  if (!send_whole(r.socket, &mine, sizeof mine)) return give_up_connecting(r, EIO);
  if (r.instance != 0 && r.instance != c.instance) {
    const int socket = std::exchange(r.socket, -1);
    die(r, "is another process now", 0);
    r.socket = socket;
  }
  r.instance = c.instance;
  come_up(r, std::exchange(r.socket, -1), true);
}

int network::accept_visitors() noexcept {
  for (;;) {
    int why = 0;
    int s = unshared::open([&] {
      const int fd =
          opened("accept4", ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (fd < 0) why = errno;
      return fd;
    });
    if (s < 0) return why;
    const int one = 1;
    ::setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    auto v = std::make_unique<visitor>();
    v->socket = s;
    v->since_ns = now_ns();
    v->id = ++next_visitor_;
    if (visitors_.size() >= most_visitors) {  // the oldest has had its time
      unshared::close(visitors_.front()->socket);
      visitors_.erase(visitors_.begin());
    }
    if (shm::watch_socket(epoll_, s, EPOLLIN, std::uint64_t{v->id} << 2 | 2) != 0) {
      unshared::close(s);
      continue;
    }
    visitors_.push_back(std::move(v));
    arm_clock();
  }
}

/// Hears what a visitor says. False: it is gone, or it is no process of this job.
bool network::hear(visitor& v) noexcept {
  const std::size_t whole =
      v.challenged ? sizeof(hello) + sizeof(challenge) + sizeof(proof) : sizeof(hello);
  const ssize_t n = ::recv(v.socket, v.bytes + v.have, whole - v.have, 0);
  if (n < 0) return errno == EAGAIN || errno == EINTR;
  if (n == 0) return false;
  v.have += static_cast<std::size_t>(n);
  hello h;
  challenge c;
  std::memcpy(&h, v.bytes, sizeof h);
  std::memcpy(&c, v.bytes + sizeof h, sizeof c);
  const auto refuse = [&](const char* why) {
    if (!std::exchange(strangers_told_, true))
      log(log_level::warning, "tcp0: %s refuses a connection %s; further ones without a line",
          text_of(self_).c_str(), why);
    return false;
  };
  if (v.have >= sizeof h.magic && h.magic != hello_magic)
    return refuse("that does not speak its language");
  if (v.have < whole) return true;
  if (!v.challenged) {
    if (h.version != protocol_version) return refuse("of another version");
    if (endpoint{h.to_ip, h.to_port} != self_) return refuse("that is for another process");
    c = {};
    c.instance = instance_;
    if (!fill_random(c.number)) return false;
    c.shown = prove(options_.key, 1, h, c);
    if (!send_whole(v.socket, &c, sizeof c)) return false;
    std::memcpy(v.bytes + sizeof h, &c, sizeof c);
    v.have = sizeof h + sizeof c;
    v.challenged = true;
    return true;
  }
  proof shown;
  std::memcpy(&shown, v.bytes + sizeof h + sizeof c, sizeof shown);
  if (!prove(options_.key, 2, h, c).same(shown)) return refuse("that does not know its secret");
  ::epoll_ctl(epoll_, EPOLL_CTL_DEL, v.socket, nullptr);
  adopt(std::exchange(v.socket, -1), {h.from_ip, h.from_port}, h.instance);
  return false;
}

/// A peer has connected to us. Where both have, at once, the one that comes later in order
/// prevails.
void network::adopt(int socket, const endpoint& from, std::uint64_t instance) noexcept {
  if (from == self_) {
    if (!self_in_) self_in_ = std::make_unique<remote>();
    self_in_->at = self_;
    return come_up(*self_in_, socket, false);
  }
  remote& r = at(from);
  const bool mine = r.now != remote::phase::idle && r.ours && now_ns() - r.since_ns < crossing_ns &&
                    self_.order() > from.order();
  if (mine && (r.instance == 0 || r.instance == instance)) return unshared::close(socket);
  if (r.instance != 0 && r.instance != instance) die(r, "is another process now", 0);
  if (r.now != remote::phase::up) unshared::close(r.socket);
  r.instance = instance;
  come_up(r, socket, false);
}

void network::come_up(remote& r, int socket, bool ours) noexcept {
  if (r.now == remote::phase::up) lose(r, 0);
  const int one = 1, idle_s = 5, apart_s = 2, count = 3;
  const auto patience_ms = static_cast<unsigned>(options_.patience_ns / ms);
  ::setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &apart_s, sizeof apart_s);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
  ::setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &patience_ms, sizeof patience_ms);
  r.buffer.resize(input_bytes);
  r.begin = r.end = 0;
  r.in = {};
  r.now = remote::phase::up;
  r.ours = ours;
  r.bye = false;
  r.since_ns = now_ns();
  r.lost_ns = r.retry_ns = 0;
  if (r.watched != 0 && !ours) r.watched = 0;
  live_.push_back(&r);
  {
    const std::lock_guard out(r.out.lock);
    r.socket = socket;
    r.up = true;
    ++r.link;
    // Who finds no connection says so under this lock.
    r.wanted.store(false, std::memory_order_relaxed);
    r.under_way.store(0, std::memory_order_relaxed);
    watch(r, EPOLLIN);
    if (r.out.bytes() != 0) send_out(r);  // datagrams
  }
  for (shm::queue_pair* qp : r.qps) resume(*qp);
}

void network::lose(remote& r, int code) noexcept {
  refuse_closed("recvmsg", code);
  log(log_level::info, "tcp0: the connection to %s is lost: %s", text_of(r.at).c_str(),
      code != 0 ? std::strerror(code) : "it was closed");
  std::erase(live_, &r);
  {
    const std::lock_guard out(r.out.lock);
    r.up = false;
    r.out.clear();
    if (std::exchange(r.blocked, false)) blocked_.fetch_sub(1, std::memory_order_relaxed);
    if (std::exchange(r.dirty, false)) dirty_.fetch_sub(1, std::memory_order_relaxed);
    for (shm::queue_pair* qp : r.owing) half_of(*qp).owes = false;
    r.owing.clear();
    r.waiting.clear();
    unshared::close(r.socket);
    r.watched = 0;
  }
  // A message that was coming in begins anew, in the receive that it has.
  if (r.in.active && r.in.where == incoming::goes::receive && r.in.qp != nullptr)
    half_of(*r.in.qp).half_taken = true;
  r.in = {};
  r.now = remote::phase::idle;
  if (&r == self_in_.get()) return;
  if (r.bye) return die(r, "has closed its device", 0, true);
  // The end that comes first in order lets the other one connect.
  r.lost_ns = now_ns();
  r.retry_ns = r.lost_ns + (self_.order() > r.at.order() ? 0 : retry_after_ns);
  if (!r.qps.empty()) want(r), arm_clock();
}

/// The process at that address is no more, as far as can be told: its queue pairs' ends here break.
/// ended: it has ended, as processes do.
void network::die(remote& r, const char* why, int code, bool ended) noexcept {
  bool told = false;
  if (r.now != remote::phase::idle && r.now != remote::phase::up) {
    unshared::close(r.socket);
    r.now = remote::phase::idle;
  }
  r.instance = 0;
  r.lost_ns = 0;
  r.retry_ns = now_ns() + 2 * retry_after_ns;
  r.wanted.store(false, std::memory_order_relaxed);
  {
    const std::lock_guard out(r.out.lock);
    if (!r.up) r.out.clear();
  }
  for (shm::queue_pair* qp : r.qps) {
    half& h = half_of(*qp);
    {
      const shm::hold guard(qp->sending);
      h.absent = true;
    }
    if (h.left || shm::state_of(*qp) == IBV_QPS_ERR || shm::unanswered(*qp)) continue;
    if (!h.met && shm::state_of(*qp) != IBV_QPS_RTS) {  // it is being set up: asked again
      want(r);
      arm_clock();
      continue;
    }
    if (!std::exchange(told, true))
      log(ended && !options_.names_ends ? log_level::info : log_level::warning,
          "tcp0: the peer at %s %s%s%s", text_of(r.at).c_str(), why, code != 0 ? ": " : "",
          code != 0 ? std::strerror(code) : "");
    qp->verdict.store(IBV_WC_RETRY_EXC_ERR, std::memory_order_relaxed);
    shm::enter_error(*qp);
    shm::raise_qp(*qp, IBV_EVENT_QP_FATAL);
  }
}

}  // namespace penstock::nic::tcp
