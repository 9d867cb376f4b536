// put_bw, get_bw and atomic_rate: operations without waiting for each, all waited for at the end of
// the round. Time runs until the last is complete.
#include <algorithm>
#include <vector>

#include "penstock/atomic.hpp"
#include "perf/penperf/one_sided.hpp"

namespace penstock::penperf {

namespace {

/// Handles of atomics in flight; the oldest is waited for when one more is to go.
constexpr std::size_t window = 64;

class rma_flow final : public one_sided_bench {
 public:
  rma_flow(const options& o, access what)
      : one_sided_bench(o, what), told_(o.iters), seconds_(o.seconds) {}

  figures ours(rig& r) override {
    remote_memory& m = places_.remote();
    placement at = places_.round();
    switch (what_) {
      case access::put:
        return measure(
            [&] {
              must(m.put_nbi(target_rank, places_.there(at.next()), places_.local(),
                             source_reuse::on_completion),
                   "put");
            },
            [&] { must(m.wait_puts(), "puts"); });
      case access::get:
        return measure(
            [&] { must(m.get_nbi(places_.local(), target_rank, places_.there(at.next())), "get"); },
            [&] { must(m.wait_gets(), "gets"); });
      case access::fetch_add:
        break;
    }
    using word = std::uint64_t;
    atomic_domain<word> d(m, atomic_ops::add | atomic_ops::get);
    auto* const there = reinterpret_cast<word*>(r.ep().segment_of(target_rank).data());
    std::vector<operation> ops(window);
    std::vector<word> old(window);
    std::size_t next = 0;
    return measure(
        [&] {
          must(ops[next].wait(), "fetch_add");
          ops[next] = d.start<atomic_ops::add>(target_rank, there, 1, 0, &old[next]);
          next = next + 1 == window ? 0 : next + 1;
        },
        [&] { must(wait_all(ops), "fetch_adds"); });
  }

  figures raw(rig& r) override {
    if (places_.alone()) {
      placement at = places_.round();
      return measure([&] { places_.bare(at.next()); }, [] {});
    }
    return in_rounds(
        [&](std::uint64_t count) { return r.raw_stream(what_, places_.size(), count); });
  }

 private:
  template <class Op, class Finish>
  figures measure(Op&& op, Finish&& finish) {
    return in_rounds([&](std::uint64_t count) {
      const std::uint64_t each = batch(count);
      samples_.resize(std::max<std::uint64_t>(1, count / each));
      const std::uint64_t start = ticks();
      figures f = timed(each, samples_, op);
      finish();
      const double took = static_cast<double>(ticks() - start) * ns_per_tick() * 1e-9;
      f.rate = static_cast<double>(f.count) / took;
      return f;
    });
  }
  [[nodiscard]] std::uint64_t batch(std::uint64_t count) const noexcept {
    return std::clamp<std::uint64_t>(count / 1000, 1, 1024);
  }

  /// Finds how many operations fill a round on this side, warms up, measures.
  template <class Flow>
  figures in_rounds(Flow&& flow) {
    if (told_ != 0) {
      flow(std::max<std::uint64_t>(1, told_ / 10));
      return flow(told_);
    }
    std::uint64_t count = 64;
    double rate = 0;
    settle([&] {
      rate = flow(count).rate;
      count = operations_in(0.05, rate);
      return rate;
    });
    return flow(operations_in(seconds_, rate));
  }
  [[nodiscard]] static std::uint64_t operations_in(double seconds, double rate) noexcept {
    return std::clamp<std::uint64_t>(static_cast<std::uint64_t>(seconds * rate), 64,
                                     std::uint64_t{1} << 27);
  }

  std::uint64_t told_;
  double seconds_;
  std::vector<std::uint64_t> samples_;
};

}  // namespace

std::string complete_rma_bw(options& o) {
  if (o.size == 0) o.size = 65536;
  return one_thread(o);
}

std::unique_ptr<bench> make_put_bw(const options& o) {
  return std::make_unique<rma_flow>(o, access::put);
}
std::unique_ptr<bench> make_get_bw(const options& o) {
  return std::make_unique<rma_flow>(o, access::get);
}
std::unique_ptr<bench> make_atomic_rate(const options& o) {
  return std::make_unique<rma_flow>(o, access::fetch_add);
}

}  // namespace penstock::penperf
