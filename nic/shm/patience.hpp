// How long a message of UC or UD waits for a receive. No receiver answers such a message, so on a
// network that may lose packets it is lost when no receive is posted; on a lossless network it
// stays in a queue until the receiver goes on. shm0 is lossless: a message waits as long as its
// receiver goes on posting, and for a bounded time after the last receive that it posted. When that
// time is over, the message is lost, and so is each later one, at once, until the receiver
// posts again. Nobody waits for a receiver that has never posted.
//
// A datagram waits at its sender, too, while the receiver's socket is full; the times at which
// other datagrams went there tell that the receiver goes on.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "lib/base/clock.hpp"
#include "nic/shm/layout.hpp"

namespace penstock::nic::shm {

class receive_patience {
 public:
  /// Whether a message waits on for a receive, or is lost. `posted` is the number of receives that
  /// the receiver has posted so far, of which none is left; `begins`: the message has not waited
  /// yet.
  [[nodiscard]] bool waits(bool begins, std::uint64_t posted, std::uint64_t bound_ns) noexcept {
    if (posted == given_up_at_ || bound_ns == 0) return false;
    const std::uint64_t now = now_ns();
    if (begins || posted != seen_) {
      seen_ = posted;
      until_ns_ = now + bound_ns;
    } else if (now >= until_ns_) {
      given_up_at_ = posted;
      return false;
    }
    return true;
  }

 private:
  std::uint64_t seen_ = 0;         ///< what `posted` was when until_ns_ was set
  std::uint64_t until_ns_ = 0;     ///< when the patience ends
  std::uint64_t given_up_at_ = 0;  ///< what `posted` was when the patience had ended
};

/// When a datagram was last sent to each receiver. Receivers may share a place, which makes a
/// sender more patient with them. Any thread.
class send_times {
 public:
  void note(const nonce& to, std::uint64_t now) noexcept {
    place(to).store(now, std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t last(const nonce& to) noexcept {
    return place(to).load(std::memory_order_relaxed);
  }

 private:
  /// A receiver's name is a random number.
  std::atomic<std::uint64_t>& place(const nonce& to) noexcept {
    return times_[to.low % times_.size()];
  }

  std::array<std::atomic<std::uint64_t>, 64> times_{};
};

}  // namespace penstock::nic::shm
