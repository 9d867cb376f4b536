// am_lat: the round trip of a request and its reply. The target's handler replies; the requester
// polls until the reply's handler has run.
#include <atomic>

#include "lib/base/clock.hpp"
#include "lib/base/log.hpp"
#include "perf/patience.hpp"
#include "perf/penperf/bench.hpp"
#include "perf/penperf/loading.hpp"
#include "perf/penperf/rig.hpp"
#include "perf/penperf/trip_samples.hpp"
#include "perf/twin_ring.hpp"

namespace penstock::penperf {

namespace {

/// Mediums and Longs longer than this are answered by a Short unless told otherwise.
constexpr std::uint64_t same_reply_up_to = 512;

class am_lat final : public bench {
 public:
  explicit am_lat(const options& o)
      : kind_(o.kind),
        size_(o.size),
        reply_same_(o.reply == reply_kind::same),
        samples_(o),
        payload_(size_),
        load_(o, payload_) {}

  void add_handlers(endpoint& ep) override {
    on_ping_ = ep.add<&am_lat::ping>(this);
    on_pong_ = ep.add<&am_lat::pong>(this);
    on_loaded_ping_ = ep.add<&am_lat::loaded_ping>(this);
    on_loaded_pong_ = ep.add<&am_lat::loaded_pong>(this);
  }

  std::size_t segment_bytes() const override {
    return kind_ == am_kind::long_ ? placement_window(size_) : 0;
  }

  figures ours(rig& r) override {
    endpoint& ep = r.ep();
    const rank_id target = r.other();
    switch (kind_) {
      case am_kind::short_:
        return measure(r, [&](std::uint64_t i) { return ep.request_short(target, on_ping_, i); });
      case am_kind::medium:
        return measure(
            r, [&](std::uint64_t i) { return load_.medium(ep, target, on_loaded_ping_, i); });
      case am_kind::long_:
        break;
    }
    std::byte* const there = ep.segment_of(target).data();
    placement at(size_, placement_window(size_));
    return measure(r, [&](std::uint64_t i) {
      return load_.long_to(ep, target, on_loaded_ping_, there + at.next(), i);
    });
  }

  figures raw(rig& r) override {
    const bool placed = kind_ == am_kind::long_;
    const leg there{size_, placed}, back = reply_same_ ? there : leg{};
    double median = 0;
    settle(samples_.few().size(),
           [&] { return median = r.raw_trips(there, back, 0, samples_.few()).ns.p50; });
    r.meet();
    return r.raw_trips(there, back, samples_.chunk(), samples_.in_a_round(median));
  }

 private:
  // At the target. The number of the trip comes back with the reply.
  void ping(token& t, std::uint64_t i) { must(t.reply_short(on_pong_, i), "am_lat's reply"); }
  void loaded_ping(token& t, std::span<std::byte> payload, std::uint64_t i) {
    if (kind_ == am_kind::medium) read_ += perf::read_all(payload.data(), payload.size());
    if (!reply_same_)
      must(t.reply_short(on_pong_, i), "am_lat's reply");
    else if (kind_ == am_kind::medium)
      must(t.reply_medium(on_loaded_pong_, payload_.view(), i), "am_lat's reply");
    else
      must(t.reply_long(on_loaded_pong_, payload_.view(), back(t) + back_at_.next(), i),
           "am_lat's reply");
  }
  std::byte* back(token& t) {
    if (back_ == nullptr) [[unlikely]]
      back_ = t.at().segment_of(t.source()).data();
    return back_;
  }
  // At the requester.
  void pong(token&, std::uint64_t i) { answered_.store(i, std::memory_order_relaxed); }
  void loaded_pong(token&, std::span<std::byte> payload, std::uint64_t i) {
    if (kind_ == am_kind::medium) read_ += perf::read_all(payload.data(), payload.size());
    answered_.store(i, std::memory_order_relaxed);
  }

  template <class Send>
  void trips(endpoint& ep, Send&& send, std::span<std::uint64_t> samples) {
    std::uint64_t before = ticks();
    for (auto& s : samples) {
      const std::uint64_t i = ++trip_;
      must(send(i), "am_lat's request");
      perf::patience p("reply");
      while (answered_.load(std::memory_order_relaxed) != i) {
        must(ep.poll(), "am_lat's poll");
        p.idle();
      }
      const std::uint64_t now = ticks();
      s = now - before;
      before = now;
    }
  }

  template <class Send>
  figures measure(rig& r, Send&& send) {
    endpoint& ep = r.ep();
    const std::span few = samples_.few();
    double median = 0;
    settle(few.size(), [&] {
      trips(ep, send, few);
      return median = static_cast<double>(perf::median(few)) * ns_per_tick();
    });
    const std::span samples = samples_.in_a_round(median);
    r.meet();
    const std::uint64_t start = ticks();
    trips(ep, send, samples);
    const double took = static_cast<double>(ticks() - start) * ns_per_tick() * 1e-9;
    return {perf::summarize(samples, ns_per_tick()), static_cast<double>(samples.size()) / took,
            samples.size()};
  }

  am_kind kind_;
  std::uint64_t size_;
  bool reply_same_;
  trip_samples samples_;
  payload_buffer payload_;
  loading load_;
  short_handler<std::uint64_t> on_ping_, on_pong_;
  payload_handler<std::uint64_t> on_loaded_ping_, on_loaded_pong_;
  std::byte* back_ = nullptr;  ///< the requester's segment
  placement back_at_{size_, placement_window(size_)};
  std::uint64_t trip_ = 0, read_ = 0;
  std::atomic<std::uint64_t> answered_{0};  // a poller's thread may run the handler
};

}  // namespace

std::string complete_am_lat(options& o) {
  if (o.kind == am_kind::short_) {
    if (o.size > sizeof(std::uint64_t)) return "a Short of am_lat carries 8 bytes";
    o.size = sizeof(std::uint64_t);
  } else if (o.size == 0) {
    o.size = 64;
  }
  if (o.reply == reply_kind::automatic)
    o.reply = o.size <= same_reply_up_to ? reply_kind::same : reply_kind::short_;
  if (o.threads > 1) return "am_lat is measured with one thread";
  return {};
}

std::unique_ptr<bench> make_am_lat(const options& o) { return std::make_unique<am_lat>(o); }

}  // namespace penstock::penperf
