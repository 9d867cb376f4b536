// overlap: how much of a collective that does not wait goes on while the program computes.
//
//   penrun -n 2 -x PENSTOCK_PROGRESS_THREAD=yes overlap [BYTES [ROUNDS]]
//
// A round measures a sum to all of BYTES (1 MB) that is waited for at once; then one that is begun,
// left to itself while the program computes for 1.5 times that long, and waited for. Overlap is the
// share of the first time that the second sum's two calls did not take: 1 - (begin + wait) / alone.
// Printed are the medians of the rounds, at rank 0. Processes and their progress threads want a
// core each; with fewer, the computation takes longer instead, as `computing` shows.
#include <gasnet_coll.h>
#include <gasnetex.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "lib/base/clock.hpp"
#include "lib/base/log.hpp"

namespace {

using penstock::now_ns;

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

// Computes in registers, without a call, for about that many steps.
std::uint64_t compute(std::uint64_t steps) {
  std::uint64_t x = steps | 1;
  for (std::uint64_t i = 0; i < steps; ++i) {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    asm volatile("" : "+r"(x));
  }
  return x;
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t bytes = argc > 1 ? std::strtoull(argv[1], nullptr, 0) : std::size_t{1} << 20;
  const int rounds = argc > 2 ? std::max(std::atoi(argv[2]), 1) : 51;
  gex_Client_t client;
  gex_EP_t ep;
  gex_TM_t tm;
  if (gex_Client_Init(&client, &ep, &tm, "overlap", &argc, &argv, 0) != GASNET_OK) return 1;
  const std::size_t count = std::max<std::size_t>(bytes / 8, 1);
  std::vector<std::uint64_t> in(count, 1), out(count);
  const auto begin = [&] {
    return gex_Coll_ReduceToAllNB(tm, out.data(), in.data(), GEX_DT_U64, 8, count, GEX_OP_ADD,
                                  nullptr, nullptr, 0);
  };
  const auto meet = [&] { gex_Event_Wait(gex_Coll_BarrierNB(tm, 0)); };
  std::uint64_t since = now_ns();
  constexpr std::uint64_t trial = 10'000'000;
  compute(trial);
  const double steps_a_ns = static_cast<double>(trial) / static_cast<double>(now_ns() - since);
  std::vector<double> alone, begun, computed, waited;
  for (int i = 0; i < rounds + 3; ++i) {
    meet();
    since = now_ns();
    gex_Event_Wait(begin());
    const auto whole = static_cast<double>(now_ns() - since);
    meet();
    const std::uint64_t t0 = now_ns();
    const gex_Event_t ev = begin();
    const std::uint64_t t1 = now_ns();
    compute(static_cast<std::uint64_t>(whole * 1.5 * steps_a_ns));
    const std::uint64_t t2 = now_ns();
    gex_Event_Wait(ev);
    const std::uint64_t t3 = now_ns();
    if (out[count - 1] != gex_TM_QuerySize(tm)) penstock::fatal(1, "the sum is wrong");
    if (i < 3) continue;
    alone.push_back(whole);
    begun.push_back(static_cast<double>(t1 - t0));
    computed.push_back(static_cast<double>(t2 - t1));
    waited.push_back(static_cast<double>(t3 - t2));
  }
  if (gex_TM_QueryRank(tm) == 0) {
    const double whole = median(alone), rest = median(begun) + median(waited);
    std::printf(
        "%u processes, %zu bytes: alone %.1f us; begin %.1f, computing %.1f, wait %.1f us; overlap "
        "%.2f\n",
        gex_TM_QuerySize(tm), count * 8, whole * 1e-3, median(begun) * 1e-3,
        median(computed) * 1e-3, median(waited) * 1e-3, 1 - rest / whole);
  }
  meet();
  gasnet_exit(0);
}
