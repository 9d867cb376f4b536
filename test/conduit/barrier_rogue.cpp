// Job program: the split-phase barrier keeps its words in the segments, and rank 1 overwrites some
// of another rank's. The job must end well or with a line about it, and never hang.
//   barrier_rogue SEED
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <random>

#include "lib/conduit/collective/barrier.hpp"
#include "lib/conduit/one_sided/rma.hpp"
#include "penstock/penstock.hpp"
#include "penstock/rma.hpp"
#include "test/conduit/job_check.hpp"

using namespace penstock;

namespace {

constexpr std::uint8_t handler = 8;  // as lib/gasnet has it
constexpr unsigned steps = 3;        // of up to 8 ranks

// Writes over one slot of `slots`, or over all of them.
void scribble(conduit::barrier_slots& slots, std::mt19937_64& random) {
  auto& slot = slots.at[random() % 2][random() % steps];
  const std::uint64_t word = slot.word.load();
  switch (random() % 5) {
    case 0:
      slot.word.store(random());
      slot.seal.store(random());
      break;
    case 1:
      slot.word.store(word ^ std::uint64_t{1} << random() % 64);
      break;
    case 2:
      slot.seal.store(random());
      break;
    case 3:
      slot.write(word + (std::uint64_t{1} << 34));
      break;
    default:
      std::memset(static_cast<void*>(&slots), static_cast<int>(random() % 3), sizeof slots);
  }
}

}  // namespace

int main(int argc, char** argv) {
  auto w = world::join();
  JOB_CHECK(w);
  endpoint ep = test::open_endpoint(*w);
  conduit::engine& e = ep.internals();
  conduit::barrier barrier(e, handler);
  if (auto r = ep.start(sizeof(conduit::barrier_slots)); !r)
    fatal(3, "%s", r.error().message().c_str());
  barrier.use_segment();
  JOB_CHECK(ep.barrier() == status::ok);
  std::mt19937_64 random(std::strtoull(argc > 1 ? argv[1] : "1", nullptr, 10));
  const unsigned barriers = 60, when = 5 + static_cast<unsigned>(random() % 20);
  remote_memory mem(ep);
  for (unsigned i = 0; i < barriers; ++i) {
    barrier.notify({});
    if (ep.rank() == 1 && i >= when && i < when + 10) {
      const auto to = static_cast<rank_id>((2 + random() % (ep.size() - 1)) % ep.size());
      auto* const there = reinterpret_cast<conduit::barrier_slots*>(e.segment_here(to));
      if (random() % 2 == 0) usleep(static_cast<useconds_t>(random() % 300));
      if (there != nullptr) {
        scribble(*there, random);
      } else {
        conduit::barrier_slots whole;
        scribble(whole, random);
        JOB_CHECK(mem.put(to, ep.segment_of(to).data(), std::as_bytes(std::span(&whole, 1))) ==
                  status::ok);
      }
    }
    conduit::barrier_vote all;
    JOB_CHECK(barrier.pass(all) == status::ok);
  }
  JOB_CHECK(ep.barrier() == status::ok);
  return 0;
}
