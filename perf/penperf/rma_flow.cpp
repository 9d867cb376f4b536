// put_bw, get_bw and atomic_rate: operations that are not waited for one by one, but all together
// at the end of the round, or of each window (atomics: at most a window in flight). Time runs until
// the last is complete. With both ways the target does the same number at the same time, and time
// runs until it has said that it has finished, too.
#include <algorithm>
#include <atomic>
#include <vector>

#include "penstock/atomic.hpp"
#include "perf/penperf/one_sided.hpp"

namespace penstock::penperf {

namespace {

/// Handles of atomics in flight; the oldest is waited for when one more is to go.
constexpr std::size_t atomics_in_flight = 64;

class rma_flow final : public one_sided_bench {
 public:
  rma_flow(const options& o, access what)
      : one_sided_bench(o, what),
        told_(o.iters),
        seconds_(o.seconds),
        both_(o.both),
        window_(o.window) {}

  void add_handlers(endpoint& ep) override { on_done_ = ep.add<&rma_flow::done>(this); }
  void start(world& w, rig& r) override {
    one_sided_bench::start(w, r);
    if (!both_) return;
    r.at_target([this, &r](std::uint64_t count) {
      if ((count & bare_bit) != 0)
        bare(count & ~bare_bit);
      else
        with_operation(r, [&](auto&& op, auto&& finish) { return flow(count, op, finish); });
      must(r.ep().request_short(r.other(), on_done_), "the end of the target's flow");
    });
  }

  figures ours(rig& r) override {
    return with_operation(r, [&](auto&& op, auto&& finish) {
      return in_rounds(r, [&](std::uint64_t count) {
        return together(r, count, [&] { return flow(count, op, finish); });
      });
    });
  }

  figures raw(rig& r) override {
    if (places_.alone())
      return in_rounds(r, [&](std::uint64_t count) {
        return together(r, count | bare_bit, [&] { return bare(count); });
      });
    const manner how{both_, static_cast<std::uint32_t>(window_)};
    return in_rounds(
        r, [&](std::uint64_t count) { return r.raw_stream(what_, how, places_.size(), count); });
  }

 private:
  static constexpr std::uint64_t bare_bit = std::uint64_t{1} << 63;

  // At the requester, from the target.
  void done(token&) { done_.fetch_add(1, std::memory_order_relaxed); }

  /// Calls here() at this process; with both ways also at the target, which is sent `order`.
  template <class Here>
  figures together(rig& r, std::uint64_t order, Here&& here) {
    if (!both_) return here();
    const std::uint64_t before = done_.load(std::memory_order_relaxed);
    const std::uint64_t start = ticks();
    r.call_target(order);
    figures f = here();
    must(r.ep().wait_until([&] { return done_.load(std::memory_order_relaxed) != before; }),
         "the target's flow");
    const double took = static_cast<double>(ticks() - start) * ns_per_tick() * 1e-9;
    f.count *= 2;
    f.rate = static_cast<double>(f.count) / took;
    return f;
  }

  /// Calls measure(op, finish) with our operation and what waits for the last of them.
  template <class Measure>
  figures with_operation(rig& r, Measure&& measure) {
    remote_memory& m = places_.remote();
    placement at = places_.round();
    const rank_id other = r.other();
    switch (what_) {
      case access::put:
        return measure(
            [&] {
              must(m.put_nbi(other, places_.there(at.next()), places_.local(),
                             source_reuse::on_completion),
                   "put");
            },
            [&] { must(m.wait_puts(), "puts"); });
      case access::get:
        return measure(
            [&] { must(m.get_nbi(places_.local(), other, places_.there(at.next())), "get"); },
            [&] { must(m.wait_gets(), "gets"); });
      case access::fetch_add:
        break;
    }
    using word = std::uint64_t;
    atomic_domain<word> d(m, atomic_ops::add | atomic_ops::get);
    auto* const there = reinterpret_cast<word*>(r.ep().segment_of(other).data());
    const std::size_t window = window_ != 0 ? window_ : atomics_in_flight;
    std::vector<operation> ops(window);
    std::vector<word> old(window);
    std::size_t next = 0;
    return measure(
        [&] {
          must(ops[next].wait(), "fetch_add");
          ops[next] = d.start<atomic_ops::add>(other, there, 1, 0, &old[next]);
          next = next + 1 == window ? 0 : next + 1;
        },
        [&] { must(wait_all(ops), "fetch_adds"); });
  }

  figures bare(std::uint64_t count) {
    placement at = places_.round();
    return flow(
        count, [&] { places_.bare(at.next()); }, [] {});
  }

  template <class Op, class Finish>
  figures flow(std::uint64_t count, Op&& op, Finish&& finish) {
    // Atomics keep to their window by themselves.
    const bool windowed = window_ != 0 && what_ != access::fetch_add;
    const std::uint64_t each = windowed ? std::min(window_, count) : batch(count);
    samples_.resize(std::max<std::uint64_t>(1, count / each));
    const std::uint64_t start = ticks();
    figures f;
    if (windowed) {
      f = timed(1, samples_, [&] {
        for (std::uint64_t i = 0; i < each; ++i) op();
        finish();
      });
      f = {perf::summarize(samples_, ns_per_tick() / static_cast<double>(each)), 0, f.count * each};
    } else {
      f = timed(each, samples_, op);
      finish();
    }
    const double took = static_cast<double>(ticks() - start) * ns_per_tick() * 1e-9;
    f.rate = static_cast<double>(f.count) / took;
    return f;
  }
  [[nodiscard]] std::uint64_t batch(std::uint64_t count) const noexcept {
    return std::clamp<std::uint64_t>(count / 1000, 1, 1024);
  }

  /// Finds how many operations fill a round on this side, warms up, measures.
  template <class Flow>
  figures in_rounds(rig& r, Flow&& some) {
    std::uint64_t count = told_;
    if (count != 0) {
      some(warm_up_operations != 0 ? warm_up_operations : std::max<std::uint64_t>(1, count / 10));
    } else {
      const double ways = both_ ? 2 : 1;
      double rate = 0;
      count = warm_up_operations != 0 ? warm_up_operations : 64;
      settle(count, [&] {
        rate = some(count).rate / ways;
        if (warm_up_operations == 0) count = operations_in(0.05, rate);
        return rate;
      });
      count = operations_in(seconds_, rate);
    }
    r.meet();
    return some(count);
  }
  [[nodiscard]] static std::uint64_t operations_in(double seconds, double rate) noexcept {
    return std::clamp<std::uint64_t>(static_cast<std::uint64_t>(seconds * rate), 64,
                                     std::uint64_t{1} << 27);
  }

  std::uint64_t told_;
  double seconds_;
  bool both_;
  std::uint64_t window_;  ///< 0: as many in flight as there may be
  short_handler<> on_done_;
  std::atomic<std::uint64_t> done_{0};  ///< flows of the target that have ended
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
