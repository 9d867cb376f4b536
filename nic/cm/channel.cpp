// Event channels. A channel's descriptor is an epoll set of the sockets of its identifiers and of
// one timer, so a program may wait for it as it likes, and no thread is needed.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "lib/base/descriptors.hpp"
#include "lib/base/immortal.hpp"
#include "nic/cm/cm.hpp"

namespace penstock::nic::cm {
namespace {

void arm(channel& c) noexcept {
  itimerspec when{};
  if (!c.queue.empty()) {
    when.it_value.tv_nsec = 1;  // it stays readable until it is set again
  } else if (!c.deadlines.empty()) {
    const auto left = std::max<std::int64_t>(
        1, std::chrono::nanoseconds(c.deadlines.begin()->first - clock::now()).count());
    when.it_value = {static_cast<time_t>(left / 1'000'000'000),
                     static_cast<long>(left % 1'000'000'000)};
  }
  ::timerfd_settime(c.timer, 0, &when, nullptr);
}

/// Whether a signal that was caught lets read(2) fail rather than go on: waiting here fails with
/// EINTR always, even when a debugger stops the process.
bool interrupts() noexcept {
  for (int s = 1; s <= SIGRTMAX; ++s) {
    struct sigaction a {};
    if (::sigaction(s, nullptr, &a) == 0 && a.sa_handler != SIG_DFL && a.sa_handler != SIG_IGN &&
        (a.sa_flags & SA_RESTART) == 0)
      return true;
  }
  return false;
}

/// Waits until the set has something. The key of what it is, or none with errno.
std::optional<std::uint64_t> wait(const channel& c) noexcept {
  for (;;) {
    const int flags = ::fcntl(c.pub.fd, F_GETFL);
    epoll_event e{};
    const int n = ::epoll_wait(c.pub.fd, &e, 1, flags >= 0 && (flags & O_NONBLOCK) != 0 ? 0 : -1);
    if (n > 0) return std::uint64_t{e.data.u64};
    if (n == 0) return errno = EAGAIN, std::nullopt;
    if (errno != EINTR || interrupts()) return std::nullopt;
  }
}

void take_deadlines(channel& c, const guard& g) {
  while (!c.deadlines.empty() && c.deadlines.begin()->first <= clock::now()) {
    identifier& i = *everything().all.at(c.deadlines.begin()->second);
    set_deadline(i, std::nullopt, g);
    expire(i, g);
  }
  arm(c);
}

std::unique_ptr<event> take_queued(channel& c, const guard&) noexcept {
  if (c.queue.empty()) return nullptr;
  auto e = std::move(c.queue.front());
  c.queue.pop_front();
  arm(c);
  ++e->counted_for->unacked;
  if (e->pub.event == RDMA_CM_EVENT_CONNECT_REQUEST) of(e->pub.id).listener = 0;
  return e;
}

/// For an identifier whose channel goes first.
void desert(identifier& i, const guard& g) noexcept {
  static immortal<channel> nowhere;
  unwatch(i, g);
  i.deadline.reset();
  i.events = &nowhere.value;
}

int change(int set, int how, int fd, std::uint64_t key) noexcept {
  epoll_event e{};
  e.events = EPOLLIN;
  e.data.u64 = key;
  return ::epoll_ctl(set, how, fd, &e) == 0 ? 0 : errno;
}

}  // namespace

world& everything() noexcept {
  static immortal<world> w;  // programs clean up at exit
  return w.value;
}

std::unique_ptr<channel> make_channel() {
  auto c = std::make_unique<channel>();
  c->pub.fd = opened("epoll_create1", ::epoll_create1(EPOLL_CLOEXEC));
  c->timer =
      opened("timerfd_create", ::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  int e = c->pub.fd < 0 || c->timer < 0 ? errno : 0;
  if (e == 0) e = change(c->pub.fd, EPOLL_CTL_ADD, c->timer, 0);
  if (e == 0) return c;
  free_channel(std::move(c));
  return errno = e, nullptr;
}

void free_channel(std::unique_ptr<channel> c) noexcept {
  if (c->pub.fd >= 0) ::close(c->pub.fd);
  if (c->timer >= 0) ::close(c->timer);
}

event& report(identifier& i, rdma_cm_event_type type, int status, const guard&) {
  auto e = std::make_unique<event>();
  e->pub.id = &i.pub;
  e->pub.event = type;
  e->pub.status = status;
  e->counted_for = &i;
  i.events->queue.push_back(std::move(e));
  arm(*i.events);
  return *i.events->queue.back();
}

void set_deadline(identifier& i, std::optional<clock::time_point> when, const guard&) {
  if (i.deadline) i.events->deadlines.erase({*i.deadline, i.key});
  if (when) i.events->deadlines.emplace(*when, i.key);
  i.deadline = when;
  arm(*i.events);
}

int watch(identifier& i, const guard&) {
  if (const int e = change(i.events->pub.fd, EPOLL_CTL_ADD, i.socket, i.key)) return e;
  i.watched = true;
  return 0;
}

void unwatch(identifier& i, const guard&) noexcept {
  if (i.watched) change(i.events->pub.fd, EPOLL_CTL_DEL, i.socket, 0);
  i.watched = false;
}

int move_to(identifier& i, channel& to, const guard& g) {
  const bool watched = i.watched;
  const auto deadline = i.deadline;
  set_deadline(i, std::nullopt, g);
  unwatch(i, g);
  channel& from = *i.events;
  std::deque<std::unique_ptr<event>> stay;
  for (auto& e : from.queue) (e->counted_for == &i ? to.queue : stay).push_back(std::move(e));
  from.queue = std::move(stay);
  arm(from);
  i.events = &to;
  set_deadline(i, deadline, g);  // arms the new channel
  for (const auto& [key, child] : everything().all)
    if (child->listener == i.key)
      if (const int e = move_to(*child, to, g)) return e;
  return watched ? watch(i, g) : 0;
}

int next_event(channel& c, rdma_cm_event** to) {
  for (;;) {
    std::unique_ptr<event> e;
    {
      const guard g(everything().lock);
      e = take_queued(c, g);
    }
    if (e) {
      settle(*e);
      *to = &e.release()->pub;
      return 0;
    }
    const auto key = wait(c);
    if (!key) return errno;
    guard g(everything().lock);
    if (*key == 0) {
      take_deadlines(c, g);
      continue;
    }
    const auto at = everything().all.find(*key);
    if (at != everything().all.end() && at->second->events == &c && at->second->watched)
      look_at(*at->second, g);
  }
}

void drop_kept_event(identifier& i) noexcept {
  if (i.pub.event == nullptr) return;
  rdma_ack_cm_event(i.pub.event);
  i.pub.event = nullptr;
}

int complete(identifier& i) {
  if (!i.sync) return 0;
  drop_kept_event(i);
  if (const int e = next_event(*i.events, &i.pub.event)) return e;
  const rdma_cm_event& got = *i.pub.event;
  if (got.event == RDMA_CM_EVENT_REJECTED) return ECONNREFUSED;
  if (got.status == 0) return 0;
  return got.status < 0 ? -got.status : EHOSTUNREACH;
}

}  // namespace penstock::nic::cm

using namespace penstock::nic::cm;

extern "C" {

rdma_event_channel* rdma_create_event_channel() {
  channel* made = nullptr;
  answer([&] {
    if (open_devices().empty()) return errno;
    made = make_channel().release();
    return made != nullptr ? 0 : errno;
  });
  return made != nullptr ? &made->pub : nullptr;
}

void rdma_destroy_event_channel(rdma_event_channel* c) {
  if (c == nullptr) return;
  {
    const guard g(everything().lock);
    for (const auto& [key, i] : everything().all)
      if (i->events == &of(c)) desert(*i, g);
  }
  free_channel(std::unique_ptr<channel>(&of(c)));
}

int rdma_get_cm_event(rdma_event_channel* c, rdma_cm_event** to) {
  return answer([&] { return c == nullptr || to == nullptr ? EINVAL : next_event(of(c), to); });
}

int rdma_ack_cm_event(rdma_cm_event* e) {
  if (e == nullptr) return errno = EINVAL, -1;
  const std::unique_ptr<event> whole(&of(e));
  auto& w = everything();
  const guard g(w.lock);
  if (--whole->counted_for->unacked == 0) w.acknowledged.notify_all();
  return 0;
}

const char* rdma_event_str(rdma_cm_event_type type) {
  switch (type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      return "RDMA_CM_EVENT_ADDR_RESOLVED";
    case RDMA_CM_EVENT_ADDR_ERROR:
      return "RDMA_CM_EVENT_ADDR_ERROR";
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
      return "RDMA_CM_EVENT_ROUTE_RESOLVED";
    case RDMA_CM_EVENT_ROUTE_ERROR:
      return "RDMA_CM_EVENT_ROUTE_ERROR";
    case RDMA_CM_EVENT_CONNECT_REQUEST:
      return "RDMA_CM_EVENT_CONNECT_REQUEST";
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
      return "RDMA_CM_EVENT_CONNECT_RESPONSE";
    case RDMA_CM_EVENT_CONNECT_ERROR:
      return "RDMA_CM_EVENT_CONNECT_ERROR";
    case RDMA_CM_EVENT_UNREACHABLE:
      return "RDMA_CM_EVENT_UNREACHABLE";
    case RDMA_CM_EVENT_REJECTED:
      return "RDMA_CM_EVENT_REJECTED";
    case RDMA_CM_EVENT_ESTABLISHED:
      return "RDMA_CM_EVENT_ESTABLISHED";
    case RDMA_CM_EVENT_DISCONNECTED:
      return "RDMA_CM_EVENT_DISCONNECTED";
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
      return "RDMA_CM_EVENT_DEVICE_REMOVAL";
    case RDMA_CM_EVENT_MULTICAST_JOIN:
      return "RDMA_CM_EVENT_MULTICAST_JOIN";
    case RDMA_CM_EVENT_MULTICAST_ERROR:
      return "RDMA_CM_EVENT_MULTICAST_ERROR";
    case RDMA_CM_EVENT_ADDR_CHANGE:
      return "RDMA_CM_EVENT_ADDR_CHANGE";
    case RDMA_CM_EVENT_TIMEWAIT_EXIT:
      return "RDMA_CM_EVENT_TIMEWAIT_EXIT";
  }
  return "UNKNOWN EVENT";
}
}
