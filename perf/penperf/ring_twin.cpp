// The twin on the shared-memory device: the bare rings of perf/twin_ring.hpp. See twin.hpp.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "lib/base/clock.hpp"
#include "perf/penperf/twin.hpp"
#include "perf/twin_ring.hpp"

namespace penstock::penperf {

namespace {

/// A longer payload that is read on arrival crosses in pieces, so that one piece is written while
/// the one before is read.
constexpr std::size_t piece = 4096;

/// Short round trips have rings of their own, small enough to stay near; see twin_ring.hpp.
constexpr std::uint64_t near_lines = 64, far_lines = 256;
constexpr std::size_t near_up_to = 512;
static_assert(piece <= perf::longest_message<far_lines> &&
              near_up_to <= perf::longest_message<near_lines>);

/// A flood of payloads that are longer: each is copied whole into a buffer, and read there. As many
/// buffers as there is room for: 8 of 64 KB are as fast as 16, and faster than 4.
struct long_way {
  alignas(cache_line) std::atomic<std::uint64_t> written;
  alignas(cache_line) std::atomic<std::uint64_t> read;
  alignas(cache_line) std::byte room[512 * 1024];
};

struct both_ways {
  perf::ring_memory<near_lines> near[2];  ///< from the requester, to the requester
  perf::ring_memory<far_lines> far[2];
  long_way to_target;
};

/// One process's ends of a pair of rings, and its window for placed payload.
template <std::uint64_t Lines>
class ends {
 public:
  ends(perf::ring_memory<Lines> (&ring)[2], bool requester, std::byte* window) noexcept
      : out_(ring[requester ? 0 : 1]), in_(ring[requester ? 1 : 0]), window_(window) {}

  void give(leg l, const std::byte* from, placement& at) noexcept {
    std::uint64_t n = l.bytes;
    if (l.placed) {
      std::memcpy(window_ + at.next(), from, n);
      n = 8;
    }
    for (; n > piece; n -= piece, from += piece) out_.push(from, piece);
    out_.push(from, n);
  }
  /// give() and take() of `count` messages each way, in turn, each time as many as the ring
  /// certainly holds: the consumer may have freed some slots without having published that yet.
  void swap(leg l, std::uint64_t count, const std::byte* from, placement& at) noexcept {
    const std::uint64_t n = l.placed ? 8 : l.bytes;
    if (n > piece) {  // longer than a ring may be: piece by piece
      for (; count > 0; --count)
        for (std::uint64_t rest = n; rest > 0; rest -= std::min<std::uint64_t>(rest, piece)) {
          const leg part{std::min<std::uint64_t>(rest, piece)};
          give(part, from, at);
          take<0>(part);
        }
      return;
    }
    const std::uint64_t most = std::max<std::uint64_t>(1, (Lines - Lines / 16) / (n / 64 + 2));
    for (std::uint64_t some; count > 0; count -= some) {
      some = std::min(count, most);
      for (std::uint64_t i = 0; i < some; ++i) give(l, from, at);
      for (std::uint64_t i = 0; i < some; ++i) take<0>(l);
    }
  }
  template <unsigned Pauses>
  void take(leg l) noexcept {
    std::uint64_t n = l.placed ? 8 : l.bytes;
    for (; n > piece; n -= piece) in_.template pop<Pauses>(piece);
    in_.template pop<Pauses>(n);
  }

 private:
  perf::ring_producer<Lines> out_;
  perf::ring_consumer<Lines> in_;
  std::byte* window_;
};

class ring_twin final : public twin {
 public:
  ring_twin(std::byte* memory, bool requester, std::size_t window)
      : requester_(requester),
        window_(window),
        near_(rings(memory).near, requester, memory + sizeof(both_ways) + (requester ? 0 : window)),
        far_(rings(memory).far, requester, memory + sizeof(both_ways) + (requester ? 0 : window)),
        way_(rings(memory).to_target),
        payload_(window) {}

  figures trips(leg there, leg back, std::uint64_t warm_up,
                std::span<std::uint64_t> samples) override {
    const auto crosses = [](leg l) { return l.placed ? 8 : l.bytes; };
    return std::max(crosses(there), crosses(back)) <= near_up_to
               ? trips(near_, there, back, warm_up, samples)
               : trips(far_, there, back, warm_up, samples);
  }

