// The bare-verbs twin of a benchmark: the same exchange as the library's, made with nothing but
// verbs calls between the same two processes on the same device, so that ratios mean something.
// Used by perf/penperf on every device; it knows nothing of the engine and shares no code with it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "lib/base/result.hpp"
#include "nic/device.hpp"

namespace penstock::perf {

/// Hands 64 bytes to the other process and waits for its 64; false when the other one is gone. Used
/// for addresses at start and as a barrier around each measurement, never while it runs.
using blob_swap = std::function<bool(const void* mine, void* theirs)>;

struct twin_options {
  std::uint32_t max_bytes = 1u << 20;  ///< largest message or transfer that will be asked for
  std::uint32_t depth = 256;           ///< send queue and SRQ entries; the device's limits cap it
  std::uint64_t timeout_ns = 30'000'000'000;  ///< no progress for so long fails the measurement
};

/// One-sided operations; fetch_add moves 8 bytes whatever is asked.
enum class one_sided : std::uint8_t { write, read, fetch_add };

/// How long a number of operations took.
struct twin_rate {
  std::uint64_t ns = 0;
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;  ///< per operation
  [[nodiscard]] double per_second() const noexcept {
    return ns == 0 ? 0 : static_cast<double>(count) * 1e9 / static_cast<double>(ns);
  }
  [[nodiscard]] double bytes_per_second() const noexcept {
    return per_second() * static_cast<double>(bytes);
  }
};

/// One RC connection between two processes. Both call the same member with the same arguments; the
/// leader measures and returns figures, the other answers (its samples stay untouched, its rate is
/// zero). One thread. Errors name the verb that failed, or the completion's status.
class verbs_twin {
 public:
  /// Makes queues and buffers on an opened device (which must outlive the twin) and connects.
  static result<verbs_twin> connect(nic::device& d, blob_swap swap, bool leader,
                                    const twin_options& options = {});
  verbs_twin(verbs_twin&&) noexcept;
  verbs_twin& operator=(verbs_twin&&) noexcept;
  ~verbs_twin();

  /// SEND of `bytes` answered by a SEND of `reply_bytes`: fills round_trips with nanoseconds, one
  /// a sample, after `warmup` unmeasured ones. Inline up to the device's limit; receives from an
  /// SRQ.
  result<void> ping_pong(std::uint32_t bytes, std::uint32_t reply_bytes, std::uint64_t warmup,
                         std::span<std::uint64_t> round_trips);

  /// SENDs of `bytes` one way as fast as the receiver reposts its buffers: completions are asked
  /// for once in a quarter of the send queue, receives reposted in lists. A small credit message
  /// keeps the sender within the posted receives. Time runs until the receiver has confirmed the
  /// last one.
  result<twin_rate> send_rate(std::uint32_t bytes, std::uint64_t messages);

  /// One operation at a time, from its post to its completion: fills samples with nanoseconds.
  result<void> latency(one_sided op, std::uint32_t bytes, std::uint64_t warmup,
                       std::span<std::uint64_t> samples);

  /// `count` operations with at most `window` in flight (0: as many as the queue or the device's
  /// limit on outstanding reads takes), signalled selectively. both: the other process does as many
  /// at the same time; counted are those of both, until both are complete.
  result<twin_rate> rate(one_sided op, std::uint32_t bytes, std::uint64_t count,
                         std::uint32_t window = 0, bool both = false);

 private:
  struct impl;
  explicit verbs_twin(std::unique_ptr<impl> p) noexcept;
  std::unique_ptr<impl> p_;
};

}  // namespace penstock::perf
