// A datagram as it crosses the socket, and those that have arrived at a queue pair and wait there
// for a receive. For datagram.cpp, and for qp.hpp, whose UD queue pairs have such a line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>

#include "lib/base/assert.hpp"
#include "nic/shm/layout.hpp"
#include "nic/shm/limits.hpp"
#include "nic/shm/patience.hpp"

namespace penstock::nic::shm {

struct datagram_head {
  std::uint32_t version = arena_version;
  std::uint32_t to_qpn = 0, from_qpn = 0, qkey = 0;
  std::uint32_t with_imm = 0, imm = 0, solicited = 0, bytes = 0;
  std::uint32_t from_lid = 0, without_grh = 0;
  nonce from;  ///< the sender's GID
};

struct datagram_packet {
  datagram_head head;
  std::byte body[max_datagram_bytes];
};

/// Datagrams that wait for a receive of their queue pair, in order. Under context::datagram_lock.
class datagram_line {
 public:
  datagram_line() = default;
  datagram_line(const datagram_line&) = delete;
  datagram_line& operator=(const datagram_line&) = delete;
  ~datagram_line() { clear(); }

  receive_patience patience;

  [[nodiscard]] bool empty() const noexcept { return first_ == nullptr; }
  [[nodiscard]] const datagram_packet& front() const noexcept { return first_->packet; }

  /// Appends a copy. False when there is no memory for it.
  [[nodiscard]] bool append(const datagram_packet& d) noexcept {
    PENSTOCK_ASSERT(d.head.bytes, <=, max_datagram_bytes);
    const std::size_t bytes = sizeof d.head + d.head.bytes;
    void* room = ::operator new(offsetof(place, packet) + bytes, std::nothrow);
    if (room == nullptr) return false;
    auto* p = static_cast<place*>(room);
    p->next = nullptr;
    std::memcpy(static_cast<void*>(&p->packet), &d, bytes);
    (first_ == nullptr ? first_ : last_->next) = p;
    last_ = p;
    return true;
  }
  void pop() noexcept {
    PENSTOCK_ASSERT(empty(), ==, false);
    place* p = first_;
    first_ = p->next;
    ::operator delete(p);
  }
  /// Removes all; answers how many there were.
  std::uint32_t clear() noexcept {
    std::uint32_t n = 0;
    for (; !empty(); ++n) pop();
    return n;
  }

 private:
  /// Only the bytes that a datagram has are allocated.
  struct place {
    place* next;
    datagram_packet packet;
  };
  place *first_ = nullptr, *last_ = nullptr;
};

}  // namespace penstock::nic::shm
