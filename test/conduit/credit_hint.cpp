// Job program: with the fewest credits at start, rank 1 names rank 0 beforehand and its first burst
// waits for nothing; rank 2 does not, and its burst goes by rendezvous.
#include <vector>

#include "lib/base/clock.hpp"
#include "penstock/counters.hpp"
#include "penstock/penstock.hpp"
#include "test/conduit/credit_access.hpp"
#include "test/conduit/job_check.hpp"

using namespace penstock;

namespace {
std::uint64_t arrived = 0;
void on_medium(token&, std::span<std::byte>, std::uint32_t) { ++arrived; }

// Mediums to rank 0 that waited for credits or went by rendezvous.
std::uint64_t short_of_credits(endpoint& ep) {
  for (const peer_counters& p : ep.counters().peers)
    if (p.rank == 0) return p.stalls + p.rendezvous;
  return 0;
}
}  // namespace

int main() {
  auto w = world::join();
  JOB_CHECK(w);
  JOB_CHECK(w->size() == 3);
  auto opened = endpoint::open(
      *w, {{"CRED_PER_NODE", "4"}, {"BANKED_CREDITS", "300"}, {"LENDER_LIMIT", "150"}});
  if (!opened) fatal(3, "%s", opened.error().message().c_str());
  endpoint ep = std::move(*opened);
  const auto medium = ep.add<&on_medium>();
  JOB_CHECK(ep.expect(0, 1, 1) == status::shut_down);
  if (auto r = ep.start(); !r) fatal(3, "%s", r.error().message().c_str());
  JOB_CHECK(ep.barrier() == status::ok);

  constexpr std::uint32_t burst = 5;
  const std::vector<std::byte> payload(4032);  // the largest that pays for its bytes
  auto& ledger = conduit::test_access::ledger(ep.internals());
  JOB_CHECK(ep.expect(ep.size(), 1, 1) == status::bad_rank);
  JOB_CHECK(ep.expect(0, 1, ep.max_medium() + 1) == status::too_long);
  if (ep.rank() == 1) {
    // The second hint comes while the first one's WANT is in flight, and counts all the same. It
    // names one message more than is sent: the barrier's own may still be on its way.
    JOB_CHECK(ep.expect(0, 1, payload.size()) == status::ok);
    JOB_CHECK(ep.expect(0, burst + 1, payload.size()) == status::ok);
    // By queue pairs the hint also connects the lanes that the messages may take; one that is sent
    // before may be offered by the lane that is there.
    JOB_CHECK(ep.wait_until([&] {
      using conduit::test_access;
      return ledger.send_credits(0) >= (burst + 1) * 16 &&
             (test_access::by_rings(ep.internals(), 0) ||
              (test_access::lane_is_ready(ep.internals(), 0, conduit::lane_request) &&
               test_access::lane_is_ready(ep.internals(), 0, conduit::lane_bulk)));
    }) == status::ok);
  }
  const std::uint64_t before = short_of_credits(ep);
  if (ep.rank() != 0)
    for (std::uint32_t i = 0; i < burst; ++i)
      JOB_CHECK(ep.request_medium(0, medium, payload, i) == status::ok);
  const std::uint64_t lacked = short_of_credits(ep) - before;
  if (ep.rank() == 0) JOB_CHECK(ep.wait_until([] { return arrived == 2 * burst; }) == status::ok);
  JOB_CHECK(ep.barrier() == status::ok);
  if (ep.rank() == 1) JOB_CHECK(lacked == 0);
  if (ep.rank() == 2) JOB_CHECK(lacked > 0);
  if (ep.rank() == 0) JOB_CHECK(ep.statistics().credits_lent >= 2 * 13);
  return 0;
}