  figures flood(leg one_way, manner how, std::uint64_t batch,
                std::span<std::uint64_t> samples) override {
    const std::uint64_t count = batch * samples.size();
    const bool both = how.both != 0, windowed = how.window != 0;
    if (!both && !windowed && !one_way.placed && one_way.bytes > piece &&
        one_way.bytes <= sizeof way_.room / 2)
      return flood_by_buffers(one_way.bytes, batch, samples);
    placement at(one_way.bytes, window_);
    if (!requester_ && !both) {
      for (std::uint64_t s = 0; s < samples.size(); ++s) {
        for (std::uint64_t i = 0; i < batch; ++i) far_.take<0>(one_way);
        if (windowed) far_.give({}, payload_.data(), at);
      }
      far_.give({}, payload_.data(), at);
      return {};
    }
    const std::uint64_t start = ticks();
    std::uint64_t before = start;
    for (auto& s : samples) {
      if (both)
        far_.swap(one_way, batch, payload_.data(), at);
      else
        for (std::uint64_t i = 0; i < batch; ++i) far_.give(one_way, payload_.data(), at);
      if (windowed && both) far_.swap({}, 1, payload_.data(), at);
      if (windowed && !both) far_.take<0>({});
      const std::uint64_t now = ticks();
      s = now - before;
      before = now;
    }
    both ? far_.swap({}, 1, payload_.data(), at) : far_.take<0>({});
    const double seconds = static_cast<double>(ticks() - start) * ns_per_tick() * 1e-9;
    const std::uint64_t all = both ? 2 * count : count;
    return {perf::summarize(samples, ns_per_tick() / static_cast<double>(batch)),
            static_cast<double>(all) / seconds, all};
  }

 private:
  figures flood_by_buffers(std::uint64_t bytes, std::uint64_t batch,
                           std::span<std::uint64_t> samples) {
    const std::uint64_t count = batch * samples.size(), buffers = sizeof way_.room / bytes;
    const auto await = [&](const std::atomic<std::uint64_t>& done, std::uint64_t least) {
      // L1 written, read  load-acquire  <- L1 (below)
      for (perf::patience p("the other side of the bare buffers");
           done.load(std::memory_order_acquire) < least;)
        p.idle();
    };
    const std::uint64_t first = passed_;
    passed_ += count;
    if (!requester_) {
      for (std::uint64_t i = first; i < passed_; ++i) {
        await(way_.written, i + 1);
        sum_ += perf::read_all(way_.room + i % buffers * bytes, bytes);
        // L1 read  store-release  -> L1
        way_.read.store(i + 1, std::memory_order_release);
      }
      return {};
    }
    const std::uint64_t start = ticks();
    std::uint64_t before = start, i = first;
    for (auto& s : samples) {
      for (const std::uint64_t end = i + batch; i < end; ++i) {
        if (i - first >= buffers) await(way_.read, i + 1 - buffers);
        std::memcpy(way_.room + i % buffers * bytes, payload_.data(), bytes);
        // L1 written  store-release  -> L1
        way_.written.store(i + 1, std::memory_order_release);
      }
      const std::uint64_t now = ticks();
      s = now - before;
      before = now;
    }
    await(way_.read, passed_);
    const double seconds = static_cast<double>(ticks() - start) * ns_per_tick() * 1e-9;
    return {perf::summarize(samples, ns_per_tick() / static_cast<double>(batch)),
            static_cast<double>(count) / seconds, count};
  }

  static both_ways& rings(std::byte* memory) noexcept {
    return *reinterpret_cast<both_ways*>(memory);  // zero bytes are empty rings
  }

  template <class Ends>
  figures trips(Ends& e, leg there, leg back, std::uint64_t warm_up,
                std::span<std::uint64_t> samples) {
    placement at(requester_ ? there.bytes : back.bytes, window_);
    const std::byte* const payload = payload_.data();
    if (!requester_) {
      for (std::uint64_t i = 0; i < warm_up + samples.size(); ++i) {
        e.template take<1>(there);
        e.give(back, payload, at);
      }
      return {};
    }
    for (std::uint64_t i = 0; i < warm_up; ++i) {
      e.give(there, payload, at);
      e.template take<1>(back);
    }
    const std::uint64_t start = ticks();
    std::uint64_t before = start;
    for (auto& s : samples) {
      e.give(there, payload, at);
      e.template take<1>(back);
      const std::uint64_t now = ticks();
      s = now - before;
      before = now;
    }
    const double seconds = static_cast<double>(before - start) * ns_per_tick() * 1e-9;
    const auto count = samples.size();
    return {perf::summarize(samples, ns_per_tick()), static_cast<double>(count) / seconds, count};
  }

  bool requester_;
  std::size_t window_;
  ends<near_lines> near_;
  ends<far_lines> far_;
  long_way& way_;
  std::uint64_t passed_ = 0;  // payloads through it
  std::uint64_t sum_ = 0;     // of what was read: keeps the compiler from dropping the reads
  payload_buffer payload_;
};

}  // namespace

std::size_t ring_twin_bytes(std::size_t window) noexcept { return sizeof(both_ways) + 2 * window; }

std::unique_ptr<twin> make_ring_twin(std::byte* memory, bool requester, std::size_t window) {
  return std::make_unique<ring_twin>(memory, requester, window);
}

}  // namespace penstock::penperf
