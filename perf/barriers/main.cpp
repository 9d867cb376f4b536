// barriers: how many barriers a second all processes of a job pass, however many there are and
// however few cores. A client of gasnet.h.
//
//   penrun -n 8 barriers [seconds]
#include <gasnet.h>
#include <gasnet_tools.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace {

void pass(std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) {
    gasnet_barrier_notify(0, GASNET_BARRIERFLAG_ANONYMOUS);
    if (gasnet_barrier_wait(0, GASNET_BARRIERFLAG_ANONYMOUS) != GASNET_OK) gasnet_exit(1);
  }
}

double seconds_of(std::uint64_t count) {
  const gasnett_tick_t start = gasnett_ticks_now();
  pass(count);
  return static_cast<double>(gasnett_ticks_to_ns(gasnett_ticks_now() - start)) * 1e-9;
}

}  // namespace

int main(int argc, char** argv) {
  const double wanted = argc > 1 ? std::atof(argv[1]) : 1;
  if (gasnet_init(&argc, &argv) != GASNET_OK || gasnet_attach(nullptr, 0, 0, 0) != GASNET_OK)
    return 1;
  constexpr std::uint64_t few = 2000;
  pass(few);
  std::uint64_t count = static_cast<std::uint64_t>(wanted * few / seconds_of(few)) + few;
  gasnet_coll_init(nullptr, 0, nullptr, 0, 0);
  gasnet_coll_broadcast(GASNET_TEAM_ALL, &count, 0, &count, sizeof count,
                        GASNET_COLL_LOCAL | GASNET_COLL_IN_ALLSYNC | GASNET_COLL_OUT_ALLSYNC);
  const double took = seconds_of(count);
  if (gasnet_mynode() == 0)
    std::printf("%u processes: %llu barriers in %.3f s: %.0f barriers/s, %.2f us each\n",
                gasnet_nodes(), static_cast<unsigned long long>(count), took,
                static_cast<double>(count) / took, took * 1e6 / static_cast<double>(count));
  gasnet_exit(0);
}
