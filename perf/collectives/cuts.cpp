// cut_overs: at which size one algorithm of a collective, or of a put of many pieces, becomes
// faster than another. The settings COLL_SMALL, COLL_LARGE and VIS_PACK_LIMIT are based on its
// figures.
//
//   penrun -n 4 cut_overs [MILLISECONDS [ROUNDS]]
//
// For each size all algorithms are timed in turn, in the same processes, for MILLISECONDS each
// (20). Of ROUNDS (5) the fastest counts, as other programs of the machine only make it slower. The
// best algorithm of a size is starred. Pieces are not packed where the other process's memory is
// mapped, so their tables are meaningful by queue pairs alone (PENSTOCK_DEVICE=shm0
// PENSTOCK_DIRECT=no).
#include <gasnet_coll.h>
#include <gasnet_vis.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "lib/base/clock.hpp"
#include "lib/base/log.hpp"
#include "lib/gasnet/coll/collective.hpp"
#include "lib/gasnet/process.hpp"

namespace {

using namespace penstock;
namespace coll = penstock::gasnet::coll;
using penstock::gasnet::self;

constexpr std::size_t largest = std::size_t{1} << 20;
constexpr std::uint32_t never = 1u << 30;

void must(bool good, const char* what) {
  if (!good) fatal(1, "%s failed", what);
}

void add(const coll::reduction&, void* left, void* right, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    static_cast<std::uint64_t*>(left)[i] += static_cast<std::uint64_t*>(right)[i];
}

// What the settings are while one way is timed.
struct way {
  const char* name;
  std::uint32_t coll_small, coll_large, vis_pack_limit;
};

class cuts {
 public:
  cuts(double seconds, int rounds) : seconds_(seconds), rounds_(rounds) {
    gasnet_seginfo_t info[64];
    must(gasnet_nodes() <= 64 && gasnet_getSegmentInfo(info, 64) == GASNET_OK, "the segments");
    here_ = static_cast<std::byte*>(info[gasnet_mynode()].addr);
    neighbour_ = (gasnet_mynode() + 1) % gasnet_nodes();
    there_ = static_cast<std::byte*>(info[neighbour_].addr);
    how_.combine = &add;
    how_.element_bytes = 8;
    how_.commutative = true;
  }

  void table(const char* what, const std::vector<std::size_t>& sizes, const std::vector<way>& ways,
             const std::function<void(std::size_t)>& one) {
    say("\n%-28s", what);
    for (const way& w : ways) say(" %16s", w.name);
    say(" us\n");
    for (const std::size_t bytes : sizes) {
      std::vector<double> best(ways.size(), 1e30);
      for (int r = 0; r < rounds_; ++r)
        for (std::size_t i = 0; i < ways.size(); ++i)
          best[i] = std::min(best[i], time(ways[i], bytes, one));
      say("%22zu bytes", bytes);
      const double least = *std::min_element(best.begin(), best.end());
      for (const double us : best) say(" %15.2f%c", us, us == least ? '*' : ' ');
      say("\n");
    }
  }

  void reduce_all(std::size_t bytes) {
    coll::op_counter done{0};
    coll::reduce_all(coll::world(), to(), here_, bytes / 8, how_, coll::own_buffers, done);
    coll::wait(done);
  }
  void reduce(std::size_t bytes) {
    coll::op_counter done{0};
    coll::reduce(coll::world(), 0, to(), here_, bytes / 8, how_, coll::own_buffers, done);
    coll::wait(done);
  }
  void gather_all(std::size_t bytes) {
    coll::op_counter done{0};
    coll::gather_all(coll::world(), to(), here_, bytes / gasnet_nodes(), coll::own_buffers, done);
    coll::wait(done);
  }
  void broadcast(std::size_t bytes) {
    coll::op_counter done{0};
    coll::broadcast(coll::world(), 0, to(), here_, bytes, coll::own_buffers, done);
    coll::wait(done);
  }
  // 64 KB in pieces that lie twice as far apart, to the next process.
  void put_pieces(std::size_t bytes) {
    const std::size_t stride[] = {bytes * 2}, count[] = {bytes, 65536 / bytes};
    gasnet_puts_bulk(neighbour_, there_, stride, to(), stride, count, 1);
  }
  void get_pieces(std::size_t bytes) {
    const std::size_t stride[] = {bytes * 2}, count[] = {bytes, 65536 / bytes};
    gasnet_gets_bulk(to(), stride, neighbour_, there_, stride, count, 1);
  }

