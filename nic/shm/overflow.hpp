// Messages that find no room in a ring since their receiver does not run: it is stopped, or the
// host is busy. An adapter would have placed them by now, and their sends would be done. So after a
// while the sender puts them into a file of its own and gives the file to the receiver's process,
// in whose socket the kernel keeps it. From then on until the receiver has taken them all, later
// messages follow into the file; the order is that of the ring first, then the file. A sender that
// waited for the ring on a busy host would get a core, fill 64 KB, and lose it, message after
// message.
//
// The file is made of blocks. Pieces lie in a block one behind the other, and behind them a mark
// names the next block: one that has been taken and whose pages are still there, if there is one.
//
//   | 7 8 - - |  not used: no memory  | 4 5 >0 |         > the next record is in that block
//         ^ the sender                    ^ the receiver
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

/// How long a sender finds no room in a ring before it goes this way: longer than a receiver that
/// runs takes to make some, shorter than one waits for a core.
inline constexpr std::uint64_t overflow_after_ns = 300'000;
/// While more than this waits in a file, its sender waits, too, so that the pages of what has been
/// taken are used again; but no longer than stopped_after_ns after the receiver has last taken
/// something.
inline constexpr std::uint64_t overflow_enough_bytes = 16u << 20;
inline constexpr std::uint64_t stopped_after_ns = 20'000'000;
/// A file of at most this length stays when it has been emptied, for the next time.
inline constexpr std::uint64_t overflow_kept_bytes = 2 * overflow_enough_bytes;

/// One side's view of the file. Each side belongs to one thread at a time: the sender's to who
/// holds `sending`, the receiver's to who holds `poll` of its receive CQ.
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
  /// The longest piece.
  static constexpr std::uint32_t piece_bytes = 256u << 10;
  /// Whether put() has room for that number of pieces now.
  [[nodiscard]] bool has_room(std::uint64_t pieces) noexcept;
  /// Appends a piece, for which there is room; fill(to) writes its bytes.
  template <class Fill>
  void put(std::uint64_t header, std::uint8_t op, std::uint32_t bytes, Fill fill) noexcept {
    PENSTOCK_ASSERT(bytes, <=, piece_bytes);
    if (at_ + length_of(bytes) + length_of(0) > end_of(block_)) next_block();
    record& r = *reinterpret_cast<record*>(data_ + at_);
    r = {header, bytes, op};
    fill(reinterpret_cast<std::byte*>(&r + 1));
    pass(length_of(bytes));
    // O1 put  release shared.filled  -> O2: the record, and a mark before it, are written
    shared_->filled.store(sum_, std::memory_order_release);
  }
  /// How much the receiver has taken of all that was ever put; and whether that is all.
  [[nodiscard]] std::uint64_t taken() const noexcept {
    // O4 taken?  acquire shared.taken  <- O3: what was there has been read
    return shared_->taken.load(std::memory_order_acquire);
  }
  [[nodiscard]] bool all_taken() const noexcept { return taken() == sum_; }
  [[nodiscard]] std::uint64_t waiting() const noexcept { return sum_ - taken(); }
  /// The bytes of the file that were ever used.
  [[nodiscard]] std::uint64_t extent() const noexcept { return most_ * block_bytes; }

  // The receiver.
  /// The oldest piece, or none. Rubbish in the file yields op 255.
  [[nodiscard]] ring_rx::message front() noexcept;
  void pop(const ring_rx::message& m) noexcept {
    pass(length_of(m.data_bytes));
    PENSTOCK_ASSERT(at_, <=, end_of(block_));
    // O3 take  release shared.taken  -> O4: the record has been read
    shared_->taken.store(sum_, std::memory_order_release);
  }
  [[nodiscard]] bool empty() noexcept { return !front(); }

 private:
  static constexpr std::uint64_t block_bytes = 1u << 20;
  static constexpr std::uint32_t blocks = 1536;  // more than the longest message
  static constexpr std::uint64_t room = block_bytes * blocks;
  struct record {
    std::uint64_t header;  // of a mark: the next block
    std::uint32_t bytes;
    std::uint8_t op;
  };
  struct shared {
    std::atomic<std::uint64_t> filled, taken;  // of all that was ever put, in bytes
  };
  static constexpr std::uint64_t length_of(std::uint64_t bytes) noexcept {
    return (sizeof(record) + bytes + 7) & ~std::uint64_t{7};
  }
  /// The first block lies behind `shared`.
  static constexpr std::uint64_t begin_of(std::uint32_t block) noexcept {
    return block == 0 ? 64 : block * block_bytes;
  }
  static constexpr std::uint64_t end_of(std::uint32_t block) noexcept {
    return (block + 1) * block_bytes;
  }
  static constexpr std::uint64_t pieces_a_block = 3;

  /// The sender's: which blocks are free, the one that was used last on top, and which are in use,
  /// the oldest first, each with the bytes that were put when it was left.
  struct accounts {
    std::uint16_t free[blocks];
    std::uint32_t free_count;
    struct {
      std::uint64_t left_at;
      std::uint16_t block;
    } used[blocks];
    std::uint32_t oldest, used_count;
  };

  overflow() = default;
  bool map() noexcept;
  void next_block() noexcept;
  void pass(std::uint64_t bytes) noexcept {
    at_ += bytes;
    sum_ += bytes;
  }

  int fd_ = -1;
  std::byte* data_ = nullptr;
  shared* shared_ = nullptr;
  std::unique_ptr<accounts> accounts_;  // null: the receiver's
  std::uint32_t block_ = 0;             // where the next record is put or read
  std::uint32_t most_ = 1;              // blocks that were ever used
  std::uint64_t at_ = begin_of(0);      // the place of the next record
  std::uint64_t sum_ = 0;               // bytes before it
  ring_slot front_{};                   // a piece's header, in the form that receive.cpp reads
};

/// Whether a sender has waited at this position, of a ring or of a file, for that time.
bool stands_still(queue_pair& qp, std::uint64_t position, std::uint64_t for_ns) noexcept;
/// Puts what is left of a message into the queue pair's file, which is made and given away if there
/// is none. False: it stays where it is. Under `sending`.
bool put_aside(queue_pair& qp, send_work& w, std::uint8_t op) noexcept;
/// Whether messages have to follow others into the file, as they did until now; no longer if the
/// receiver has emptied it. Under `sending`.
bool follows_aside(queue_pair& qp) noexcept;

}  // namespace penstock::nic::shm
