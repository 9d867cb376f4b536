// ReqRB on verbs: receive buffers of one size behind a shared receive queue. There are as many as
// credits for this size, and some more for each spare.
//
// (I1), claim 4: at least as many buffers are posted, or filled and not yet taken, as there are
// credits. A thread takes a request only while it holds a spare, that is, the right to hold a
// number of buffers back; and it posts them again before it would hold back one more. So the reply,
// which brings the credit back, need not wait for a post, and one post serves several buffers. Each
// post moves cache lines between the thread and the device: the queue's ends.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "lib/base/build_mode.hpp"
#include "lib/base/index_pool.hpp"
#include "lib/base/result.hpp"
#include "memreg/arena.hpp"
#include "nic/device.hpp"

namespace penstock::queues::PENSTOCK_ABI {

/// The buffers that a thread with a spare has not yet posted again.
struct held_back {
  static constexpr std::uint32_t most = 8;
  std::uint32_t buffer[most], count = 0;
};

class receive_pool {
 public:
  /// count buffers of `bytes` each, posted on a new SRQ; held_by_each of them (at most
  /// held_back::most) belong to each of the spares. Memory comes from the arena.
  static result<std::unique_ptr<receive_pool>> open(nic::device& dev, ibv_pd* pd,
                                                    memreg::arena& memory, std::uint32_t count,
                                                    std::uint32_t spares,
                                                    std::uint32_t held_by_each,
                                                    std::uint32_t bytes);
  ~receive_pool();

  [[nodiscard]] ibv_srq* srq() const noexcept { return srq_; }
  [[nodiscard]] std::byte* at(std::uint32_t buffer) const noexcept {
    return memory_.base + std::size_t{buffer} * bytes_;
  }
  [[nodiscard]] std::uint32_t buffer_bytes() const noexcept { return bytes_; }
  [[nodiscard]] std::uint32_t buffers() const noexcept { return count_; }
  [[nodiscard]] std::size_t pinned() const noexcept { return std::size_t{count_} * bytes_; }

  [[nodiscard]] std::optional<std::uint32_t> take_spare() noexcept { return spares_.take(); }
  void give_spare(std::uint32_t spare) noexcept { spares_.give(spare); }
  [[nodiscard]] bool no_spare() const noexcept { return spares_.empty(); }
  /// Posts the buffer again, together with those held back, if they are then as many as a spare may
  /// hold; otherwise it is held back, too. 0 or an errno (only a broken device refuses: the SRQ is
  /// as deep as there are buffers).
  int post_in_turn(std::uint32_t buffer, held_back& h) noexcept {
    h.buffer[h.count++] = buffer;
    return h.count < held_by_each_ ? 0 : post(h);
  }
  /// Posts the buffers that are held back.
  int post(held_back& h) noexcept;

 private:
  receive_pool(nic::device& dev, std::uint32_t count, std::uint32_t spares,
               std::uint32_t held_by_each, std::uint32_t bytes)
      : dev_(dev), count_(count), bytes_(bytes), held_by_each_(held_by_each), spares_(spares) {}
  nic::device& dev_;
  std::uint32_t count_, bytes_, held_by_each_;
  memreg::piece memory_;
  ibv_srq* srq_ = nullptr;
  index_pool<build_mode> spares_;
};

}  // namespace penstock::queues::PENSTOCK_ABI
