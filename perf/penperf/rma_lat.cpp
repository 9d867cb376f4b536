// put_lat, get_lat and atomic_lat: one blocking operation after the other.
#include <algorithm>
#include <vector>

#include "penstock/atomic.hpp"
#include "perf/penperf/one_sided.hpp"

namespace penstock::penperf {

namespace {

constexpr std::uint64_t most_samples = 100'000;

class rma_lat final : public one_sided_bench {
 public:
  rma_lat(const options& o, access what)
      : one_sided_bench(o, what), told_(o.iters), seconds_(o.seconds), chunk_(o.chunk) {}

  figures ours(rig& r) override {
    remote_memory& m = places_.remote();
    const rank_id target = r.other();
    placement at = places_.round();
    switch (what_) {
      case access::put:
        return measure(
            r, [&] { must(m.put(target, places_.there(at.next()), places_.local()), "put"); });
      case access::get:
        return measure(
            r, [&] { must(m.get(places_.local(), target, places_.there(at.next())), "get"); });
      case access::fetch_add:
        break;
    }
    using word = std::uint64_t;
    atomic_domain<word> d(m, atomic_ops::add | atomic_ops::get);
    auto* const there = reinterpret_cast<word*>(r.ep().segment_of(target).data());
    return measure(r, [&] {
      word old;
      must(d.fetch_add(target, there, 1, old), "fetch_add");
    });
  }

  figures raw(rig& r) override {
    if (!places_.alone()) {
      length(50'000);  // a twin in a guest may be slow; ours has measured already in every round
      const std::span few =
          std::span(samples_).first(std::min<std::size_t>(samples_.size(), chunk_));
      settle(few.size(), [&] { return r.raw_accesses(what_, places_.size(), few).ns.p50; });
      r.meet();
      return r.raw_accesses(what_, places_.size(), samples_);
    }
    placement at = places_.round();
    return measure(r, [&] { places_.bare(at.next()); });
  }

 private:
  /// Decides how many operations a sample has, and how many samples a round: the same on both
  /// sides, after the first measurement.
  void length(double ns_each) {
    if (!samples_.empty()) return;
    batch_ = places_.alone() ? operations_a_sample(ns_each) : 1;
    if (told_ != 0) batch_ = std::min(batch_, told_);
    const double each = ns_each * static_cast<double>(batch_);
    const std::uint64_t n =
        told_ != 0 ? std::max<std::uint64_t>(1, told_ / batch_)
                   : std::clamp(static_cast<std::uint64_t>(seconds_ * 1e9 / std::max(each, 1.0)),
                                std::uint64_t{100}, most_samples);
    samples_.resize(n);
  }

  template <class Op>
  figures measure(rig& r, Op&& op) {
    if (samples_.empty()) {
      std::vector<std::uint64_t> look(64);
      length(timed(places_.alone() ? 16 : 1, look, op).ns.p50);
    }
    const std::span few =
        std::span(samples_).first(std::min<std::size_t>(samples_.size(), chunk_ / batch_ + 10));
    settle(batch_ * few.size(), [&] { return timed(batch_, few, op).ns.p50; });
    r.meet();
    return timed(batch_, samples_, op);
  }

  std::uint64_t told_, batch_ = 1;
  double seconds_;
  std::uint64_t chunk_;
  std::vector<std::uint64_t> samples_;
};

}  // namespace

std::string complete_rma_lat(options& o) {
  if (o.size == 0) o.size = 8;
  return one_thread(o);
}
std::string complete_atomic(options& o) {
  if (o.size > sizeof(std::uint64_t)) return "an atomic is of 8 bytes";
  o.size = sizeof(std::uint64_t);
  if (o.memory != place_of::segment) return "atomics are for words in segments";
  return one_thread(o);
}

std::unique_ptr<bench> make_put_lat(const options& o) {
  return std::make_unique<rma_lat>(o, access::put);
}
std::unique_ptr<bench> make_get_lat(const options& o) {
  return std::make_unique<rma_lat>(o, access::get);
}
std::unique_ptr<bench> make_atomic_lat(const options& o) {
  return std::make_unique<rma_lat>(o, access::fetch_add);
}

}  // namespace penstock::penperf
