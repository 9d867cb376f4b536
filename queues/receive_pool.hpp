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

#include <array>
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
  /// count buffers of `bytes` each, posted on a new SRQ that has room for `room`; held_by_each of
  /// them (at most held_back::most) belong to each of the spares. Memory comes from the arena.
  static result<std::unique_ptr<receive_pool>> open(nic::device& dev, ibv_pd* pd,
                                                    memreg::arena& memory, std::uint32_t room,
                                                    std::uint32_t count, std::uint32_t spares,
                                                    std::uint32_t held_by_each,
                                                    std::uint32_t bytes);
  ~receive_pool();

  [[nodiscard]] ibv_srq* srq() const noexcept { return srq_; }
  [[nodiscard]] std::byte* at(std::uint32_t buffer) const noexcept {
    const part& p = part_of(buffer);
    return p.memory.base + std::size_t{buffer - p.first} * bytes_;
  }
  [[nodiscard]] std::uint32_t buffer_bytes() const noexcept { return bytes_; }

  /// Posts so many more buffers that there are `count`; their memory comes from the arena, and the
  /// SRQ has been made that long. One thread at a time. After a failure it may be called again.
  result<void> grow_to(std::uint32_t count, memreg::arena& memory);

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
  receive_pool(nic::device& dev, std::uint32_t spares, std::uint32_t held_by_each,
               std::uint32_t bytes)
      : dev_(dev), bytes_(bytes), held_by_each_(held_by_each), spares_(spares) {}
  // Posts up to `most` buffers more, of the last part. 0 or an errno.
  int post_more(std::uint32_t most, std::uint32_t lkey) noexcept;
  // Buffers lie in parts, one for each time that the pool has grown. A thread that has a buffer's
  // completion sees its part: it was written before the buffer was posted.
  struct part {
    std::uint32_t first = 0, end = 0;  // buffers
    memreg::piece memory;
  };
  [[nodiscard]] const part& part_of(std::uint32_t buffer) const noexcept {
    const part* p = parts_.data();
    while (buffer >= p->end) [[unlikely]]++ p;
    return *p;
  }

  nic::device& dev_;
  std::uint32_t count_ = 0, bytes_, held_by_each_;
  std::array<part, 32> parts_;  // the number of peers with room doubles from one to the next
  std::uint32_t used_ = 0;
  ibv_srq* srq_ = nullptr;
  index_pool<build_mode> spares_;
};

}  // namespace penstock::queues::PENSTOCK_ABI
