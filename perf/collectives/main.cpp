// collectives: how long collective operations of a job take, beside what the memory and the
// processors allow.
//
//   penrun -n 8 collectives [SECONDS [ROUNDS]]
//
// reduce_all   8 bytes, added up; twin: a bare exchange of words in shared memory between two
//              processes, and the barrier of gasnet.h between any number
// reduce_all   1 MB of words, added up; twin: the same sums by as many processes as there are, each
//              of its own megabyte and another, and a barrier
// broadcast    1 MB from segment to segment; twin: the plain copies of a megabyte that the job has
//              to make, by as many processes as have cores
// exchange     the same, 1 MB to each
//
// A round measures each beside its twins, in the same processes. Printed are the medians of the
// rounds, and of the ratios within a round.
#include <gasnet_coll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

#include "lib/base/clock.hpp"
#include "lib/base/log.hpp"
#include "lib/gasnet/coll/collective.hpp"
#include "perf/penperf/or_die.hpp"
#include "perf/penperf/pair_memory.hpp"

namespace {

using namespace penstock;
using penstock::penperf::or_die;
namespace coll = penstock::gasnet::coll;

constexpr std::size_t megabyte = std::size_t{1} << 20;
constexpr int flags = GASNET_COLL_LOCAL | GASNET_COLL_IN_MYSYNC | GASNET_COLL_OUT_MYSYNC;

void must(bool good, const char* what) {
  if (!good) fatal(1, "%s failed", what);
}

struct alignas(64) word {
  std::atomic<std::uint64_t> count{0};
  std::uint64_t value = 0;
};

void add(const coll::reduction&, void* left, void* right, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    static_cast<std::uint64_t*>(left)[i] += static_cast<std::uint64_t*>(right)[i];
}

class job {
 public:
  explicit job(world& w)
      : size_(w.size()),
        rank_(w.rank()),
        memory_(penperf::pair_memory::share(w, 2 * sizeof(word), w.size())) {
    gasnet_seginfo_t info[256];
    must(size_ <= 256 && gasnet_getSegmentInfo(info, 256) == GASNET_OK, "the segments");
    from_ = static_cast<std::byte*>(info[rank_].addr);
    to_ = from_ + megabyte * size_;
    how_.combine = &add;
    how_.element_bytes = 8;
    how_.commutative = true;
  }

  void barrier() {
    gasnet_barrier_notify(0, GASNET_BARRIERFLAG_ANONYMOUS);
    must(gasnet_barrier_wait(0, GASNET_BARRIERFLAG_ANONYMOUS) == GASNET_OK, "gasnet_barrier_wait");
  }
  /// Microseconds of one, as this process sees `count` of them.
  template <class Op>
  double time(std::uint64_t count, Op&& one) {
    barrier();
    const std::uint64_t start = now_ns();
    for (std::uint64_t i = 0; i < count; ++i) one();
    barrier();
    return static_cast<double>(now_ns() - start) * 1e-3 / static_cast<double>(count);
  }

  void reduce_all() {
    coll::op_counter done{0};
    const std::uint64_t mine = rank_ + 1;
    std::uint64_t sum = 0;
    coll::reduce_all(coll::world(), &sum, &mine, 1, how_, coll::own_buffers, done);
    coll::wait(done);
    must(sum == std::uint64_t{size_} * (size_ + 1) / 2, "the sum");
  }
  void reduce_large() {
    coll::op_counter done{0};
    coll::reduce_all(coll::world(), to_, from_, megabyte / 8, how_, coll::own_buffers, done);
    coll::wait(done);
  }
  void bare_sum() {
    auto* const left = reinterpret_cast<std::uint64_t*>(to_);
    const auto* const right = reinterpret_cast<const std::uint64_t*>(from_);
    for (std::size_t i = 0; i < megabyte / 8; ++i) left[i] += right[i];
    barrier();
  }
  [[nodiscard]] bool has_twin() const { return size_ == 2 && memory_; }
  void bare_exchange() {
    auto* const words = reinterpret_cast<word*>(memory_.data());
    word &mine = words[rank_], &other = words[1 - rank_];
    ++phase_;
    mine.value = rank_ + 1;
    // W1 say  release count  -> W2
    mine.count.store(phase_, std::memory_order_release);
    // W2 hear acquire count  <- W1
    while (other.count.load(std::memory_order_acquire) < phase_) {
    }
    must(mine.value + other.value == 3, "the bare sum");
  }

