// Job program: at default settings each rank in turn is the target of all others. Loans follow:
// targets lend more while they are targets, and hardly any credit moves elsewhere; no message meets
// a receive queue without a buffer.
//   hot_spot MESSAGES [MEDIUMS]
// MESSAGES of each sender in each turn, one in MEDIUMS (4) a Medium of the largest size that pays
// for its bytes; 0: none. Rank 0 prints the time, so that the rate can be compared with
// PENSTOCK_FLOW_CONTROL=0; then nothing is lent, and only the messages are checked.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "lib/base/clock.hpp"
#include "penstock/penstock.hpp"
#include "test/conduit/credit_access.hpp"
#include "test/conduit/job_check.hpp"
#include "test/conduit/rnr_count.hpp"

using namespace penstock;

namespace {

constexpr std::uint32_t medium_bytes = 4032;

std::uint64_t arrived = 0;
void on_short(token&, std::uint32_t) { ++arrived; }
void on_medium(token&, std::span<std::byte> payload, std::uint32_t i) {
  JOB_CHECK(payload.size() == medium_bytes && payload.back() == test::pattern(i, 0));
  ++arrived;
}

struct moved {
  std::uint64_t as_target = 0, elsewhere = 0;  // credits lent on demand
};
// The sums of all ranks, which call it together.
moved sum_of(world& w, const moved& mine) {
  auto all = w.exchange(std::as_bytes(std::span(&mine, 1)));
  JOB_CHECK(all);
  moved sum;
  for (const auto& blob : *all) {
    moved m;
    std::memcpy(&m, blob.data(), sizeof m);
    sum.as_target += m.as_target, sum.elsewhere += m.elsewhere;
  }
  return sum;
}

}  // namespace

int main(int argc, char** argv) {
  const auto each = static_cast<std::uint32_t>(argc > 1 ? std::atoi(argv[1]) : 400);
  const auto medium_every = static_cast<std::uint32_t>(argc > 2 ? std::atoi(argv[2]) : 4);
  auto w = world::join();
  JOB_CHECK(w);
  endpoint ep = test::open_endpoint(*w);
  const auto in_short = ep.add<&on_short>();
  const auto in_medium = ep.add<&on_medium>();
  if (auto r = ep.start(); !r) fatal(3, "%s", r.error().message().c_str());
  const rank_id me = ep.rank(), n = ep.size();
  const nic::device& device = ep.internals().device();
  const std::uint64_t rnr_before = test::rnr_count(device);
  auto& ledger = conduit::test_access::ledger(ep.internals());
  const credit::config& plan = ledger.settings();
  JOB_CHECK(plan.max_per_peer == 400);
  std::vector<std::byte> payload(medium_bytes);

  moved lent;
  const std::uint64_t start = now_ns();
  for (rank_id target = 0; target < n; ++target) {
    JOB_CHECK(ep.barrier() == status::ok);
    const std::uint64_t before = ep.statistics().credits_lent;
    if (me == target) {
      JOB_CHECK(ep.wait_until([&] { return arrived == std::uint64_t{each} * (n - 1); }) ==
                status::ok);
    } else {
      for (std::uint32_t i = 0; i < each; ++i)
        if (medium_every == 0 || i % medium_every != medium_every - 1) {
          JOB_CHECK(ep.request_short(target, in_short, i) == status::ok);
        } else {
          payload.back() = test::pattern(i, 0);
          JOB_CHECK(ep.request_medium(target, in_medium, payload, i) == status::ok);
        }
    }
    JOB_CHECK(ep.barrier() == status::ok);
    (me == target ? lent.as_target : lent.elsewhere) += ep.statistics().credits_lent - before;
  }
  const double seconds = static_cast<double>(now_ns() - start) * 1e-9;

  std::uint64_t held = ledger.bank();
  for (rank_id p = 0; p < n; ++p)
    if (p != me) {
      JOB_CHECK(ledger.loan(p) <= plan.max_per_peer);
      held += ledger.loan(p);
    }
  JOB_CHECK(held == plan.total_credits());
  const std::uint64_t rnr = test::sum_of_rnr(*w, device, test::rnr_count(device) - rnr_before);
  const moved all = sum_of(*w, lent);
  std::printf("rank %u: %u credits a peer and %u banked; lent %llu as target, %llu elsewhere\n", me,
              plan.credits_per_peer, plan.bank, static_cast<unsigned long long>(lent.as_target),
              static_cast<unsigned long long>(lent.elsewhere));
  if (me == 0)
    std::printf("%.3f s; receiver not ready: %llu\n", seconds,
                static_cast<unsigned long long>(rnr));
  std::fflush(stdout);
  JOB_CHECK(ep.barrier() == status::ok);
  if (!plan.flow_control) return 0;
  JOB_CHECK(rnr == 0);
  // A target that the scheduler lets keep up with its senders lends nothing; most of them do not.
  // Where a Medium costs one credit, the start loans may pay for all.
  if (conduit::test_access::cost(ep.internals(), me == 0 ? 1 : 0, medium_bytes) > 1)
    JOB_CHECK(all.as_target >= std::uint64_t{n} * plan.credits_per_peer);
  JOB_CHECK(all.elsewhere * 10 <= std::max<std::uint64_t>(all.as_target, plan.bank));
  JOB_CHECK(ep.barrier() == status::ok);
  return 0;
}
