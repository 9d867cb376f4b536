// gasnet_lat: the round trip of gasnet_AMRequestShort0 and its reply. The twin is not the bare ring
// but the C++ interface: the same exchange through an endpoint of the same two processes.
#include <atomic>

#include "lib/base/clock.hpp"
#include "perf/patience.hpp"
#include "perf/penperf/bench.hpp"
#include "perf/penperf/gasnet_side.hpp"
#include "perf/penperf/rig.hpp"
#include "perf/penperf/trip_samples.hpp"

namespace penstock::penperf {

namespace {

class gasnet_lat final : public bench {
 public:
  explicit gasnet_lat(const options& o) : samples_(o) {}

  void add_handlers(endpoint& ep) override {
    on_ping_ = ep.add<&gasnet_lat::ping>(this);
    on_pong_ = ep.add<&gasnet_lat::pong>(this);
  }
  void start(world&, rig& r) override {
    r.at_target([](std::uint64_t) { gasnet_side::serve(); });
    gasnet_side::start(r.opts().device);
  }

  figures ours(rig& r) override {
    r.call_target(0);
    const figures f = measure([](std::span<std::uint64_t> s) { gasnet_side::trips(s); });
    gasnet_side::finish();
    return f;
  }
  figures raw(rig& r) override {
    return measure([&](std::span<std::uint64_t> s) { trips(r.ep(), s); });
  }

 private:
  void ping(token& t) { must(t.reply_short(on_pong_), "gasnet_lat's twin: reply"); }
  void pong(token&) {
    answered_.store(answered_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  void trips(endpoint& ep, std::span<std::uint64_t> samples) {
    std::uint64_t i = answered_.load(std::memory_order_relaxed);
    std::uint64_t before = ticks();
    for (auto& s : samples) {
      ++i;
      must(ep.request_short(target_rank, on_ping_), "gasnet_lat's twin: request");
      perf::patience p("reply");
      while (answered_.load(std::memory_order_relaxed) != i) {
        must(ep.poll(), "gasnet_lat's twin: poll");
        p.idle();
      }
      const std::uint64_t now = ticks();
      s = now - before;
      before = now;
    }
  }

  template <class Trips>
  figures measure(Trips&& go) {
    const std::span few = samples_.few();
    double median = 0;
    settle(few.size(), [&] {
      go(few);
      return median = static_cast<double>(perf::median(few)) * ns_per_tick();
    });
    const std::span all = samples_.in_a_round(median);
    const std::uint64_t start = ticks();
    go(all);
    const double took = static_cast<double>(ticks() - start) * ns_per_tick() * 1e-9;
    return {perf::summarize(all, ns_per_tick()), static_cast<double>(all.size()) / took,
            all.size()};
  }

  trip_samples samples_;
  short_handler<> on_ping_, on_pong_;
  std::atomic<std::uint64_t> answered_{0};
};

}  // namespace

std::string complete_gasnet(options& o) {
  if (o.kind != am_kind::short_ || o.size != 0) return "a Short without payload is all there is";
  if (o.threads > 1) return "it is measured with one thread";
  return {};
}

std::unique_ptr<bench> make_gasnet_lat(const options& o) { return std::make_unique<gasnet_lat>(o); }

}  // namespace penstock::penperf
