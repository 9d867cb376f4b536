// incast SECONDS: all ranks but 0 send Shorts to rank 0 as fast as they can. Rank 0 prints how many
// a second its handler has taken, once all of them send.
//   penrun -n 5 incast 0.5
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <penstock/penstock.hpp>

using namespace penstock;

namespace {

struct counting {
  short_handler<unsigned> one;
  short_handler<> stop;
  std::uint64_t taken = 0;
  bool stopped = false;

  void on_one(token&, unsigned) { ++taken; }
  void on_stop(token&) { stopped = true; }
};

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Rank 0's part: a tenth of the time to get going, then the count. Its rate; *s: a failed poll.
double count(endpoint& ep, const counting& c, double seconds, status* s) {
  const double begun = now() + seconds / 10;
  while (now() < begun && !is_failure(*s)) *s = ep.poll();
  const std::uint64_t before = c.taken;
  const double from = now();
  double to = from;
  while (to < from + seconds && !is_failure(*s)) {
    for (int i = 0; i < 64 && !is_failure(*s); ++i) *s = ep.poll();
    to = now();
  }
  return static_cast<double>(c.taken - before) / (to - from);
}

int failed(const char* what) {
  std::fprintf(stderr, "incast: %s\n", what);
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 0.2;
  result<world> job = world::join();
  if (!job) return failed(job.error().message().c_str());
  result<endpoint> ep = endpoint::open(*job);
  if (!ep) return failed(ep.error().message().c_str());
  counting c;
  c.one = ep->add<&counting::on_one>(&c);
  c.stop = ep->add<&counting::on_stop>(&c);
  if (const auto started = ep->start(); !started) return failed(started.error().message().c_str());
  status s = ep->barrier();
  if (ep->rank() == 0) {
    std::printf("figure %.0f\n", count(*ep, c, seconds, &s));
    for (rank_id r = 1; r < ep->size() && !is_failure(s); ++r) s = ep->request_short(r, c.stop);
  } else {
    for (unsigned i = 0; !c.stopped && !is_failure(s); ++i) s = ep->request_short(0, c.one, i);
  }
  if (!is_failure(s)) s = ep->barrier();
  return is_failure(s) ? failed(describe(s)) : 0;
}
