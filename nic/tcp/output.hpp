// What waits to be sent on a connection: bytes of our own, and references to registered memory,
// which is read when the kernel takes it. Any thread, under `lock`, which is taken last.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include "nic/shm/untouched.hpp"

namespace penstock::nic::shm {
struct queue_pair;
}

namespace penstock::nic::tcp {

class output {
 public:
  std::mutex lock;

  // Where there is no memory for these, what waits is not sent, and send() fails: on the next
  // connection everything without an answer is sent again.
  /// Appends a copy.
  void append(const void* bytes, std::size_t n) noexcept;
  /// Appends a reference to memory of a queue pair's program, registered under that key.
  void refer(const std::byte* bytes, std::size_t n, const shm::queue_pair* of,
             std::uint32_t key) noexcept;
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

  enum class went { all, some, failed };
  /// Gives the kernel what it takes now, about a megabyte at most. some: more is left, for the next
  /// time that it takes any. failed: the connection is broken.
  went send(int socket) noexcept;
  /// Copies what is referred to, of that queue pair or key, since its memory will not be ours any
  /// more. False: that is too much, or there is no memory, and the connection has to be broken.
  [[nodiscard]] bool let_go(const shm::queue_pair* of, std::uint32_t key) noexcept;
  void clear() noexcept;

 private:
  using bytes_of_ours = shm::untouched_vector<std::byte>;
  struct piece {
    bytes_of_ours own;  // empty: a reference
    const std::byte* at = nullptr;
    std::size_t bytes = 0, room = 0;  // room behind the bytes, of our own
    const shm::queue_pair* of = nullptr;
    std::uint32_t key = 0;
  };
  [[nodiscard]] static bool own(piece& p) noexcept;

  std::deque<piece> pieces_;
  std::size_t bytes_ = 0;
  bool lost_ = false;                 // there was no memory for something
  std::vector<bytes_of_ours> spare_;  // blocks without bytes to send; has room for most_spare
};

}  // namespace penstock::nic::tcp
