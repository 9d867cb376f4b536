// The context's second thread. It does what an adapter's send and receive engines would do while
// the program does something else. It wakes sleeping programs whose bell was rung, and continues
// sends that wait for room, a receive or a timer. It takes in messages whose sender is stuck,
// flushes broken QPs, carries datagrams, and cleans up after dead peers. It takes the queues'
// locks, so it never answers peers (service.hpp does that).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "nic/shm/wire.hpp"

namespace penstock::nic::shm {

struct context;
struct completion_queue;
struct peer;

class pusher_thread {
 public:
  explicit pusher_thread(context& c) noexcept : context_(c) {}
  ~pusher_thread() { stop(); }

  /// 0 or an errno.
  int start();
  void stop() noexcept;

  /// Makes the thread look at every queue soon. Any thread; one system call.
  void kick() noexcept;
  /// Tells the thread that a send queue holds work, so that it looks every millisecond. Cheap when
  /// it has been told already.
  void watch() noexcept {
    // W1 work left  seq_cst load watching  <-> W2: the thread clears it, then looks for work
    if (!watching_.load(std::memory_order_seq_cst)) begin_watch();
  }
  /// Watches the peer's socket for its hang-up.
  int add_peer(const std::shared_ptr<peer>& p);
  void remove_peer(peer& p) noexcept;
  /// Returns when the thread does not look at an object that was taken off the context's lists
  /// before.
  void let_go() noexcept { const std::lock_guard guard(working_); }

  /// From now on the thread takes in the datagrams that were left to the program.
  void look_at_datagrams() noexcept {
    if (resting_.load(std::memory_order_relaxed)) kick();  // relaxed: it looks every millisecond
  }

  [[nodiscard]] int datagram_socket() const noexcept { return datagrams_; }
  /// The socket of the bells, on which a program sleeps as well from now on.
  [[nodiscard]] int shared_bells() noexcept {
    shared_.store(true, std::memory_order_relaxed);
    return bells_;
  }

 private:
  void begin_watch() noexcept;
  void run() noexcept;
  int start_beside_carrier();
  int begin();
  int patience() noexcept;
  [[nodiscard]] bool held_back() const noexcept;
  void hear_kicks() noexcept;
  void take_datagrams() noexcept;
  void bury(std::uint64_t id) noexcept;
  bool look_after_queues() noexcept;

  context& context_;
  int epoll_ = -1, bells_ = -1, kicks_ = -1, datagrams_ = -1;
  std::atomic<bool> stopping_{false}, watching_{false}, shared_{false};
  /// Datagrams do not wake the thread, since the program polls them. The thread checks every
  /// millisecond whether the program still does.
  std::atomic<bool> resting_{false};
  std::uint64_t quiet_since_ = 0;
  std::mutex working_;                    ///< held for one round; taken before context::objects
  std::vector<completion_queue*> round_;  // the thread's own
  std::thread thread_;
};

}  // namespace penstock::nic::shm
