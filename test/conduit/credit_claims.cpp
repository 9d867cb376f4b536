// Job program: credits of ranks that break the rules, or have gone.
//   credit_claims overdraw   rank 1 sends more than it has credits for; rank 0 names it and ends
//                            the job
//   credit_claims leave      rank 1 leaves early; its loans return to its lenders' banks
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>
#include <vector>

#include "lib/base/clock.hpp"
#include "penstock/penstock.hpp"
#include "test/conduit/credit_access.hpp"
#include "test/conduit/job_check.hpp"

using namespace penstock;

namespace {

std::uint64_t arrived = 0;
void on_short(token&, std::uint32_t) { ++arrived; }
void on_medium(token&, std::span<std::byte>, std::uint32_t) { ++arrived; }

}  // namespace

int main(int argc, char** argv) {
  const bool overdraw = argc > 1 && std::strcmp(argv[1], "overdraw") == 0;
  auto w = world::join();
  JOB_CHECK(w);
  std::optional<endpoint> ep(test::open_endpoint(*w));
  const auto in_short = ep->add<&on_short>();
  const auto in_medium = ep->add<&on_medium>();
  if (auto r = ep->start(); !r) fatal(3, "%s", r.error().message().c_str());
  const rank_id me = ep->rank(), n = ep->size();
  auto& ledger = conduit::test_access::ledger(ep->internals());
  for (rank_id p = 0; p < n; ++p)
    if (p != me) JOB_CHECK(ep->request_short(p, in_short, 1u) == status::ok);
  JOB_CHECK(ep->wait_until([&] { return arrived == n - 1; }) == status::ok);
  JOB_CHECK(ep->barrier() == status::ok);
  if (overdraw) {
    if (me == 1) {
      JOB_CHECK(ledger.on_credits(0, 0, 100, false) == status::ok);  // what nobody has lent
      const std::vector<std::byte> payload(4032);  // the largest that pays for its bytes
      // By queue pairs the first ones go by rendezvous, for one credit, while a lane is made.
      for (unsigned i = 0; i < 100; ++i) {
        JOB_CHECK(ep->request_medium(0, in_medium, payload, 1u) == status::ok);
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        (void)ep->poll();
      }
    }
    (void)ep->wait_until([&] { return arrived >= n - 1 + 100; });
    return 0;  // rank 0 has noticed nothing: the test wants its line
  }
  if (me == 1) {
    ep.reset();
    return 0;
  }
  const std::uint32_t lent = ledger.settings().credits_per_peer;
  JOB_CHECK(lent > 0);
  // By queue pairs a request that is not acknowledged shows that rank 1 has gone. A few of them
  // suffice, and many would fill the send queues.
  for (std::uint64_t next = 0; ledger.loan(1) != 0;) {
    if (const std::uint64_t now = now_ns(); now >= next) {
      next = now + 200'000'000;
      const status s = ep->request_short(1, in_short, 3u);
      JOB_CHECK(s == status::ok || s == status::peer_dead);
    }
    (void)ep->poll();
    std::this_thread::yield();
  }
  std::uint64_t all = ledger.bank();
  for (rank_id p = 0; p < n; ++p)
    if (p != me) all += ledger.loan(p);
  JOB_CHECK(all == ledger.settings().total_credits());
  JOB_CHECK(ep->statistics().credits_revoked >= lent);
  const rank_id other = me == 0 ? 2 : 0;
  JOB_CHECK(ep->request_short(other, in_short, 2u) == status::ok);
  JOB_CHECK(ep->wait_until([&] { return arrived == n; }) == status::ok);
  return 0;
}
