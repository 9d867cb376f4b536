// The twin on the shared-memory device: the bare rings of perf/twin_ring.hpp. See twin.hpp.
#include <cstring>

#include "lib/base/clock.hpp"
#include "perf/penperf/twin.hpp"
#include "perf/twin_ring.hpp"

namespace penstock::penperf {

namespace {

using perf::layout;

/// Longer payload that is read on arrival crosses in pieces, so that one is written while the one
/// before is read.
constexpr std::size_t piece = 4096;
static_assert(piece <= perf::longest_message);

/// Round trips this short use slots; see twin_ring.hpp.
constexpr std::size_t slots_up_to = 512;

struct both_ways {
  perf::ring_memory ring[2];  ///< from the requester, to the requester
};

class ring_twin final : public twin {
 public:
  ring_twin(std::byte* memory, bool requester, std::size_t window)
      : requester_(requester),
        window_(window),
        out_(rings(memory).ring[requester ? 0 : 1]),
        in_(rings(memory).ring[requester ? 1 : 0]),
        out_window_(memory + sizeof(both_ways) + (requester ? 0 : window)),
        payload_(window) {}

  figures trips(leg there, leg back, std::uint64_t warm_up,
                std::span<std::uint64_t> samples) override {
    const bool there_slots = there.bytes <= slots_up_to, back_slots = back.bytes <= slots_up_to;
    if (there_slots && back_slots)
      return trips<layout::slots, layout::slots>(there, back, warm_up, samples);
    if (there_slots) return trips<layout::slots, layout::record>(there, back, warm_up, samples);
    if (back_slots) return trips<layout::record, layout::slots>(there, back, warm_up, samples);
    return trips<layout::record, layout::record>(there, back, warm_up, samples);
  }

  figures flood(leg one_way, std::uint64_t batch, std::span<std::uint64_t> samples) override {
    const std::uint64_t count = batch * samples.size();
    if (!requester_) {
      for (std::uint64_t i = 0; i < count; ++i) take<layout::record>(one_way);
      give<layout::record>({}, place_);
      return {};
    }
    placement at(one_way.bytes, window_);
    const std::uint64_t start = ticks();
    std::uint64_t before = start;
    for (auto& s : samples) {
      for (std::uint64_t i = 0; i < batch; ++i) give<layout::record>(one_way, at);
      const std::uint64_t now = ticks();
      s = now - before;
      before = now;
    }
    take<layout::record>({});
    const double seconds = static_cast<double>(ticks() - start) * ns_per_tick() * 1e-9;
    return {perf::summarize(samples, ns_per_tick() / static_cast<double>(batch)),
            static_cast<double>(count) / seconds, count};
  }

 private:
  static both_ways& rings(std::byte* memory) noexcept {
    return *reinterpret_cast<both_ways*>(memory);  // zero bytes are empty rings
  }

  template <layout L>
  void give(leg l, placement& at) noexcept {
    const std::byte* from = payload();
    if (l.placed) {
      std::memcpy(out_window_ + at.next(), from, l.bytes);
      out_.push<L>(from, 8);
      return;
    }
    std::uint64_t n = l.bytes;
    for (; n > piece; n -= piece, from += piece) out_.push<L>(from, piece);
    out_.push<L>(from, n);
  }
  template <layout L>
  void take(leg l) noexcept {
    std::uint64_t n = l.placed ? 8 : l.bytes;
    for (; n > piece; n -= piece) in_.pop<L>(piece);
    in_.pop<L>(n);
  }

  template <layout There, layout Back>
  figures trips(leg there, leg back, std::uint64_t warm_up, std::span<std::uint64_t> samples) {
    placement at(requester_ ? there.bytes : back.bytes, window_);
    if (!requester_) {
      for (std::uint64_t i = 0; i < warm_up + samples.size(); ++i) {
        take<There>(there);
        give<Back>(back, at);
      }
      return {};
    }
    for (std::uint64_t i = 0; i < warm_up; ++i) {
      give<There>(there, at);
      take<Back>(back);
    }
    const std::uint64_t start = ticks();
    std::uint64_t before = start;
    for (auto& s : samples) {
      give<There>(there, at);
      take<Back>(back);
      const std::uint64_t now = ticks();
      s = now - before;
      before = now;
    }
    const double seconds = static_cast<double>(before - start) * ns_per_tick() * 1e-9;
    const auto count = samples.size();
    return {perf::summarize(samples, ns_per_tick()), static_cast<double>(count) / seconds, count};
  }

  [[nodiscard]] const std::byte* payload() const noexcept { return payload_.data(); }

  bool requester_;
  std::size_t window_;
  perf::ring_producer out_;
  perf::ring_consumer in_;
  std::byte* out_window_;
  placement place_{8, 64};
  payload_buffer payload_;
};

}  // namespace

std::size_t ring_twin_bytes(std::size_t window) noexcept { return sizeof(both_ways) + 2 * window; }

std::unique_ptr<twin> make_ring_twin(std::byte* memory, bool requester, std::size_t window) {
  return std::make_unique<ring_twin>(memory, requester, window);
}

}  // namespace penstock::penperf
