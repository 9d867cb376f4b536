// Messages that find no room in a ring since their receiver does not run: it is stopped, or the
// host is busy. An adapter would have placed them by now, and their sends would be done. So after a
// while the sender puts them into a file of its own and gives the file to the receiver's process,
// in whose socket the kernel keeps it. From then on until the receiver has taken them all, later
// messages follow into the file; the order is that of the ring first, then the file.
//
// For RC queue pairs, and messages that certainly fit their receives. Rare: none of this is on the
// way of a message that finds room.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "lib/base/assert.hpp"
#include "nic/shm/ring.hpp"

namespace penstock::nic::shm {

struct queue_pair;
struct send_work;

/// How long a sender finds no room in a ring before it goes this way.
inline constexpr std::uint64_t overflow_after_ns = 20'000'000;

/// One side's view of the file.
class overflow {
 public:
  /// The sender's: a new file. Null: there is no memory for it.
  static std::unique_ptr<overflow> make() noexcept;
  /// The receiver's, of a file that it was given, which it does not trust. Null: it is none.
  static std::unique_ptr<overflow> of(int fd) noexcept;
  ~overflow();
  overflow(const overflow&) = delete;
  overflow& operator=(const overflow&) = delete;

  [[nodiscard]] int fd() const noexcept { return fd_; }

  // The sender.
  /// Appends a piece; fill(to) writes its bytes. False: there is no room.
  template <class Fill>
  [[nodiscard]] bool put(std::uint64_t header, std::uint8_t op, std::uint32_t bytes,
                         Fill fill) noexcept {
    if (!has_room(bytes)) return false;
    record& r = *reinterpret_cast<record*>(data_ + at_);
    r = {header, bytes, op};
    fill(reinterpret_cast<std::byte*>(&r + 1));
    at_ += length_of(bytes);
    PENSTOCK_ASSERT(at_, <=, room);
    // O1 put  release shared.filled  -> O2: the record is written
    shared_->filled.store(at_, std::memory_order_release);
    return true;
  }
  [[nodiscard]] bool has_room(std::uint64_t bytes) const noexcept {
    return bytes + sizeof(record) + 8 <= room - at_;
  }
  /// The receiver has taken all that was put.
  [[nodiscard]] bool all_taken() const noexcept {
    // O4 taken?  acquire shared.taken  <- O3
    return shared_->taken.load(std::memory_order_acquire) == at_;
  }

  // The receiver.
  /// The oldest piece, or none. Rubbish in the file yields op 255.
  [[nodiscard]] ring_rx::message front() noexcept;
  void pop(const ring_rx::message& m) noexcept {
    at_ += length_of(m.data_bytes);
    PENSTOCK_ASSERT(at_, <=, room);
    // O3 take  release shared.taken  -> O4: the record has been read
    shared_->taken.store(at_, std::memory_order_release);
  }
  [[nodiscard]] bool empty() noexcept { return !front(); }

 private:
  static constexpr std::uint64_t room = std::uint64_t{3} << 29;  // more than the longest message
  struct record {
    std::uint64_t header;
    std::uint32_t bytes;
    std::uint8_t op;
  };
  struct shared {
    std::atomic<std::uint64_t> filled, taken;
  };
  static constexpr std::uint64_t begin = 64;  // behind `shared`
  static std::uint64_t length_of(std::uint64_t bytes) noexcept {
    return (sizeof(record) + bytes + 7) & ~std::uint64_t{7};
  }
  overflow() = default;
  bool map() noexcept;

  int fd_ = -1;
  std::byte* data_ = nullptr;
  shared* shared_ = nullptr;
  std::uint64_t at_ = begin;
  ring_slot front_{};  // a piece's header, in the form that receive.cpp reads
};

/// Puts what is left of a message into the queue pair's file, which is made and given away if there
/// is none. False: it stays where it is. Under `sending`.
bool put_aside(queue_pair& qp, send_work& w, std::uint8_t op) noexcept;
/// Whether messages have to follow others into the file, which is there. Drops it if the receiver
/// has emptied it. Under `sending`.
bool follows_aside(queue_pair& qp) noexcept;

}  // namespace penstock::nic::shm
