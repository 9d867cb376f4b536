// barriers: how long a barrier takes that all processes of a job pass, for any number of processes
// and cores. It measures those of gasnet.h and of the C++ interface, and their twin, a bare counter
// in shared memory whose waiters look at it and yield the core.
//
//   penrun -n 8 barriers [SECONDS [ROUNDS]]
//
// A round measures the three one right after the other, in the same processes. Printed are the
// medians of the rounds, and of the ratios within a round.
#include <gasnet.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

#include "lib/base/clock.hpp"
#include "lib/base/log.hpp"
#include "perf/penperf/or_die.hpp"
#include "perf/penperf/pair_memory.hpp"

namespace {

using namespace penstock;
using penstock::penperf::or_die;

void must(bool good, const char* what) {
  if (!good) fatal(1, "%s failed", what);
}

struct alignas(64) shared_count {
  std::atomic<std::uint64_t> arrived{0};
};

class job {
 public:
  job(world& w, endpoint& ep)
      : world_(w),
        ep_(ep),
        memory_(penperf::pair_memory::share(w, sizeof(shared_count), w.size())) {
    if (memory_) count_ = std::launder(reinterpret_cast<shared_count*>(memory_.data()));
  }

  /// Microseconds of one barrier, as rank 0 sees `count` of them.
  template <class Barrier>
  double time(std::uint64_t count, Barrier&& one) {
    const std::uint64_t start = now_ns();
    for (std::uint64_t i = 0; i < count; ++i) one();
    return static_cast<double>(now_ns() - start) * 1e-3 / static_cast<double>(count);
  }

  static void of_gasnet() {
    gasnet_barrier_notify(0, GASNET_BARRIERFLAG_ANONYMOUS);
    must(gasnet_barrier_wait(0, GASNET_BARRIERFLAG_ANONYMOUS) == GASNET_OK, "gasnet_barrier_wait");
  }
  void of_endpoint() { must(ep_.barrier() == status::ok, "endpoint::barrier"); }
  void of_twin() {
    passed_ += world_.size();
    // C1 arrive  acq_rel arrived  -> C2
    if (count_->arrived.fetch_add(1, std::memory_order_acq_rel) + 1 >= passed_) return;
    // C2 see     acquire arrived  <- C1
    while (count_->arrived.load(std::memory_order_acquire) < passed_)
      if (crowded_) sched_yield();
  }
  [[nodiscard]] bool has_twin() const { return count_ != nullptr; }

  /// Answers rank 0's value on every rank.
  std::uint64_t agree(std::uint64_t mine) {
    const auto all = or_die(world_.exchange(std::as_bytes(std::span(&mine, 1))));
    std::memcpy(&mine, all[0].data(), sizeof mine);
    return mine;
  }

 private:
  world& world_;
  endpoint& ep_;
  penperf::pair_memory memory_;
  shared_count* count_ = nullptr;
  std::uint64_t passed_ = 0;
  const bool crowded_ = world_.size() > static_cast<unsigned>(sysconf(_SC_NPROCESSORS_ONLN));
};

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

/// Microseconds of a round's three, and two ratios.
struct figures {
  std::vector<double> gasnet, endpoint, twin, gasnet_ratio, endpoint_ratio;
};

void one_round(job& j, std::uint64_t count, figures& f) {
  const double g = j.time(count, [] { job::of_gasnet(); });
  const double e = j.time(count, [&] { j.of_endpoint(); });
  f.gasnet.push_back(g);
  f.endpoint.push_back(e);
  if (!j.has_twin()) return;
  const double t = j.time(count, [&] { j.of_twin(); });
  f.twin.push_back(t);
  f.gasnet_ratio.push_back(g / t);
  f.endpoint_ratio.push_back(e / t);
}

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 1;
  const int rounds = argc > 2 ? std::max(std::atoi(argv[2]), 1) : 7;
  world w = or_die(world::join());  // first: gasnet_init finds the job joined
  endpoint ep = or_die(endpoint::open(w));
  if (const auto started = ep.start(); !started) fatal(1, "%s", started.error().message().c_str());
  must(gasnet_init(&argc, &argv) == GASNET_OK, "gasnet_init");
  must(gasnet_attach(nullptr, 0, 0, 0) == GASNET_OK, "gasnet_attach");
  job j(w, ep);
  figures f;
  constexpr std::uint64_t few = 1000;
  one_round(j, few, f);
  // A third of a round's time for each.
  const double us = seconds * 1e6 / rounds / 3;
  const std::uint64_t count = j.agree(static_cast<std::uint64_t>(us / f.gasnet[0]) + few);
  f = {};
  for (int i = 0; i < rounds; ++i) one_round(j, count, f);
  if (w.rank() == 0) {
    std::printf("%u processes: gasnet.h %.2f us, endpoint %.2f us", w.size(), median(f.gasnet),
                median(f.endpoint));
    if (j.has_twin())
      std::printf(", bare counter %.2f us: ratios %.2f and %.2f", median(f.twin),
                  median(f.gasnet_ratio), median(f.endpoint_ratio));
    std::printf("\n");
  }
  must(ep.barrier() == status::ok, "the last barrier");
  return 0;
}
