#include "lib/conduit/progress/event_descriptor.hpp"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>

#include "lib/base/descriptors.hpp"
#include "lib/base/shortage.hpp"
#include "lib/conduit/engine.hpp"
#include "nic/shm/direct.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

result<std::unique_ptr<event_descriptor>> event_descriptor::make() {
  std::unique_ptr<event_descriptor> d(new event_descriptor);
  d->epoll_ = opened("epoll_create1", ::epoll_create1(EPOLL_CLOEXEC));
  d->timer_ =
      opened("timerfd_create", ::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (d->epoll_ < 0 || d->timer_ < 0 || !d->add(d->timer_))
    return failure{"a descriptor to sleep on", errno, what_to_raise(errno)};
  return d;
}

event_descriptor::~event_descriptor() {
  for (const int fd : {epoll_, timer_})
    if (fd >= 0) ::close(fd);
}

bool event_descriptor::add(int fd, std::uint32_t how) const noexcept {
  epoll_event e{};
  e.events = EPOLLIN | how;
  return ::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &e) == 0;
}

result<void> event_descriptor::attach(engine& e, core& c, ways& w, ibv_comp_channel* channel) {
  queues_ = std::make_unique<armed_queues>(e, c, w, channel, true);
  if (auto r = queues_->open(); !r) return r;
  bool added = c.membership().ended_fd() < 0 || add(c.membership().ended_fd());
  for (const armed_queues::source& from : queues_->sources()) added = added && add(from.fd);
  // Earlier than the event that the device's thread makes of it. Where all messages go by rings
  // their own bell does.
  if (const nic::device& d = c.device(); d.shared_memory)
    early_ = true, added = added && add(nic::shm::kicks_of(d.context), EPOLLET);
  if (!added) return failure{"epoll_ctl for a descriptor to sleep on", errno, what_to_raise(errno)};
  return {};
}

status event_descriptor::arm() noexcept {
  if (running != nullptr) return status::in_handler;
  if (timed_) set_timer(0);
  // Takes the edges; what is read below shows by its level.
  epoll_event seen[8];
  (void)::epoll_wait(epoll_, seen, 8, 0);
  queues_->give_back();
  queues_->arm(early_);
  unsigned n = 0;
  if (const status s = queues_->handle(n); is_failure(s)) return s;
  if (n != 0 || queues_->waiting()) return status::pending;
  if (soon_.exchange(false, std::memory_order_relaxed)) set_timer(look_ns);
  return status::ok;
}

// Makes the descriptor readable after ns; 0: takes that back.
void event_descriptor::set_timer(long ns) noexcept {
  itimerspec t{};
  t.it_value.tv_nsec = ns;
  (void)::timerfd_settime(timer_, 0, &t, nullptr);
  timed_ = ns != 0;
}

// ---- the engine's calls ----

bool engine::may_sleep() const noexcept {
  return events_fd_ != nullptr || (core_.options().progress_thread && concurrent(build_mode));
}

result<int> engine::event_fd() {
  if (core_.options().progress_thread && concurrent(build_mode))
    return failure{"a program does not sleep beside a progress thread, which handles messages", 0,
                   "set PENSTOCK_PROGRESS_THREAD=0"};
  if (!events_fd_) {
    if (core_.has_started())
      return failure{"the endpoint has started, and others will not wake this process", 0,
                     "call event_fd() before start()"};
    auto made = event_descriptor::make();
    if (!made) return made.error();
    events_fd_ = std::move(*made);
  }
  return events_fd_->fd();
}

status engine::arm() noexcept {
  if (!core_.has_started()) return over();
  core_.calling().look();
  return events_fd_ ? events_fd_->arm() : status::unsupported;
}

}  // namespace penstock::conduit::PENSTOCK_ABI
