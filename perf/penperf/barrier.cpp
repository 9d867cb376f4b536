// barrier: notify and wait of gasnet.h by two processes. The twin is a bare exchange of flags: each
// process raises its own, a cache line that only it writes, and waits for the other's.
#include <algorithm>
#include <atomic>
#include <vector>

#include "lib/base/clock.hpp"
#include "perf/penperf/bench.hpp"
#include "perf/penperf/gasnet_side.hpp"
#include "perf/penperf/rig.hpp"
#include "perf/penperf/trip_samples.hpp"

namespace penstock::penperf {

namespace {

constexpr std::uint64_t chunk = 1000, in_a_round = 100'000;
constexpr std::uint64_t raw_bit = std::uint64_t{1} << 63;

struct alignas(64) flag {
  std::atomic<std::uint64_t> raised{0};
};

class barrier_bench final : public bench {
 public:
  explicit barrier_bench(const options& o) : samples_(o.iters != 0 ? o.iters : in_a_round) {}

  void add_handlers(endpoint&) override {}
  void start(world& w, rig& r) override {
    gasnet_side::start(r.opts().device);
    memory_ = pair_memory::share(w, 2 * sizeof(flag));
    requester_ = w.rank() == requester_rank;
    r.at_target([this](std::uint64_t what) {
      const auto samples = std::span(samples_).first(what & ~raw_bit);
      (what & raw_bit) != 0 ? exchange(samples) : gasnet_side::barriers(samples);
    });
  }

  figures ours(rig& r) override {
    return measure(r, 0, [](std::span<std::uint64_t> s) { gasnet_side::barriers(s); });
  }
  figures raw(rig& r) override {
    if (!memory_) return {};
    return measure(r, raw_bit, [&](std::span<std::uint64_t> s) { exchange(s); });
  }

 private:
  void exchange(std::span<std::uint64_t> samples) {
    auto* const flags = reinterpret_cast<flag*>(memory_.data());
    auto& mine = flags[requester_ ? 0 : 1].raised;
    auto& other = flags[requester_ ? 1 : 0].raised;
    const auto meet = [&] {
      ++phase_;
      // F1 raise  store-release  -> F2
      mine.store(phase_, std::memory_order_release);
      // F2 see    load-acquire   <- F1
      while (other.load(std::memory_order_acquire) < phase_) {
      }
    };
    meet();
    time_each(samples, meet);
  }

  template <class Meet>
  figures measure(rig& r, std::uint64_t kind, Meet&& meet) {
    const std::span all(samples_);
    const auto run = [&](std::span<std::uint64_t> samples) {
      r.call_target(kind | samples.size());
      meet(samples);
    };
    const std::span few = all.first(std::min<std::size_t>(chunk, all.size()));
    settle(few.size(), [&] {
      run(few);
      return static_cast<double>(perf::median(few)) * ns_per_tick();
    });
    run(all);
    double took = 0;
    for (const std::uint64_t s : all) took += static_cast<double>(s) * ns_per_tick() * 1e-9;
    return {perf::summarize(all, ns_per_tick()), static_cast<double>(all.size()) / took,
            all.size()};
  }

  std::vector<std::uint64_t> samples_;
  pair_memory memory_;
  bool requester_ = false;
  std::uint64_t phase_ = 0;
};

}  // namespace

std::unique_ptr<bench> make_barrier(const options& o) { return std::make_unique<barrier_bench>(o); }

}  // namespace penstock::penperf
