// Step 2 of the tutorial: ranks write into each other's segments, and count in one of them.
//   penrun -n 4 tutorial_one_sided
#include <cstdint>
#include <cstdio>
#include <penstock/atomic.hpp>
#include <penstock/penstock.hpp>
#include <penstock/rma.hpp>

using namespace penstock;

// What lies in every rank's segment.
struct shared_part {
  std::uint64_t from_left;   // put by the left neighbour
  std::uint64_t from_right;  // put by the right neighbour
  std::uint64_t arrivals;    // counted by all, at rank 0
};

static shared_part* part_of(endpoint& ep, rank_id r) {
  return reinterpret_cast<shared_part*>(ep.segment_of(r).data());
}

static status run(endpoint& ep) {
  remote_memory memory(ep);
  const rank_id me = ep.rank(), n = ep.size();
  const rank_id left = (me + n - 1) % n, right = (me + 1) % n;

  // Two puts at once: both handles are waited for together.
  const std::uint64_t mine = 100 + me;
  operation puts[] = {
      memory.put_nb(right, &part_of(ep, right)->from_left, std::as_bytes(std::span(&mine, 1))),
      memory.put_nb(left, &part_of(ep, left)->from_right, std::as_bytes(std::span(&mine, 1)))};
  if (const status s = wait_all(puts); is_failure(s)) return s;

  // A put that has completed is in the target's memory, so a barrier behind it orders all of them.
  if (const status s = ep.barrier(); is_failure(s)) return s;
  std::printf("rank %u: %lu on the left, %lu on the right\n", me, part_of(ep, me)->from_left,
              part_of(ep, me)->from_right);

  // One word at rank 0 that every rank adds to: nobody's addition is lost.
  atomic_domain<std::uint64_t> counter(memory, atomic_ops::add | atomic_ops::get);
  std::uint64_t before = 0;
  if (const status s = counter.fetch_add(0, &part_of(ep, 0)->arrivals, 1, before); is_failure(s))
    return s;
  if (const status s = ep.barrier(); is_failure(s)) return s;
  std::uint64_t all = 0;
  if (const status s = memory.get_value(all, 0, &part_of(ep, 0)->arrivals); is_failure(s)) return s;
  std::printf("rank %u: came as number %lu of %lu\n", me, before + 1, all);
  return ep.barrier();
}

int main() {
  result<world> job = world::join();
  if (!job) return std::fprintf(stderr, "%s\n", job.error().message().c_str()), 1;
  result<endpoint> ep = endpoint::open(*job);
  if (!ep) return std::fprintf(stderr, "%s\n", ep.error().message().c_str()), 1;
  if (const auto started = ep->start(sizeof(shared_part)); !started)
    return std::fprintf(stderr, "%s\n", started.error().message().c_str()), 1;

  const status done = run(*ep);
  if (is_failure(done)) std::fprintf(stderr, "tutorial_one_sided: %s\n", describe(done));
  return is_failure(done) ? 1 : 0;
}
