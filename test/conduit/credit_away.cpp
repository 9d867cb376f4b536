// Job program: a borrower that computes, and does not poll, while its lender needs the loan back.
//   credit_away ROUNDS MS
// In each round one of the ranks 1 and 2 computes for MS, and the other sends rank 0 a Medium that
// costs more than rank 0 has lent to it and banked; so rank 0 asks for the computing rank's loan.
// The Medium goes as one for which no offer finds a buffer, since another one would go by
// rendezvous for a single credit. The time is taken from that call to its return, when WANT,
// REVOKE, RETURN and GRANT have gone. With a progress thread at the borrower that is about 1 ms,
// and before the borrower polls; the median is judged by a quarter of MS, since others may have had
// the cores. Without one it comes when the borrower polls; until then the requests that the minimum
// pays for go on: those of rank 3, and Shorts of the rank that will need more. Where other programs
// take the cores away, a rank may get none while the borrower computes: so these hold in most
// rounds of one window of up to eight. What waits for the borrower's poll holds in none.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "lib/base/clock.hpp"
#include "penstock/penstock.hpp"
#include "test/conduit/credit_access.hpp"
#include "test/conduit/job_check.hpp"

using namespace penstock;

namespace {

constexpr unsigned windows = 8;
constexpr std::size_t medium_bytes = 4032;
constexpr std::uint64_t ms = 1'000'000;
constexpr auto nap = std::chrono::milliseconds(10);

std::uint64_t mediums = 0, shorts = 0, answers = 0;
short_handler<> answer;
void on_medium(token&, std::span<std::byte>) { ++mediums; }
void on_short(token& t) {
  ++shorts;
  JOB_CHECK(t.reply_short(answer) == status::ok);
}
void on_answer(token&) { ++answers; }

// All ranks meet by the launcher, which does not poll.
void meet(world& w) { JOB_CHECK(w.exchange({})); }

}  // namespace

int main(int argc, char** argv) {
  const auto rounds = static_cast<unsigned>(argc > 1 ? std::atoi(argv[1]) : 20);
  const auto away = static_cast<std::uint64_t>(argc > 2 ? std::atoi(argv[2]) : 100) * ms;
  auto w = world::join();
  JOB_CHECK(w);
  endpoint ep = test::open_endpoint(*w);
  const bool helped = ep.internals().options().progress_thread;
  JOB_CHECK(ep.size() == (helped ? 3 : 4));
  const auto in_medium = ep.add<&on_medium>();
  const auto in_short = ep.add<&on_short>();
  answer = ep.add<&on_answer>();
  if (auto r = ep.start(); !r) fatal(3, "%s", r.error().message().c_str());
  const rank_id me = ep.rank();
  auto& ledger = conduit::test_access::ledger(ep.internals());
  const std::vector<std::byte> payload(medium_bytes);
  if (me != 0) JOB_CHECK(ep.request_medium(0, in_medium, payload) == status::ok);
  if (me == 0) JOB_CHECK(ep.wait_until([&] { return mediums == ep.size() - 1; }) == status::ok);
  JOB_CHECK(ep.barrier() == status::ok);
  mediums = 0;

  const auto ask = [&] {
    const std::uint64_t before = answers;
    JOB_CHECK(ep.request_short(0, in_short) == status::ok);
    JOB_CHECK(ep.wait_until([&] { return answers != before; }) == status::ok);
  };
  std::vector<std::uint64_t> took;  // of this window
  unsigned seen = 0, missed = 0;    // this rank's rounds in it, and those that did not show it
  const auto note = [&](bool as_it_should) { ++seen, missed += as_it_should ? 0 : 1; };
  const auto one_round = [&](unsigned round) {
    const rank_id computes = 1 + round % 2, needs = 3 - computes;
    meet(*w);
    const std::uint64_t start = now_ns();
    if (me == computes) {
      while (now_ns() - start < away) continue;
      ask();  // from here on it polls
    } else if (me == needs) {
      std::this_thread::sleep_for(nap);
      for (int i = 0; i < 5; ++i) ask();
      const std::uint64_t asked = now_ns();
      JOB_CHECK(ep.internals().request(0, {.kind = conduit::wire::kind::medium,
                                           .handler = in_medium.index,
                                           .payload = payload.data(),
                                           .bytes = medium_bytes,
                                           .last_way = true}) == status::ok);
      took.push_back(now_ns() - asked);
      note((helped ? now_ns() : asked) - start < away);
    } else if (me == 3) {
      std::uint64_t done = 0;
      for (; now_ns() - start < away; ++done) ask();
      note(done >= 5);  // a core that is shared with who computes is had in turns
    } else {
      JOB_CHECK(ep.wait_until([&] {
        return mediums == round + 1 && now_ns() - start > away + away / 8;
      }) == status::ok);
      JOB_CHECK(ledger.loan(computes) >= credit::min_credits);
    }
    // Who is done polls until rank 0 has what it waits for.
    if (me != 0) {
      std::this_thread::yield();
      JOB_CHECK(ep.wait_until([&] { return now_ns() - start > away + away / 4; }) == status::ok);
    }
  };
  bool all_good = false;
  for (unsigned window = 0; !all_good && window < windows; ++window) {
    took.clear();
    seen = missed = 0;
    for (unsigned i = 0; i < rounds; ++i) one_round(window * rounds + i);
    bool good = 2 * missed <= seen;
    if (!took.empty()) {
      std::sort(took.begin(), took.end());
      const std::uint64_t median = took[took.size() / 2];
      std::printf(
          "rank %u: a loan came from the other within %.3f ms (median), %.3f ms at most; "
          "%u of %u rounds not as they should\n",
          me, static_cast<double>(median) / ms, static_cast<double>(took.back()) / ms, missed,
          seen);
      std::fflush(stdout);
      if (helped) good = good && median <= away / 4;
    }
    const auto all = w->exchange(std::as_bytes(std::span(&good, 1)));
    JOB_CHECK(all);
    all_good = std::all_of(all->begin(), all->end(),
                           [](const auto& b) { return b.at(0) != std::byte{0}; });
  }
  JOB_CHECK(all_good);
  if (me == 0) JOB_CHECK(ep.statistics().credits_revoked >= 13 * (rounds - 1));
  JOB_CHECK(ep.barrier() == status::ok);
  return 0;
}
