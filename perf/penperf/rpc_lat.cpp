// rpc_lat: a call by penstock/rpc.hpp whose response is as long as its value. The twin is the same
// by hand, through the same endpoint: a Medium that is answered by one.
#include <atomic>

#include "lib/base/clock.hpp"
#include "penstock/rpc.hpp"
#include "perf/patience.hpp"
#include "perf/penperf/bench.hpp"
#include "perf/penperf/rig.hpp"
#include "perf/penperf/trip_samples.hpp"
#include "perf/twin_ring.hpp"

namespace penstock::penperf {

namespace {

class rpc_lat final : public bench {
 public:
  explicit rpc_lat(const options& o) : samples_(o), payload_(o.size) {}

  void add_handlers(endpoint& ep) override {
    calls_ = &rpc::on(ep);
    echo_ = calls_->add([this](rpc_request& r) {
      read(r.body());
      must(r.answer(payload_.view()), "rpc_lat's answer");
    });
    on_ping_ = ep.add<&rpc_lat::ping>(this);
    on_pong_ = ep.add<&rpc_lat::pong>(this);
  }

  figures ours(rig& r) override {
    rpc_call c;
    return measure(r, [&] {
      must(calls_->call(c, r.other(), echo_, payload_.view()), "rpc_lat's call");
      read(c.response());
    });
  }
  figures raw(rig& r) override {
    endpoint& ep = r.ep();
    return measure(r, [&] {
      const std::uint64_t i = answered_.load(std::memory_order_relaxed) + 1;
      must(ep.request_medium(r.other(), on_ping_, payload_.view()), "rpc_lat's twin: request");
      perf::patience p("reply");
      while (answered_.load(std::memory_order_relaxed) != i) {
        must(ep.poll(), "rpc_lat's twin: poll");
        p.idle();
      }
    });
  }

 private:
  void read(std::span<const std::byte> bytes) {
    read_ += perf::read_all(bytes.data(), bytes.size());
  }
  void ping(token& t, std::span<std::byte> payload) {
    read(payload);
    must(t.reply_medium(on_pong_, payload_.view()), "rpc_lat's twin: reply");
  }
  void pong(token&, std::span<std::byte> payload) {
    read(payload);
    answered_.store(answered_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  template <class Trip>
  figures measure(rig& r, Trip&& trip) {
    const std::span few = samples_.few();
    double median = 0;
    settle(few.size(), [&] {
      time_each(few, trip);
      return median = static_cast<double>(perf::median(few)) * ns_per_tick();
    });
    const std::span all = samples_.in_a_round(median);
    r.meet();
    const std::uint64_t start = ticks();
    time_each(all, trip);
    const double took = static_cast<double>(ticks() - start) * ns_per_tick() * 1e-9;
    return {perf::summarize(all, ns_per_tick()), static_cast<double>(all.size()) / took,
            all.size()};
  }

  trip_samples samples_;
  payload_buffer payload_;
  rpc* calls_ = nullptr;
  rpc_method echo_{};
  payload_handler<> on_ping_, on_pong_;
  std::uint64_t read_ = 0;
  std::atomic<std::uint64_t> answered_{0};  // a poller's thread may run the handler
};

}  // namespace

std::string complete_rpc_lat(options& o) {
  if (o.size == 0) o.size = 64;
  o.kind = am_kind::medium;
  if (o.threads > 1) return "rpc_lat is measured with one thread";
  if (o.size > 65'536) return "a call of rpc_lat is a Medium, which has up to 65536 bytes";
  return {};
}

std::unique_ptr<bench> make_rpc_lat(const options& o) { return std::make_unique<rpc_lat>(o); }

}  // namespace penstock::penperf