  void broadcast() {
    gasnet_coll_broadcast(GASNET_TEAM_ALL, to_, 0, rank_ == 0 ? from_ : nullptr, megabyte, flags);
  }
  void exchange() { gasnet_coll_exchange(GASNET_TEAM_ALL, to_, from_, megabyte, flags); }
  /// One megabyte for each process, by all of them at once: what a broadcast copies.
  void bare_copies(std::size_t each) {
    for (std::size_t i = 0; i < each; ++i)
      std::memcpy(to_ + i * megabyte, from_ + i * megabyte, megabyte);
    barrier();
  }
  [[nodiscard]] std::uint32_t size() const { return size_; }

 private:
  const std::uint32_t size_, rank_;
  penperf::pair_memory memory_;
  std::byte *from_ = nullptr, *to_ = nullptr;
  coll::reduction how_;
  std::uint64_t phase_ = 0;
};

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

// Times and ratios of one operation and its twin.
struct figures {
  std::vector<double> ours, twin, ratio;
  void add(double a, double b) {
    ours.push_back(a);
    twin.push_back(b);
    ratio.push_back(a / b);
  }
  void print(const char* what, const char* of_twin) const {
    std::printf("%-22s %9.2f us   %-28s %9.2f us   ratio %.2f\n", what, median(ours), of_twin,
                median(twin), median(ratio));
  }
};

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 1;
  const int rounds = argc > 2 ? std::max(std::atoi(argv[2]), 1) : 7;
  world w = or_die(world::join());
  must(gasnet_init(&argc, &argv) == GASNET_OK, "gasnet_init");
  must(gasnet_attach(nullptr, 0, 2 * megabyte * w.size(), 0) == GASNET_OK, "gasnet_attach");
  gasnet_coll_init(nullptr, 0, nullptr, 0, 0);
  job j(w);
  figures reduction, barrier, sums, broadcast, exchange;
  // As many of each as fill a round, by what rank 0 found.
  double first[2] = {j.time(1000, [&] { j.reduce_all(); }), j.time(10, [&] { j.exchange(); })};
  gasnet_coll_broadcast(GASNET_TEAM_ALL, first, 0, first, sizeof first, flags);
  const double us = seconds * 1e6 / rounds / 6;
  const auto small = static_cast<std::uint64_t>(us / first[0]) + 100;
  const auto large = static_cast<std::uint64_t>(us / first[1]) + 3;
  for (int i = 0; i < rounds; ++i) {
    const double r = j.time(small, [&] { j.reduce_all(); });
    if (j.has_twin()) reduction.add(r, j.time(small, [&] { j.bare_exchange(); }));
    barrier.add(r, j.time(small, [&] { j.barrier(); }));
    sums.add(j.time(large, [&] { j.reduce_large(); }), j.time(large, [&] { j.bare_sum(); }));
    broadcast.add(j.time(large, [&] { j.broadcast(); }), j.time(large, [&] { j.bare_copies(1); }));
    exchange.add(j.time(large, [&] { j.exchange(); }),
                 j.time(large, [&] { j.bare_copies(w.size()); }));
  }
  if (w.rank() == 0) {
    std::printf("%u processes\n", w.size());
    if (j.has_twin()) reduction.print("reduce_all 8 B", "bare exchange");
    barrier.print("reduce_all 8 B", "gasnet_barrier");
    sums.print("reduce_all 1 MB", "a sum each, and a barrier");
    broadcast.print("broadcast 1 MB", "a copy each, and a barrier");
    exchange.print("exchange 1 MB", "its copies, and a barrier");
  }
  gasnet_exit(0);
}
