// Step 3 of the tutorial: several threads of each rank send at once, through one endpoint.
//   penrun -n 2 tutorial_threads
#include <atomic>
#include <cstdio>
#include <penstock/penstock.hpp>
#include <thread>
#include <vector>

using namespace penstock;

constexpr unsigned senders = 3, messages = 1000;

struct hit_counter {
  short_handler<unsigned> hit;
  std::atomic<unsigned> hits{0};  // handlers of one rank may run on several threads at once

  void on_hit(token&, unsigned /*thread*/) { hits.fetch_add(1, std::memory_order_relaxed); }
};

int main() {
  result<world> job = world::join();
  if (!job) return std::fprintf(stderr, "%s\n", job.error().message().c_str()), 1;
  result<endpoint> ep = endpoint::open(*job);
  if (!ep) return std::fprintf(stderr, "%s\n", ep.error().message().c_str()), 1;

  hit_counter t;
  t.hit = ep->add<&hit_counter::on_hit>(&t);
  if (const auto started = ep->start(); !started)
    return std::fprintf(stderr, "%s\n", started.error().message().c_str()), 1;

  const rank_id next = (ep->rank() + 1) % ep->size();
  std::atomic<unsigned> failures{0};
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < senders; ++i)
    threads.emplace_back([&, i] {
      for (unsigned m = 0; m < messages; ++m)
        if (is_failure(ep->request_short(next, t.hit, i))) failures.fetch_add(1);
    });

  // The main thread polls for all of them; each request polls too while it waits for credits.
  status s = ep->wait_until([&] { return t.hits.load() == senders * messages; });
  for (std::thread& one : threads) one.join();
  if (!is_failure(s)) s = ep->barrier();
  if (failures.load() != 0 || is_failure(s)) {
    std::fprintf(stderr, "tutorial_threads: %u requests failed; %s\n", failures.load(),
                 describe(s));
    return 1;
  }
  std::printf("rank %u: %u threads of rank %u sent %u messages\n", ep->rank(), senders,
              (ep->rank() + ep->size() - 1) % ep->size(), t.hits.load());
  return 0;
}
