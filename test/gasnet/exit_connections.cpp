// A job whose ranks all leave, or whose rank 0 does: no rank is connected to more others, by its
// start, a barrier and that, than a barrier has partners. A job whose ranks split their team: no
// rank is connected to more than the steps of two operations in log n have partners.
//   exit_connections all|one|split
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "lib/gasnet/coll/collective.hpp"
#include "lib/gasnet/process.hpp"

using namespace penstock::gasnet;

namespace {

// In a barrier each rank has a partner to send to and one to hear from in each step.
unsigned partners() { return 2u * static_cast<unsigned>(std::bit_width(self.engine->size() - 1)); }

bool is_connected_to(std::uint64_t most) {
  const auto connected = self.engine->counters().connections;
  if (connected > most)
    std::fprintf(stderr, "rank %u is connected to %llu ranks, more than %llu\n",
                 self.engine->rank(), static_cast<unsigned long long>(connected),
                 static_cast<unsigned long long>(most));
  else if (self.engine->rank() == 0)
    std::fprintf(stderr, "rank 0 is connected to %llu ranks\n",
                 static_cast<unsigned long long>(connected));
  return connected <= most;
}

// Runs when this process has agreed with the others, since it was registered before gasnet_init.
void look(int, void*) { (void)is_connected_to(partners()); }

// Returns the job's code.
int split() {
  coll::team* const half =
      coll::split(coll::world(), true, self.engine->rank() % 2, self.engine->rank());
  const bool few = is_connected_to(2 * partners());
  if (coll::size(*half) != (self.engine->size() + 1 - self.engine->rank() % 2) / 2) return 3;
  return few ? 0 : 4;
}

}  // namespace

int main(int argc, char** argv) {
  const bool splits = argc > 1 && std::strcmp(argv[1], "split") == 0;
  if (!splits && on_exit(&look, nullptr) != 0) return 2;
  if (gasnet_init(&argc, &argv) != GASNET_OK) return 2;
  if (gasnet_attach(nullptr, 0, 0, 0) != GASNET_OK) return 2;
  // Its partners are connected from here on: on a busy host that may take longer than an exit waits
  // before it tells further ranks.
  gasnet_barrier_notify(0, GASNET_BARRIERFLAG_ANONYMOUS);
  if (gasnet_barrier_wait(0, GASNET_BARRIERFLAG_ANONYMOUS) != GASNET_OK) return 2;
  if (splits) gasnet_exit(split());
  const bool all = argc > 1 && std::strcmp(argv[1], "all") == 0;
  if (all || gasnet_mynode() == 0) std::exit(0);
  GASNET_BLOCKUNTIL(false);
}
