// A queue of events behind a descriptor that poll(2) can wait for: completion channels and the
// asynchronous events of a context. One count in the eventfd stands for one event in the queue.
#pragma once

#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <deque>
#include <mutex>

#include "lib/base/assert.hpp"
#include "lib/base/descriptors.hpp"

namespace penstock::nic::shm {

template <class Event>
class event_queue {
 public:
  event_queue() = default;
  ~event_queue() { close_kept(fd_); }
  event_queue(const event_queue&) = delete;
  event_queue& operator=(const event_queue&) = delete;

  /// 0 or an errno.
  int open() noexcept {
    fd_ = kept(opened("eventfd", ::eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE)));
    return fd_ < 0 ? errno : 0;
  }
  [[nodiscard]] int fd() const noexcept { return fd_; }

  void push(const Event& e) {
    const std::lock_guard guard(lock_);
    events_.push_back(e);
    ring_bell(fd_);
  }

  /// The oldest event; waits for one unless the user made the descriptor non-blocking. 0, or -1
  /// with errno.
  int pop(Event& e) {
    for (;;) {
      std::uint64_t one;  // read(2) and not poll(2): it goes on after a handler with SA_RESTART
      if (::read(fd_, &one, sizeof one) != sizeof one) return -1;
      const std::lock_guard guard(lock_);
      if (debt_ != 0) {  // the count of an event that was withdrawn
        --debt_;
        continue;
      }
      PENSTOCK_ASSERT(events_.empty(), ==, false);
      e = events_.front();
      events_.pop_front();
      return 0;
    }
  }

  /// Takes back every undelivered event for which pred holds, because its object is being
  /// destroyed.
  template <class Pred>
  void withdraw(Pred pred) {
    const std::lock_guard guard(lock_);
    for (auto i = events_.begin(); i != events_.end();) {
      if (!pred(*i)) {
        ++i;
        continue;
      }
      i = events_.erase(i);
      take_count();
    }
  }

 private:
  /// Under the lock. Never waits: where a reader has the count of this event already, that reader
  /// goes on instead.
  void take_count() noexcept {
    std::uint64_t one;
    const iovec v{&one, sizeof one};
    if (::preadv2(fd_, &v, 1, -1, RWF_NOWAIT) != static_cast<ssize_t>(sizeof one)) ++debt_;
  }

  int fd_ = -1;
  std::mutex lock_;
  // Counts in the eventfd, and those that readers hold on their way to the lock, are as many as
  // events_ and debt_ together.
  std::deque<Event> events_;
  std::uint64_t debt_ = 0;  ///< withdrawn events whose counts are yet to be taken
};

}  // namespace penstock::nic::shm
