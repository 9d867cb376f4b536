// gasnet_lat, gex_lat: the round trip of a Short or Medium by gasnet.h or gasnetex.h, and the Short
// that answers it. The twin is not the bare ring but the C++ interface: the same exchange through
// an endpoint of the same two processes.
#include <atomic>

#include "lib/base/clock.hpp"
#include "perf/patience.hpp"
#include "perf/penperf/bench.hpp"
#include "perf/penperf/gasnet_side.hpp"
#include "perf/penperf/loading.hpp"
#include "perf/penperf/rig.hpp"
#include "perf/penperf/trip_samples.hpp"
#include "perf/twin_ring.hpp"

namespace penstock::penperf {

namespace {

class gasnet_lat final : public bench {
 public:
  explicit gasnet_lat(const options& o)
      : samples_(o),
        payload_(o.size),
        load_(o, payload_),
        what_{.ex = o.bench == "gex_lat",
              .medium = o.kind == am_kind::medium,
              .payload = o.payload,
              .from = payload_.view()} {}

  void add_handlers(endpoint& ep) override {
    on_ping_ = ep.add<&gasnet_lat::ping>(this);
    on_loaded_ping_ = ep.add<&gasnet_lat::loaded_ping>(this);
    on_pong_ = ep.add<&gasnet_lat::pong>(this);
  }
  void start(world&, rig& r) override {
    r.at_target([](std::uint64_t) { gasnet_side::serve(); });
    gasnet_side::start(r.opts().device);
  }

  figures ours(rig& r) override {
    r.call_target(0);
    const figures f = measure([&](std::span<std::uint64_t> s) { gasnet_side::trips(what_, s); });
    gasnet_side::finish();
    return f;
  }
  figures raw(rig& r) override {
    endpoint& ep = r.ep();
    if (what_.medium)
      return measure([&](std::span<std::uint64_t> s) {
        trips(
            ep, [&] { return load_.medium(ep, target_rank, on_loaded_ping_, 0); }, s);
      });
    return measure([&](std::span<std::uint64_t> s) {
      trips(
          ep, [&] { return ep.request_short(target_rank, on_ping_); }, s);
    });
  }

 private:
  void ping(token& t) { must(t.reply_short(on_pong_), "gasnet_lat's twin: reply"); }
  void loaded_ping(token& t, std::span<std::byte> payload, std::uint64_t) {
    read_ += perf::read_all(payload.data(), payload.size());
    ping(t);
  }
  void pong(token&) {
    answered_.store(answered_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  template <class Send>
  void trips(endpoint& ep, Send&& send, std::span<std::uint64_t> samples) {
    std::uint64_t i = answered_.load(std::memory_order_relaxed);
    std::uint64_t before = ticks();
    for (auto& s : samples) {
      ++i;
      must(send(), "gasnet_lat's twin: request");
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
  payload_buffer payload_;
  loading load_;
  gasnet_side::exchange what_;
  short_handler<> on_ping_, on_pong_;
  payload_handler<std::uint64_t> on_loaded_ping_;
  std::uint64_t read_ = 0;
  std::atomic<std::uint64_t> answered_{0};
};

}  // namespace

std::string complete_gasnet(options& o) {
  if (o.kind != am_kind::short_ || o.size != 0) return "a Short without payload is all there is";
  if (o.threads > 1) return "it is measured with one thread";
  return {};
}

std::string complete_gasnet_lat(options& o) {
  if (o.kind == am_kind::long_) return "Shorts and Mediums are all there is";
  if (o.kind == am_kind::short_) {
    if (o.size != 0 || o.payload != payload_kind::ready) return "a Short has no payload";
  } else {
    if (o.size == 0) o.size = 64;
    if (o.payload == payload_kind::reserved && o.bench != "gex_lat")
      return "gasnet.h has no payload that is made where it is sent from; gasnetex.h has";
  }
  if (o.threads > 1) return "it is measured with one thread";
  return {};
}

std::unique_ptr<bench> make_gasnet_lat(const options& o) { return std::make_unique<gasnet_lat>(o); }

}  // namespace penstock::penperf
