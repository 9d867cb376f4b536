// gasnet_rate, gex_rate: Shorts or Mediums in one direction as fast as they go, by gasnet.h or
// gasnetex.h. They count as those of am_rate do, which is the twin: the same flood by the C++
// interface, through an endpoint of the same two processes.
#include "lib/base/clock.hpp"
#include "perf/penperf/bench.hpp"
#include "perf/penperf/flood_rounds.hpp"
#include "perf/penperf/gasnet_side.hpp"
#include "perf/penperf/loading.hpp"
#include "perf/penperf/rig.hpp"

namespace penstock::penperf {

namespace {

class gasnet_rate final : public bench {
 public:
  explicit gasnet_rate(const options& o)
      : rounds_(o),
        payload_(o.size),
        what_{.ex = o.bench == "gex_rate",
              .medium = o.kind == am_kind::medium,
              .payload = o.payload,
              .from = payload_.view()},
        twin_(make_am_flood(o)) {}

  void add_handlers(endpoint& ep) override { twin_->add_handlers(ep); }
  void start(world& w, rig& r) override {
    twin_->start(w, r);
    r.at_target([](std::uint64_t) { gasnet_side::serve(); });
    gasnet_side::start(r.opts().device);
  }

  figures ours(rig& r) override {
    r.call_target(0);
    const figures f = rounds_.round(r, length_, [&](std::uint64_t batches) {
      samples_.resize(batches);
      const std::uint64_t start = ticks();
      gasnet_side::flood(what_, rounds_.batch(), samples_);
      const double seconds = static_cast<double>(ticks() - start) * ns_per_tick() * 1e-9;
      const std::uint64_t count = rounds_.batch() * batches;
      return figures{
          perf::summarize(samples_, ns_per_tick() / static_cast<double>(rounds_.batch())),
          static_cast<double>(count) / seconds, count};
    });
    gasnet_side::finish();
    return f;
  }
  figures raw(rig& r) override { return twin_->ours(r); }

 private:
  flood_rounds rounds_;
  flood_rounds::length length_;
  payload_buffer payload_;
  gasnet_side::exchange what_;
  std::unique_ptr<bench> twin_;
  std::vector<std::uint64_t> samples_;
};

}  // namespace

std::string complete_gasnet_rate(options& o) {
  if (o.kind == am_kind::long_) return "Shorts and Mediums are all there is";
  if (o.threads > 1) return "it is measured with one thread";
  if (o.pairs > 1 || o.both || o.window != 0) return "one process sends, to one, without a window";
  if (o.payload == payload_kind::reserved && o.bench != "gex_rate")
    return "gasnet.h has no payload that is made where it is sent from; gasnetex.h has";
  return complete_am_rate(o);
}

std::unique_ptr<bench> make_gasnet_rate(const options& o) {
  return std::make_unique<gasnet_rate>(o);
}

}  // namespace penstock::penperf
