// Job program: every rank but 0 sends Shorts to rank 0 without a pause until the time is over. Rank
// 0 polls once in a millisecond, so that the others wait for it. The test `watched` uses it.
//   incast SECONDS [rests]
// rests: rank 0 does not poll at all meanwhile.
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "lib/base/clock.hpp"
#include "test/conduit/job_check.hpp"

using namespace penstock;

namespace {

bool stopped = false;
void on_short(token&, std::uint32_t) {}
void on_stop(token&) { stopped = true; }

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 1;
  const bool rests = argc > 2;
  auto w = world::join();
  JOB_CHECK(w);
  endpoint ep = test::open_endpoint(*w);
  const auto flood = ep.add<&on_short>();
  const auto stop = ep.add<&on_stop>();
  if (auto r = ep.start(); !r) fatal(3, "%s", r.error().message().c_str());
  JOB_CHECK(ep.barrier() == status::ok);
  if (ep.rank() == 0) {
    const std::uint64_t until = now_ns() + static_cast<std::uint64_t>(seconds * 1e9);
    while (now_ns() < until) {
      if (!rests) JOB_CHECK(ep.poll() == status::ok);
      const timespec pause{0, 1'000'000};
      nanosleep(&pause, nullptr);
    }
    for (rank_id r = 1; r < ep.size(); ++r) JOB_CHECK(ep.request_short(r, stop) == status::ok);
  }
  for (std::uint32_t i = 0; ep.rank() != 0 && !stopped; ++i)
    JOB_CHECK(ep.request_short(0, flood, i) == status::ok);
  JOB_CHECK(ep.barrier() == status::ok);
  if (ep.rank() == 0) std::puts("over");
  return 0;
}
