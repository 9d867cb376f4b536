// A queue of events behind a descriptor that poll(2) can wait for: completion channels and the
// asynchronous events of a context. One count in the eventfd stands for one event in the queue.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
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
  ~event_queue() {
    if (fd_ >= 0) ::close(fd_);
  }
  event_queue(const event_queue&) = delete;
  event_queue& operator=(const event_queue&) = delete;

  /// 0 or an errno.
  int open() noexcept {
    fd_ = opened("eventfd", ::eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE));
    return fd_ < 0 ? errno : 0;
  }
  [[nodiscard]] int fd() const noexcept { return fd_; }

  void push(const Event& e) {
    const std::lock_guard guard(lock_);
    events_.push_back(e);
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto n = ::write(fd_, &one, sizeof one);
  }

  /// The oldest event; waits for one unless the user made the descriptor non-blocking. 0, or -1
  /// with errno.
  int pop(Event& e) {
    for (;;) {
      {
        const std::lock_guard guard(lock_);
        if (!events_.empty()) {
          e = events_.front();
          events_.pop_front();
          take_count();
          return 0;
        }
      }
      // A count is taken with its event only: one that was taken before would be missing where the
      // event is withdrawn meanwhile.
      if ((::fcntl(fd_, F_GETFL) & O_NONBLOCK) != 0) return errno = EAGAIN, -1;
      pollfd wait{fd_, POLLIN, 0};
      if (::poll(&wait, 1, -1) < 0) return -1;
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
  /// Under the lock, of an event that is in the queue: this never waits.
  void take_count() noexcept {
    std::uint64_t one;
    [[maybe_unused]] const auto n = ::read(fd_, &one, sizeof one);
    PENSTOCK_ASSERT(n, ==, static_cast<ssize_t>(sizeof one));
  }

  int fd_ = -1;
  std::mutex lock_;
  std::deque<Event> events_;
};

}  // namespace penstock::nic::shm
