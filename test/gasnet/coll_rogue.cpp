// Job program: small collectives go by lines in rank 0's segment, and rank 1 writes over some of
// them once. The job must end well or with a line about it, and never hang.
//   coll_rogue SEED
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <random>

#include "lib/gasnet/coll/shared_area.hpp"
#include "lib/gasnet/process.hpp"

#include <gasnet_coll.h>

using namespace penstock::gasnet;

namespace {

constexpr std::uint64_t lap = coll::shared_lines::depth_of(4);

void scribble(coll::shared_area& area, std::uint32_t ranks, std::mt19937_64& random) {
  auto& line = area.lines[random() % coll::shared_lines::needed(ranks)];
  switch (random() % 6) {
    case 0:
      line.turn.store(random());
      break;
    case 1:
      line.turn.fetch_xor(std::uint64_t{1} << random() % 64);
      break;
    case 2:
      line.turn.store(line.turn.load() - lap);
      break;
    case 3:
      line.turn.fetch_add(1);
      break;
    case 4:
      line.what = random();
      break;
    default:
      for (std::uint32_t i = 0; i < coll::shared_lines::needed(ranks); ++i)
        std::memset(static_cast<void*>(&area.lines[i]), 0, sizeof area.lines[i]);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const char* const seed = argc > 1 ? argv[1] : "1";
  std::mt19937_64 random(std::strtoull(seed, nullptr, 10));
  if (gasnet_init(&argc, &argv) != GASNET_OK) return 2;
  if (gasnet_attach(nullptr, 0, GASNET_PAGESIZE, 0) != GASNET_OK) return 2;
  gasnet_coll_init(nullptr, 0, nullptr, 0, 0);
  const int flags = GASNET_COLL_LOCAL | GASNET_COLL_IN_MYSYNC | GASNET_COLL_OUT_MYSYNC;
  const unsigned operations = 400, when = 1 + static_cast<unsigned>(random() % 200);
  for (unsigned i = 0; i < operations; ++i) {
    if (gasnet_mynode() == 1 && i == when) {
      if (const auto us = random() % 500; us > 100) usleep(static_cast<useconds_t>(us));
      scribble(*coll::shared::area_of(0), gasnet_nodes(), random);
    }
    std::uint32_t mine = i + gasnet_mynode(), all[32] = {};
    if (i % 2 == 0)
      gasnet_coll_gather_all(GASNET_TEAM_ALL, all, &mine, sizeof mine, flags);
    else
      gasnet_coll_broadcast(GASNET_TEAM_ALL, &mine, i % gasnet_nodes(), &mine, sizeof mine, flags);
  }
  gasnet_exit(0);
}