 private:
  [[nodiscard]] std::byte* to() const { return here_ + largest; }
  void barrier() {
    gasnet_barrier_notify(0, GASNET_BARRIERFLAG_ANONYMOUS);
    must(gasnet_barrier_wait(0, GASNET_BARRIERFLAG_ANONYMOUS) == GASNET_OK, "gasnet_barrier_wait");
  }
  // Microseconds of one operation; rank 0 decides how many are timed.
  double time(const way& w, std::size_t bytes, const std::function<void(std::size_t)>& one) {
    barrier();
    self.options.coll_small = w.coll_small;
    self.options.coll_large = w.coll_large;
    self.options.vis_pack_limit = w.vis_pack_limit;
    barrier();
    double us = run(3, bytes, one);
    gasnet_coll_broadcast(GASNET_TEAM_ALL, &us, 0, &us, sizeof us,
                          GASNET_COLL_LOCAL | GASNET_COLL_IN_MYSYNC | GASNET_COLL_OUT_MYSYNC);
    return run(3 + static_cast<std::uint64_t>(seconds_ * 1e6 / us), bytes, one);
  }
  double run(std::uint64_t n, std::size_t bytes, const std::function<void(std::size_t)>& one) {
    const std::uint64_t start = now_ns();
    for (std::uint64_t i = 0; i < n; ++i) one(bytes);
    barrier();
    return static_cast<double>(now_ns() - start) * 1e-3 / static_cast<double>(n);
  }
  [[gnu::format(printf, 2, 3)]] void say(const char* format, ...) {
    if (gasnet_mynode() != 0) return;
    std::va_list args;
    va_start(args, format);
    std::vprintf(format, args);
    va_end(args);
  }

  const double seconds_;
  const int rounds_;
  std::byte *here_ = nullptr, *there_ = nullptr;
  gasnet_node_t neighbour_ = 0;
  coll::reduction how_;
};

std::vector<std::size_t> powers(std::size_t from, std::size_t to) {
  std::vector<std::size_t> all;
  for (std::size_t s = from; s <= to; s *= 2) all.push_back(s);
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  must(gasnet_init(&argc, &argv) == GASNET_OK, "gasnet_init");
  must(gasnet_attach(nullptr, 0, 2 * largest, 0) == GASNET_OK, "gasnet_attach");
  gasnet_coll_init(nullptr, 0, nullptr, 0, 0);
  cuts c(argc > 1 ? std::atof(argv[1]) * 1e-3 : 0.02,
         argc > 2 ? std::max(std::atoi(argv[2]), 1) : 5);
  // Sums of up to 48 bytes go by shared lines whatever the settings say.
  c.table("reduce_all", powers(64, largest),
          {{"doubling", never, never, 0}, {"tree", 0, never, 0}, {"pieces", 0, 0, 0}},
          [&](std::size_t n) { c.reduce_all(n); });
  c.table("reduce", powers(64, largest), {{"tree", 0, never, 0}, {"pieces", 0, 0, 0}},
          [&](std::size_t n) { c.reduce(n); });
  c.table("gather_all, of all together", powers(64, largest),
          {{"doubling", never, never, 0}, {"straight", 0, never, 0}},
          [&](std::size_t n) { c.gather_all(n); });
  c.table("broadcast", powers(64, largest), {{"tree", 0, never, 0}, {"large", 0, 0, 0}},
          [&](std::size_t n) { c.broadcast(n); });
  const std::vector<way> packing = {{"packed", 0, 0, largest}, {"one by one", 0, 0, 1}};
  c.table("put of 64 KB in pieces of", powers(8, 2048), packing,
          [&](std::size_t n) { c.put_pieces(n); });
  c.table("get of 64 KB in pieces of", powers(8, 2048), packing,
          [&](std::size_t n) { c.get_pieces(n); });
  gasnet_exit(0);
}
