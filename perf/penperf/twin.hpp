// The raw twin of a measurement, on any device: the same exchange between the same two processes
// without the library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "perf/statistics.hpp"

namespace penstock::penperf {

/// One way of an exchange.
struct leg {
  std::uint64_t bytes = 8;
  bool placed = false;  ///< put at an address (Long) and announced; else read where it arrives
};

/// A one-sided operation; fetch_add is of 8 bytes.
enum class access { put, get, fetch_add };

/// How a flood or a stream is sent, if not one way and as fast as possible.
struct manner {
  std::uint32_t both = 0;  ///< 1: the target sends as many, at the same time
  std::uint32_t window =
      0;  ///< not 0: after this many it waits for an answer, or this many are in flight
};

/// The results, at the requester; empty at the target.
struct figures {
  perf::summary ns;  ///< per operation
  double rate = 0;   ///< operations per second
  std::uint64_t count = 0;
};

/// Both processes call the same member with the same arguments; the requester measures.
class twin {
 public:
  virtual ~twin() = default;
  /// Round trips, one a sample: `there` from the requester, then `back`.
  virtual figures trips(leg there, leg back, std::uint64_t warm_up,
                        std::span<std::uint64_t> samples) = 0;
  /// batches * batch messages one way, confirmed by one message back; a sample a batch. The rate is
  /// that of both ways together if there are two. A window is a batch.
  virtual figures flood(leg one_way, manner how, std::uint64_t batch,
                        std::span<std::uint64_t> samples) = 0;
  /// One-sided operations: one at a time, a sample each; or count of them, as many in flight as
  /// there may be. Nothing where bare memory serves instead (one_sided.hpp).
  virtual figures accesses(access, std::uint64_t, std::span<std::uint64_t>) { return {}; }
  virtual figures stream(access, manner, std::uint64_t, std::uint64_t) { return {}; }
};

/// The bare rings in memory that both map, ring_twin_bytes(window) long, zero, on a cache line.
std::unique_ptr<twin> make_ring_twin(std::byte* memory, bool requester, std::size_t window);
std::size_t ring_twin_bytes(std::size_t window) noexcept;

/// Bare verbs calls on a second opening of the device; ends the job when that fails. swap: hands 64
/// bytes to the other process and waits for its 64.
std::unique_ptr<twin> make_verbs_twin(const std::string& device,
                                      std::function<bool(const void* mine, void* theirs)> swap,
                                      bool requester, std::size_t window);

/// A bare TCP connection over the interface of that device, tcp0; as above. A message is one send
/// call; gets in a stream, fetch-adds and exchanges both ways have no twin.
std::unique_ptr<twin> make_stream_twin(
    const std::string& device, const std::function<bool(const void* mine, void* theirs)>& swap,
    bool requester, std::size_t window);

/// Placed payload goes round a window of this many bytes, in the twin and in the segment alike.
constexpr std::size_t placement_window(std::size_t size) noexcept {
  constexpr std::size_t least = 256 * 1024;
  return size * 2 > least ? size * 2 : least;
}
/// Where the i-th payload of n bytes lies in a window: in turn, each on a line of its own.
class placement {
 public:
  placement(std::size_t size, std::size_t window) noexcept
      : step_((size + 63) / 64 * 64), end_(step_ == 0 ? 0 : window / step_ * step_) {}
  std::size_t next() noexcept {
    const std::size_t at = at_;
    at_ = at + step_ < end_ ? at + step_ : 0;
    return at;
  }

 private:
  std::size_t step_, end_, at_ = 0;
};

/// Bytes to send, on a cache line's boundary, none of them zero; some more lie behind them.
class payload_buffer {
 public:
  explicit payload_buffer(std::size_t bytes) : lines_(bytes / 64 + 2), bytes_(bytes) {
    std::memset(lines_.data(), 1, lines_.size() * 64);
  }
  [[nodiscard]] const std::byte* data() const noexcept { return lines_.data()->bytes; }
  [[nodiscard]] std::byte* data() noexcept { return lines_.data()->bytes; }
  [[nodiscard]] std::span<const std::byte> view() const noexcept { return {data(), bytes_}; }

 private:
  struct alignas(64) line {
    std::byte bytes[64];
  };
  std::vector<line> lines_;
  std::size_t bytes_;
};

}  // namespace penstock::penperf
