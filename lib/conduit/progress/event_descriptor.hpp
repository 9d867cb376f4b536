// The descriptor on which a program sleeps (endpoint::event_fd): an epoll instance over all that
// tells of messages, completions, events and the job's end. The engine owns it.
//
//   awake: polls, handles   -- arm(): give credits back, arm the queues, look once more --> asleep
//     ^                                                                                      |
//     +---- the descriptor is readable, and stays so until arm() takes the events ----------+
//
// A request that is short of room, a buffer or a connection is told of these by nobody. So after
// one that has timed out the descriptor becomes readable by itself, after look_ns.
#pragma once

#include <atomic>
#include <memory>

#include "lib/base/result.hpp"
#include "lib/base/status.hpp"
#include "lib/conduit/progress/armed_queues.hpp"
#include "penstock/mode.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

class core;
class engine;
class ways;

/// Threads: arm() by one at a time.
class event_descriptor {
 public:
  /// The failure names what the kernel refused.
  static result<std::unique_ptr<event_descriptor>> make();
  ~event_descriptor();
  event_descriptor(const event_descriptor&) = delete;
  event_descriptor& operator=(const event_descriptor&) = delete;

  [[nodiscard]] int fd() const noexcept { return epoll_; }
  /// After the engine has started: takes all its sources in.
  result<void> attach(engine& e, core& c, ways& w, ibv_comp_channel* channel);
  /// See endpoint::arm(). After attach().
  status arm() noexcept;
  /// The next arm() makes the descriptor readable after look_ns. Any thread.
  void look_soon() noexcept { soon_.store(true, std::memory_order_relaxed); }
  /// Nothing wakes any more: the endpoint is closing.
  void detach() noexcept { queues_.reset(); }

  static constexpr long look_ns = 500'000;

 private:
  event_descriptor() = default;
  [[nodiscard]] bool add(int fd, std::uint32_t how = 0) const noexcept;
  void set_timer(long ns) noexcept;
  int epoll_ = -1, timer_ = -1;
  bool early_ = false;             // woken by the bells themselves
  bool timed_ = false;             // the timer runs, or has fired
  std::atomic<bool> soon_{false};  // relaxed, always: a hint for the thread that arms
  std::unique_ptr<armed_queues> queues_;
};

}  // namespace penstock::conduit::PENSTOCK_ABI
