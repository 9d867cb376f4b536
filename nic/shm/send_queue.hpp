// The software send queue of a QP: accounting of its slots, and the work that could not be done
// when it was posted (no receive at the peer, no room in the ring, something waiting before it).
//
//   released ......... finished ......... posted         slots, as ever-growing numbers
//     their completion   stored work        next
//     was not polled     waits here
//
// A slot is free again only when a completion of it or of a later one has been polled, as on an
// adapter; then posted - released < capacity always holds when work is accepted.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <bit>
#include <cstdint>
#include <cstring>

#include "lib/base/assert.hpp"
#include "nic/shm/layout.hpp"
#include "nic/shm/untouched.hpp"

namespace penstock::nic::shm {

/// How far a request has come.
enum class stage : std::uint8_t {
  doomed,   ///< faults.hpp, carrier.hpp: it will fail with the status that `tries` holds
  held,     ///< faults.hpp: nothing is done before `deadline`
  fresh,    ///< nothing done
  written,  ///< WRITE with immediate: the bytes are there, the receive is not claimed yet
  claimed,  ///< a receive at the peer is ours; pieces are being pushed
  pushed,   ///< all of it is in the ring; waits until the receiver has taken it
  answered  ///< carrier.hpp: the peer has done it, and its answer has come
};

struct send_work {
  std::uint64_t wr_id = 0;
  ibv_wr_opcode opcode{};
  unsigned flags = 0;
  std::uint32_t imm = 0;
  std::uint32_t bytes = 0;
  const ibv_sge* list = nullptr;
  std::uint32_t count = 0;
  std::uint32_t rkey = 0;
  std::uint64_t remote = 0, operand = 0, swap = 0;
  nonce datagram_to;
  bool datagram_by_lid = false;
  std::uint32_t datagram_qpn = 0;   ///< of XRC: the shared receive queue's number
  std::uint32_t datagram_qkey = 0;  ///< of XRC: 1 when the peer has been told that number

  stage at = stage::fresh;
  std::uint32_t offset = 0;    ///< bytes pushed so far
  std::uint64_t position = 0;  ///< ring position behind the message, once pushed; before that,
                               ///< the ticket of a question to the peer (peer::ask_later)
  std::uint64_t number = 0;    ///< an atomic's, once the peer has been asked to do it
  std::uint32_t tries = 0;     ///< receiver-not-ready answers so far
  std::uint64_t deadline = 0;  ///< when the timer of the current obstacle ends; 0: not running
  bool tells = false;          ///< pushed, and the receiver says at once that it was taken
  bool unreachable = false;    ///< which timer it is: transport (true) or receiver-not-ready
};

class send_queue {
 public:
  void size(std::uint32_t capacity, std::uint32_t sges, std::uint32_t inline_bytes) {
    capacity_ = capacity;
    sges_ = sges > 0 ? sges : 1;
    inline_ = inline_bytes;
    const std::uint32_t places = std::bit_ceil(capacity);  // found without a division
    mask_ = places - 1;
    works_ = untouched_vector<send_work>(places);
    lists_ = untouched_vector<ibv_sge>(std::size_t{places} * sges_);
    bytes_ = untouched_vector<std::byte>(std::size_t{places} * inline_);
    reset();
  }
  void reset() noexcept {
    posted_ = finished_ = 0;
    released_.store(0, std::memory_order_relaxed);
  }

  [[nodiscard]] bool full() const noexcept {
    // Q1 slots  acquire released  <- Q2
    return posted_ - released_.load(std::memory_order_acquire) >= capacity_;
  }
  /// True if `requests` requests find a slot.
  [[nodiscard]] bool has_room(std::uint64_t requests) const noexcept {
    // Q1 slots  acquire released  <- Q2
    return posted_ - released_.load(std::memory_order_acquire) + requests <= capacity_;
  }
  [[nodiscard]] bool idle() const noexcept { return posted_ == finished_; }
  [[nodiscard]] std::uint64_t posted() const noexcept { return posted_; }
  [[nodiscard]] std::uint32_t sges() const noexcept { return sges_; }
  [[nodiscard]] std::uint32_t inline_room() const noexcept { return inline_; }

  /// Takes the slot number of work that is done at once; nothing waits before it.
  std::uint64_t pass() noexcept {
    PENSTOCK_ASSERT(finished_, ==, posted_);
    PENSTOCK_ASSERT(in_use(), <, capacity_);
    return finished_ = ++posted_;
  }

  /// Stores work for later, with its scatter list or, when inline, its bytes.
  void store(const send_work& w) noexcept {
    PENSTOCK_ASSERT(in_use(), <, capacity_);
    PENSTOCK_ASSERT(w.count, <=, sges_);
    const std::uint64_t slot = posted_++ & mask_;
    send_work& kept = works_[slot];
    kept = w;
    ibv_sge* list = &lists_[slot * sges_];
    if ((w.flags & IBV_SEND_INLINE) != 0) {
      PENSTOCK_ASSERT(w.bytes, <=, inline_);
      std::byte* to = bytes_.data() + slot * inline_;
      list[0] = {reinterpret_cast<std::uint64_t>(to), w.bytes, 0};
      for (std::uint32_t i = 0; i < w.count; to += w.list[i++].length)
        std::memcpy(to, reinterpret_cast<const void*>(w.list[i].addr), w.list[i].length);
      kept.count = w.bytes != 0 ? 1 : 0;
    } else {
      for (std::uint32_t i = 0; i < w.count; ++i) list[i] = w.list[i];
    }
    kept.list = list;
  }
  [[nodiscard]] send_work& oldest() noexcept { return works_[finished_ & mask_]; }
  /// Stored work by its number, from finished() on and before posted().
  [[nodiscard]] send_work& work(std::uint64_t number) noexcept {
    PENSTOCK_ASSERT(number - finished_, <, posted_ - finished_);
    return works_[number & mask_];
  }
  [[nodiscard]] std::uint64_t finished() const noexcept { return finished_; }
  /// Finishes the oldest stored work; answers its slot number (for `frees`).
  std::uint64_t finish() noexcept {
    PENSTOCK_ASSERT(finished_, <, posted_);
    return ++finished_;
  }

  /// A completion of that slot was polled. Calls come in order, since all of a QP's sends complete
  /// to one queue, whose lock is held.
  void release(std::uint64_t slot) noexcept {
    PENSTOCK_ASSERT(released_.load(std::memory_order_relaxed), <, slot);
    // Q2 release  store-release released  -> Q1
    released_.store(slot, std::memory_order_release);
  }

 private:
  [[nodiscard]] std::uint64_t in_use() const noexcept {
    return posted_ - released_.load(std::memory_order_relaxed);
  }

  std::uint32_t capacity_ = 0, sges_ = 1, inline_ = 0, mask_ = 0;
  std::uint64_t posted_ = 0, finished_ = 0;
  std::atomic<std::uint64_t> released_{0};
  untouched_vector<send_work> works_;
  untouched_vector<ibv_sge> lists_;
  untouched_vector<std::byte> bytes_;
};

}  // namespace penstock::nic::shm
