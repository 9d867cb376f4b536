// Each process sends its rank to its neighbour and waits for its other neighbour's.
#include <cstdio>
#include <penstock/penstock.hpp>
#ifdef WITH_HEAP
#include <penstock/heap.hpp>
#include <vector>
#endif

struct mailbox {
  unsigned from = ~0u;
  void on_greeting(penstock::token&, unsigned rank) { from = rank; }
};

int main() {
  auto job = penstock::world::join();
  if (!job) return std::fprintf(stderr, "%s\n", job.error().message().c_str()), 1;
  auto ep = penstock::endpoint::open(*job);
  if (!ep) return std::fprintf(stderr, "%s\n", ep.error().message().c_str()), 1;
  mailbox box;
  const auto greeting = ep->add<&mailbox::on_greeting>(&box);
  if (const auto started = ep->start(); !started)
    return std::fprintf(stderr, "%s\n", started.error().message().c_str()), 1;
  const auto n = ep->size();
#ifdef WITH_HEAP
  penstock::registered_heap heap(*ep);
  const std::pmr::vector<unsigned> numbers(1000, 7u, &heap);
  if (numbers.back() != 7u) return 6;
#endif
  if (penstock::is_failure(ep->request_short((ep->rank() + 1) % n, greeting, ep->rank()))) return 2;
  if (penstock::is_failure(ep->wait_until([&box] { return box.from != ~0u; }))) return 3;
  if (penstock::is_failure(ep->barrier())) return 4;
  if (box.from != (ep->rank() + n - 1) % n) return 5;
  std::printf("greeted\n");
  return 0;
}
