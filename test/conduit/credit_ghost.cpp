// Job program: the ghost zones of perf/ghost, and the movements of their credits. After the first
// epochs no credit moves any more, and hardly any message waits for one.
//   credit_ghost CELLS STEPS EPOCHS [PERCENT]
// PERCENT: the most of what was lent that may move later; 0: none, even if none was lent at first.
// The faces are sent and taken; the stencil itself is left out. Where other programs take the cores
// away, more lies in flight for a while, and credits follow it: so the steps are run up to three
// times, and settle in one of them.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

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
using window = std::array<count, 2>;  ///< its begin and its end

count count_now(const endpoint& ep, std::uint64_t steps) {
  const endpoint_statistics s = ep.statistics();
  std::uint64_t lacked = s.credit_stalls;  // and Mediums that went by rendezvous instead of waiting
  for (const peer_counters& p : ep.counters().peers) lacked += p.rendezvous;
  return {s.credit_epochs, steps, s.requests_sent, lacked, s.credits_lent, s.credits_revoked};
}

/// What all processes have counted in a window.
struct totals {
  std::uint64_t sent = 0, stalls = 0, lent = 0, moved = 0, before = 0, steps = 0, epochs = ~0ull;

  explicit totals(const std::vector<std::vector<std::byte>>& all) {
    for (const auto& b : all) {
      window his;
      std::memcpy(&his, b.data(), sizeof his);
      sent += his[1].sent - his[0].sent;
      stalls += his[1].stalls - his[0].stalls;
      moved += his[1].lent - his[0].lent + his[1].revoked - his[0].revoked;
      lent += his[1].lent;
      before += his[0].stalls;
      steps = std::max(steps, his[0].steps);
      epochs = std::min(epochs, his[1].epochs - his[0].epochs);
    }
  }
};

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

  window mine;
  std::uint32_t step = 0;
  for (unsigned left = 3; left > 0; --left) {
    for (const std::uint32_t end = step + steps; step < end; ++step) {
      JOB_CHECK(exchange.send(step) == status::ok);
      JOB_CHECK(exchange.finish(step) == status::ok);
      if (mine[0].epochs < epochs) mine[0] = count_now(ep, step + 1);
    }
    mine[1] = count_now(ep, step);
    JOB_CHECK(ep.barrier() == status::ok);
    const auto all = w->exchange(std::as_bytes(std::span(mine)));
    JOB_CHECK(all);
    const totals t(*all);
    const auto& c = conduit::test_access::ledger(ep.internals()).settings();
    if (ep.rank() == 0)
      std::printf(
          "%u credits a peer and %u banked at start; %llu lent by the 8 together; before (%llu "
          "steps): %llu stalls; %llu epochs after: %llu credits moved, %llu of %llu messages "
          "stalled\n",
          c.credits_per_peer, c.bank, static_cast<unsigned long long>(t.lent),
          static_cast<unsigned long long>(t.steps), static_cast<unsigned long long>(t.before),
          static_cast<unsigned long long>(t.epochs), static_cast<unsigned long long>(t.moved),
          static_cast<unsigned long long>(t.stalls), static_cast<unsigned long long>(t.sent));
    std::fflush(stdout);
    JOB_CHECK(t.epochs >= epochs);  // there was an afterwards
    JOB_CHECK(percent == 0 || (t.lent > 0 && t.before > 0));
    // Default loans may be smaller than a face.
    const bool stalls_end = percent == 0 || t.stalls * 1000 < t.sent;
    if (t.moved * 100 <= t.lent * percent && stalls_end) return 0;
    mine[0] = mine[1];
  }
  std::fprintf(stderr, "the credits never settled\n");
  return 1;
}
