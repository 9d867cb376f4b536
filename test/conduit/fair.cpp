// Job program: all ranks but 0 send to rank 0 without a pause, as much as they can, and rank 0
// serves them alike: Jain's index of their rates, (Σ x)² / (n Σ x²), over any whole second.
//   fair SECONDS LEAST [spread]
// All ranks share one core, so that each gets its turns alike; on more, unless they are as many as
// ranks, the scheduler decides how often each runs (spread: they use all).
// SECONDS are measured, after one that is not; LEAST: the smallest index that is allowed. Every
// fourth message is a Medium of the largest size that pays for its bytes. Where other programs take
// turns of the core, some ranks get more of it for a while: so it is measured up to eight times,
// and the index is to be so large in one of them. Ranks that are not served alike are so in all.
#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "lib/base/clock.hpp"
#include "penstock/penstock.hpp"
#include "test/conduit/job_check.hpp"
#include "test/conduit/rnr_count.hpp"

using namespace penstock;

namespace {

constexpr std::size_t medium_bytes = 4032;
constexpr std::uint64_t tenth = 100'000'000;  // ns
constexpr std::size_t window = 10;            // tenths

std::vector<std::uint64_t> come;  // from each rank
bool over = false;
void on_short(token& t) { ++come[t.source()]; }
void on_medium(token& t, std::span<std::byte>) { ++come[t.source()]; }
void on_over(token&) { over = true; }

// Stays on the first core that this process may use.
void stay_on_one_core() {
  cpu_set_t may, one;
  JOB_CHECK(sched_getaffinity(0, sizeof may, &may) == 0);
  unsigned core = 0;
  while (!CPU_ISSET(core, &may)) ++core;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  JOB_CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
}

double jain(const std::vector<std::uint64_t>& from, const std::vector<std::uint64_t>& to) {
  double sum = 0, squares = 0;
  for (std::size_t r = 1; r < from.size(); ++r) {
    const auto x = static_cast<double>(to[r] - from[r]);
    sum += x, squares += x * x;
  }
  return squares == 0 ? 0 : sum * sum / (static_cast<double>(from.size() - 1) * squares);
}

}  // namespace

int main(int argc, char** argv) {
  const int seconds = argc > 1 ? std::atoi(argv[1]) : 3;
  const double least = argc > 2 ? std::atof(argv[2]) : 0.99;
  if (argc <= 3) stay_on_one_core();
  auto w = world::join();
  JOB_CHECK(w);
  endpoint ep = test::open_endpoint(*w);
  const auto in_short = ep.add<&on_short>();
  const auto in_medium = ep.add<&on_medium>();
  const auto stop = ep.add<&on_over>();
  if (auto r = ep.start(); !r) fatal(3, "%s", r.error().message().c_str());
  come.resize(ep.size());
  const nic::device& device = ep.internals().device();
  const std::uint64_t rnr_before = test::rnr_count(device);
  JOB_CHECK(ep.barrier() == status::ok);
  if (ep.rank() == 0) {
    std::uint64_t next = now_ns() + 10 * tenth;
    const auto tenths = static_cast<std::size_t>(seconds) * 10;
    double worst = 0;
    for (int tries = 0; tries < 8 && worst < least; ++tries) {
      std::vector<std::vector<std::uint64_t>> looks;
      JOB_CHECK(ep.wait_until([&] {
        if (now_ns() < next) return false;
        next = now_ns() + tenth;
        looks.push_back(come);
        return looks.size() > tenths;
      }) == status::ok);
      worst = 1;
      for (std::size_t i = 0; i + window < looks.size(); ++i)
        worst = std::min(worst, jain(looks[i], looks[i + window]));
      std::printf("Jain's index over any second: %.4f at least\n", worst);
      for (rank_id r = 1; r < ep.size(); ++r)
        std::printf("rank %u: %.0f messages a second\n", r,
                    static_cast<double>(looks.back()[r] - looks.front()[r]) / seconds);
      std::fflush(stdout);
    }
    for (rank_id r = 1; r < ep.size(); ++r) JOB_CHECK(ep.request_short(r, stop) == status::ok);
    JOB_CHECK(worst >= least);
  }
  const std::vector<std::byte> payload(medium_bytes);
  for (std::uint32_t i = 0; ep.rank() != 0 && !over; ++i)
    JOB_CHECK((i % 4 != 3 ? ep.request_short(0, in_short)
                          : ep.request_medium(0, in_medium, payload)) == status::ok);
  JOB_CHECK(ep.barrier() == status::ok);
  JOB_CHECK(test::rnr_count(device) == rnr_before);
  JOB_CHECK(ep.barrier() == status::ok);
  return 0;
}
