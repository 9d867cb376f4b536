// Job program: the ghost zones of perf/ghost, and the movements of their credits. After the first
// epochs no credit moves any more, and hardly any message waits for one.
//   credit_ghost CELLS STEPS EPOCHS [PERCENT]
// PERCENT: the most of what was lent that may move later; 0: none, even if none was lent at first.
// The faces are sent and taken; the stencil itself is left out.
#include <array>
#include <cstdio>
#include <cstdlib>

#include "penstock/counters.hpp"
#include "penstock/penstock.hpp"
#include "perf/ghost/exchange.hpp"
#include "test/conduit/credit_access.hpp"
#include "test/conduit/job_check.hpp"

using namespace penstock;

namespace {

/// What a process has counted up to a moment.
struct count {
  std::uint64_t epochs = 0, steps = 0, sent = 0, stalls = 0, lent = 0, revoked = 0;
};

count count_now(const endpoint& ep, std::uint64_t steps) {
  const endpoint_statistics s = ep.statistics();
  std::uint64_t lacked = s.credit_stalls;  // and Mediums that went by rendezvous instead of waiting
  for (const peer_counters& p : ep.counters().peers) lacked += p.rendezvous;
  return {s.credit_epochs, steps, s.requests_sent, lacked, s.credits_lent, s.credits_revoked};
}

}  // namespace

int main(int argc, char** argv) {
  const auto cells = static_cast<std::uint32_t>(argc > 1 ? std::atoi(argv[1]) : 48);
  const auto steps = static_cast<std::uint32_t>(argc > 2 ? std::atoi(argv[2]) : 300);
  const auto epochs = static_cast<std::uint64_t>(argc > 3 ? std::atoi(argv[3]) : 20);
  const auto percent = static_cast<std::uint64_t>(argc > 4 ? std::atoi(argv[4]) : 2);
  auto w = world::join();
  JOB_CHECK(w);
  endpoint ep = test::open_endpoint(*w);
  const ghost::decomposition cut(ep.size(), cells);
  ghost::field field(cut.box_of(ep.rank()), cells);
  constexpr std::size_t piece = 4032;  // so that a face is several messages, as many credits
  ghost::exchange exchange(ep, cut, field, piece);
  if (auto r = ep.start(); !r) fatal(3, "%s", r.error().message().c_str());
  JOB_CHECK(ep.barrier() == status::ok);

  count at_first;
  for (std::uint32_t step = 0; step < steps; ++step) {
    JOB_CHECK(exchange.send(step) == status::ok);
    JOB_CHECK(exchange.finish(step) == status::ok);
    if (at_first.epochs < epochs) at_first = count_now(ep, step + 1);
  }
  const count at_end = count_now(ep, steps);
  JOB_CHECK(ep.barrier() == status::ok);

  const std::array<count, 2> mine{at_first, at_end};
  auto all = w->exchange(std::as_bytes(std::span(mine)));
  JOB_CHECK(all);
  if (ep.rank() != 0) return 0;
  std::uint64_t sent = 0, stalls = 0, lent = 0, moved_late = 0, first_stalls = 0, last = 0;
  std::uint64_t least_epochs = ~0ull;
  for (const auto& blob : *all) {
    std::array<count, 2> his;
    std::memcpy(&his, blob.data(), sizeof his);
    sent += his[1].sent - his[0].sent;
    stalls += his[1].stalls - his[0].stalls;
    moved_late += his[1].lent - his[0].lent + his[1].revoked - his[0].revoked;
    lent += his[1].lent;
    first_stalls += his[0].stalls;
    last = std::max(last, his[0].steps);
    least_epochs = std::min(least_epochs, his[1].epochs - his[0].epochs);
  }
  const auto& c = conduit::test_access::ledger(ep.internals()).settings();
  std::printf(
      "%u credits a peer and %u banked at start; %llu lent by the 8 together; first %llu epochs "
      "(%llu steps): %llu stalls; %llu epochs after: %llu credits moved, %llu of %llu messages "
      "stalled\n",
      c.credits_per_peer, c.bank, static_cast<unsigned long long>(lent),
      static_cast<unsigned long long>(epochs), static_cast<unsigned long long>(last),
      static_cast<unsigned long long>(first_stalls), static_cast<unsigned long long>(least_epochs),
      static_cast<unsigned long long>(moved_late), static_cast<unsigned long long>(stalls),
      static_cast<unsigned long long>(sent));
  std::fflush(stdout);
  JOB_CHECK(least_epochs >= epochs);  // there was an afterwards
  JOB_CHECK(percent == 0 || (lent > 0 && first_stalls > 0));
  // None, but for a rare burst where processes outnumber cores.
  JOB_CHECK(moved_late * 100 <= lent * percent);
  JOB_CHECK(percent == 0 || stalls * 1000 < sent);  // default loans may be smaller than a face
  return 0;
}
