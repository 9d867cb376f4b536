// The context's service thread, which answers peers: who are you, which file is behind this key,
// copy this for me. It takes no lock of a queue and never waits for a peer. So every question of
// every peer is answered, whatever the programs' threads hold or wait for meanwhile.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <unordered_map>

#include "nic/shm/wire.hpp"

namespace penstock::nic::shm {

struct context;

class service_thread {
 public:
  explicit service_thread(context& c) noexcept : context_(c) {}
  ~service_thread() { stop(); }

  /// Binds the context's socket to the context's name. 0 or an errno; EADDRINUSE: another context
  /// has that name.
  int bind() noexcept;
  /// Starts the thread. 0 or an errno.
  int start();
  void stop() noexcept;
  /// Whether the thread is at work on memory of that key. After a heavy fence, as
  /// qp_entry::touching.
  [[nodiscard]] bool serves(std::uint32_t rkey) const noexcept {
    return serving_.load(std::memory_order_acquire) == rkey;  // acquire: the bytes are copied
  }

 private:
  struct visitor {
    nonce from;
    bool greeted = false;
  };
  void run() noexcept;
  void accept_visitors() noexcept;
  void note_shortage(int code) noexcept;
  bool serve(int socket, visitor& v) noexcept;
  void say(int socket, const reply& a, const void* payload, std::size_t bytes, int fd) noexcept;
  // answers.cpp
  void answer(int socket, const visitor& v, const request& q, std::size_t bytes) noexcept;
  void say_hello(int socket, visitor& v, const request& q) noexcept;
  void hand_file(int socket, const visitor& v, const request& q) noexcept;
  void take_overflow(const visitor& v, const request& q, int fd) noexcept;
  void help(int socket, const visitor& v, const request& q, std::size_t bytes) noexcept;

  context& context_;
  socket_name name_{};
  std::atomic<std::uint32_t> serving_{0};
  int epoll_ = -1, listener_ = -1, stop_ = -1;
  std::unordered_map<int, visitor> visitors_;  // the thread's own
  std::unique_ptr<std::byte[]> payload_;       // the thread's own, wire_payload bytes
  std::uint64_t short_since_ns_ = 0;           // no descriptor is left since then; 0: some are
  bool gave_up_ = false;                       // the thread's own
  std::thread thread_;
};

}  // namespace penstock::nic::shm
