// Two processes: the time of a Short and its reply, the median of batches of a thousand, and the
// number of Shorts handled a second, one way. linked_both_ways compares both when linked with the
// archives and with the shared library.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <penstock/penstock.hpp>
#include <vector>

struct counter {
  penstock::short_handler<> pong;
  unsigned long handled = 0, answered = 0;
  void on_ping(penstock::token& t) { (void)t.reply_short(pong); }
  void on_pong(penstock::token&) { ++answered; }
  void on_one_way(penstock::token&) { ++handled; }
};

static double ns_since(std::chrono::steady_clock::time_point t) {
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - t).count();
}

int main() {
  auto job = penstock::world::join();
  if (!job) return std::fprintf(stderr, "%s\n", job.error().message().c_str()), 1;
  auto ep = penstock::endpoint::open(*job);
  if (!ep) return std::fprintf(stderr, "%s\n", ep.error().message().c_str()), 1;
  counter c;
  const auto ping = ep->add<&counter::on_ping>(&c);
  c.pong = ep->add<&counter::on_pong>(&c);
  const auto one_way = ep->add<&counter::on_one_way>(&c);
  if (const auto started = ep->start(); !started)
    return std::fprintf(stderr, "%s\n", started.error().message().c_str()), 1;
  if (ep->size() != 2) return std::fprintf(stderr, "shorts wants two processes\n"), 2;
  constexpr unsigned long batch = 1000, batches = 500, rated = 4'000'000;
  if (penstock::is_failure(ep->barrier())) return 3;
  if (ep->rank() == 0) {
    std::vector<double> trips;
    for (unsigned long b = 0; b < batches; ++b) {
      const auto begun = std::chrono::steady_clock::now();
      for (unsigned long i = 0; i < batch; ++i) {
        const unsigned long wanted = c.answered + 1;
        if (penstock::is_failure(ep->request_short(1, ping))) return 4;
        while (c.answered != wanted)
          if (penstock::is_failure(ep->poll())) return 5;
      }
      trips.push_back(ns_since(begun) / static_cast<double>(batch));
    }
    std::ranges::nth_element(trips, trips.begin() + batches / 2);
    std::printf("trip %.1f ns\n", trips[batches / 2]);
    if (penstock::is_failure(ep->barrier())) return 6;
    for (unsigned long i = 0; i < rated; ++i)
      if (penstock::is_failure(ep->request_short(1, one_way))) return 7;
  } else {
    if (penstock::is_failure(ep->barrier())) return 6;
    while (c.handled == 0)
      if (penstock::is_failure(ep->poll())) return 8;
    const auto begun = std::chrono::steady_clock::now();
    while (c.handled != rated)
      if (penstock::is_failure(ep->poll())) return 9;
    std::printf("rate %.1f million/s\n", 1e3 * static_cast<double>(rated) / ns_since(begun));
  }
  return penstock::is_failure(ep->barrier()) ? 10 : 0;
}
