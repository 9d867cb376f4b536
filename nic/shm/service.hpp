// The context's service thread: what an adapter's hardware would do while its process does
// something else. It answers peers (who are you, which file is behind this key, copy this for me),
// notices their death, carries datagrams, wakes sleepers, and pushes on sends that wait for room, a
// receive or a timer when the program does not poll.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <unordered_map>

#include "nic/shm/wire.hpp"

namespace penstock::nic::shm {

struct context;
struct peer;

class service_thread {
 public:
  explicit service_thread(context& c) noexcept : context_(c) {}
  ~service_thread() { stop(); }

  /// Binds the context's sockets and starts the thread. 0 or an errno.
  int start();
  void stop() noexcept;

  /// Has the thread look at every queue soon. Any thread; one system call.
  void kick() noexcept;
  /// Tells it that a send queue holds work, so that it looks every millisecond. Cheap when it
  /// knows.
  void watch() noexcept {
    // W1 work left  seq_cst load watching  <-> W2: the thread clears it, then looks for work
    if (!watching_.load(std::memory_order_seq_cst)) begin_watch();
  }
  /// Watches the peer's socket for its hang-up.
  int add_peer(const std::shared_ptr<peer>& p);
  void remove_peer(peer& p) noexcept;

  [[nodiscard]] int datagram_socket() const noexcept { return datagrams_; }

 private:
  struct visitor {
    nonce from;
    bool greeted = false;
  };
  void begin_watch() noexcept;
  void run() noexcept;
  int patience() noexcept;
  void accept_visitors() noexcept;
  bool serve(int socket, visitor& v) noexcept;
  // answers.cpp
  void answer(int socket, const visitor& v, const request& q, std::size_t bytes) noexcept;
  void say_hello(int socket, visitor& v, const request& q) noexcept;
  void hand_file(int socket, const visitor& v, const request& q) noexcept;
  void help(int socket, const visitor& v, const request& q, std::size_t bytes) noexcept;
  void bury(std::uint64_t id) noexcept;
  bool look_after_queues() noexcept;

  context& context_;
  int epoll_ = -1, listener_ = -1, kicks_ = -1, datagrams_ = -1;
  std::atomic<bool> stopping_{false}, watching_{false};
  std::uint64_t quiet_since_ = 0;
  std::unordered_map<int, visitor> visitors_;  // the thread's own
  std::unique_ptr<std::byte[]> payload_;       // the thread's own, wire_payload bytes
  std::thread thread_;
};

}  // namespace penstock::nic::shm
