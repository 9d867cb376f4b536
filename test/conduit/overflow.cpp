// Job program of two ranks: rank 1 sends COUNT Shorts to rank 0, which does not poll for that many
// milliseconds. All of them arrive in the end. Without flow control they find no receive buffer by
// queue pairs, and rank 0 polls only when some have found none, however late that is.
//   overflow COUNT MILLISECONDS
#include <chrono>
#include <cstdlib>
#include <thread>

#include "lib/base/clock.hpp"
#include "penstock/penstock.hpp"
#include "test/conduit/job_check.hpp"
#include "test/conduit/rnr_count.hpp"

using namespace penstock;

namespace {

struct party {
  unsigned came = 0;
  void on_short(token&) { ++came; }
};

}  // namespace

int main(int argc, char** argv) {
  const auto count = static_cast<unsigned>(argc > 1 ? std::atoi(argv[1]) : 4000);
  const std::chrono::milliseconds silent(argc > 2 ? std::atoi(argv[2]) : 2500);
  auto w = world::join();
  JOB_CHECK(w);
  party me;
  endpoint ep = test::open_endpoint(*w);
  const auto on_short = ep.add<&party::on_short>(&me);
  if (auto r = ep.start(); !r) fatal(3, "%s", r.error().message().c_str());
  JOB_CHECK(ep.barrier() == status::ok);
  if (ep.rank() == 1) {
    for (unsigned i = 0; i < count; ++i) JOB_CHECK(ep.request_short(0, on_short) == status::ok);
  } else {
    const std::uint64_t until = now_ns() + 50'000'000'000;
    std::this_thread::sleep_for(silent);
    while (!ep.internals().options().flow_control && now_ns() < until &&
           test::rnr_count(ep.internals().device()) == 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    JOB_CHECK(ep.wait_until([&] { return me.came == count; }) == status::ok);
  }
  JOB_CHECK(ep.barrier() == status::ok);
  return 0;
}
