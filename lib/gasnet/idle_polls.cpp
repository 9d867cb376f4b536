#include "lib/gasnet/idle_polls.hpp"

#include <sched.h>

#include <algorithm>
#include <thread>

#include "lib/base/clock.hpp"
#include "lib/base/thread_index.hpp"
#include "lib/gasnet/process.hpp"

namespace penstock::gasnet::PENSTOCK_ABI {
namespace {

// Both are in ticks, which take a third to a whole nanosecond. A poll that takes less than
// quick_poll is not timed alone. A yield that takes less than shortest_turn has found no other
// thread that wanted the core: it takes 0.2 us then, and 1.6 us or more where another thread runs
// in between.
constexpr std::uint64_t quick_poll = 3000, shortest_turn = 2000;

// Each process of the host is taken to have as many threads that poll as this one.
bool crowded() noexcept {
  static const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
  return self.membership->host_size() * std::max(1u, client_threads()) > cores;
}

}  // namespace

void rest_from_polls(idle_polls& mine) noexcept {
  const idle_mode mode = self.idle.load(std::memory_order_relaxed);
  const bool wanted = mode == idle_mode::always || (mode == idle_mode::where_crowded && crowded());
  const std::uint64_t now = wanted ? ticks() : 0;
  unsigned n = 0;
  const auto one_poll = [&n] {
    const std::uint64_t before = ticks();
    return self.engine->poll(&n) == status::ok && n == 0 ? ticks() - before : 0;
  };
  if (!mine.may_yield(wanted, now, quick_poll, one_poll)) return;
  if (self.engine->poll_widely(&n) != status::ok || n != 0) return;
  const std::uint64_t before = ticks();
  sched_yield();
  const std::uint64_t after = ticks();
  mine.yielded(after - before > shortest_turn, after);
}

}  // namespace penstock::gasnet::PENSTOCK_ABI
