// Job program: Mediums that are short of credits go by rendezvous.
//   offers THREADS    with small loans: a sender goes on though its peer does not poll; loans grow;
//                     more offers than there are buffers harm no other rank (5 processes or more);
//                     messages of all sizes from all to all, by so many threads, every byte checked
//   offers most       the same with so small a bank that loans cannot grow much
//   offers bounded THREADS   messages of all sizes from all to all, where loans are hardly larger
//   than the
//                     largest message costs: all arrive, and no loan exceeds its bound
//   offers silent     rank 1 has borrowed all that rank 0 can lend, and polls no more: Longs of
//                     rank 2 to rank 0, and what it writes in place, go all the same
//   offers unneeded   with the largest loans none goes by rendezvous
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <vector>

#include "lib/base/limits.hpp"
#include "lib/conduit/engine.hpp"
#include "penstock/counters.hpp"
#include "penstock/penstock.hpp"
#include "penstock/reserve.hpp"
#include "test/conduit/credit_access.hpp"
#include "test/conduit/job_check.hpp"

using namespace penstock;

namespace {

constexpr std::size_t largest = limits::max_eager;

struct party {
  std::atomic<std::uint64_t> handled{0}, answers{0};
  payload_handler<std::uint32_t> request;
  short_handler<> answer;

  void on_request(token& t, std::span<std::byte> p, std::uint32_t seed) {
    JOB_CHECK(test::holds(p, seed));
    if (seed % 2 == 1) JOB_CHECK(t.reply_short(answer) == status::ok);
    handled.fetch_add(1, std::memory_order_release);
  }
  void on_answer(token&) { answers.fetch_add(1, std::memory_order_release); }
};

void send(endpoint& ep, party& me, rank_id to, std::size_t bytes, std::uint32_t seed) {
  std::vector<std::byte> payload(bytes);
  test::fill(payload, seed);
  JOB_CHECK(ep.request_medium(to, me.request, std::span<const std::byte>(payload), seed) ==
            status::ok);
}

void wait_for(endpoint& ep, const std::atomic<std::uint64_t>& n, std::uint64_t all) {
  JOB_CHECK(ep.wait_until([&] { return n.load(std::memory_order_acquire) >= all; }) == status::ok);
}

std::uint64_t by_rendezvous(endpoint& ep, rank_id to) {
  for (const peer_counters& p : ep.counters().peers)
    if (p.rank == to) return p.rendezvous;
  return 0;
}

// All ranks meet by the launcher, which does not poll.
void meet(world& w) { JOB_CHECK(w.exchange({})); }

// Rank 0 sends more than its loan pays for, or than rank 1's space has room for, and rank 1 does
// not poll meanwhile.
void to_who_computes(world& w, endpoint& ep, party& me) {
  constexpr std::uint32_t messages = 8;
  const std::uint64_t before = me.handled.load();
  const std::uint64_t offered = ep.rank() == 0 ? by_rendezvous(ep, 1) : 0;
  meet(w);
  if (ep.rank() == 0)
    for (std::uint32_t i = 0; i < messages; ++i) send(ep, me, 1, largest, 2 * i);
  meet(w);
  if (ep.rank() == 0) {
    const std::uint32_t placed =
        conduit::test_access::placed_at_once(ep.internals(), 1, largest, 1);
    JOB_CHECK(placed < messages);
    JOB_CHECK(by_rendezvous(ep, 1) == offered + messages - placed);
  }
  if (ep.rank() == 1) wait_for(ep, me.handled, before + messages);
  JOB_CHECK(ep.barrier() == status::ok);
}

// Rank 0 makes as many offers to ranks that do not poll as it can; the last rank still gets its
// messages, by the buffers that are left and by credits that come back.
void beside_who_computes(world& w, endpoint& ep, party& me) {
  const rank_id last = ep.size() - 1;
  constexpr std::uint32_t messages = 8;
  const std::uint64_t before = me.handled.load();
  std::vector<std::byte> payload(largest);
  const std::uint32_t seed = 0;
  test::fill(payload, seed);
  meet(w);
  std::uint32_t sent = 0;  // no more than there are buffers, at loans that pay for none
  if (ep.rank() == 0) {
    const auto m = conduit::medium_of(me.request.index, &seed, 1, payload.data(), largest);
    for (unsigned in_vain = 0; in_vain < 1000; ++in_vain) {
      for (rank_id r = 1; r < last; ++r)
        if (ep.internals().try_request(r, m) == status::ok) ++sent, in_vain = 0;
      (void)ep.poll();
    }
    for (std::uint32_t i = 0; i < messages; ++i) send(ep, me, last, largest, seed);
  }
  if (ep.rank() == last) wait_for(ep, me.handled, before + messages);
  meet(w);
  JOB_CHECK(ep.barrier() == status::ok);
}

// A stream to a rank that polls asks for a loan, and goes by it once the lane of full-size messages
// is made: a thread that needs a core makes it, so the first rounds may be over before.
void stream(endpoint& ep, party& me, bool may_grow) {
  constexpr std::uint32_t rounds = 20, messages = 500;
  const std::uint64_t before = me.handled.load();
  JOB_CHECK(ep.barrier() == status::ok);
  std::uint64_t fewest = messages;
  for (std::uint32_t round = 1; round <= rounds; ++round) {
    if (ep.rank() == 0) {
      const std::uint64_t offered = by_rendezvous(ep, 1);
      for (std::uint32_t i = 0; i < messages; ++i) send(ep, me, 1, largest, 2 * i);
      fewest = std::min(fewest, by_rendezvous(ep, 1) - offered);
    } else if (ep.rank() == 1) {
      wait_for(ep, me.handled, before + std::uint64_t{round} * messages);
    }
    JOB_CHECK(ep.barrier() == status::ok);
  }
  if (ep.rank() == 0 && may_grow) JOB_CHECK(fewest <= messages / 2);
}

void all_to_all(endpoint& ep, party& me, unsigned threads) {
  constexpr std::uint32_t rounds = 600;
  const std::uint64_t before = me.handled.load();
  JOB_CHECK(ep.barrier() == status::ok);
  std::atomic<std::uint64_t> wanted{me.answers.load()};
  const auto work = [&](unsigned id) {
    for (std::uint32_t i = 0; i < rounds; ++i)
      for (rank_id r = 0; r < ep.size(); ++r) {
        const std::uint32_t seed = (i * 64 + r) * 16 + id * 2 + i % 2;
        if (seed % 2 == 1) wanted.fetch_add(1, std::memory_order_relaxed);
        send(ep, me, r, i % 5 == 0 ? largest : i * 7919u % (largest + 1), seed);
      }
  };
  std::vector<std::thread> others;
  for (unsigned id = 1; id < threads; ++id) others.emplace_back(work, id);
  work(0);
  std::atomic<bool> ended{others.empty()};
  std::thread joining([&] {
    for (auto& t : others) t.join();
    ended.store(true, std::memory_order_release);
  });
  JOB_CHECK(ep.wait_until([&] { return ended.load(std::memory_order_acquire); }) == status::ok);
  joining.join();
  wait_for(ep, me.handled, before + std::uint64_t{rounds} * threads * ep.size());
  wait_for(ep, me.answers, wanted.load());
  JOB_CHECK(ep.barrier() == status::ok);
}

// Loans come to their bound by streams and by urgent WANTs, and never above it. They are looked at
// between rounds, when all grants have come.
void bounded(endpoint& ep, party& me, unsigned threads) {
  const auto& ledger = conduit::test_access::ledger(ep.internals());
  for (int round = 0; round < 3; ++round) {
    all_to_all(ep, me, threads);
    for (rank_id r = 0; r < ep.size(); ++r)
      JOB_CHECK(ledger.loan(r) <= ledger.settings().max_per_peer);
  }
}

// As many as the loan pays for are under way all the time, and none goes by rendezvous.
void unneeded(endpoint& ep, party& me) {
  constexpr std::uint32_t messages = 3000;
  if (ep.rank() == 0)
    for (std::uint32_t i = 0; i < messages; ++i) send(ep, me, 1, largest, 2 * i);
  else
    wait_for(ep, me.handled, messages);
  if (ep.rank() == 0) JOB_CHECK(by_rendezvous(ep, 1) == 0);
}

// Small Longs travel with their payload. They and what is written in place cost more than the loan
// of rank 2, and rank 0 has nothing to add to it. The handlers are those of Mediums.
void beside_silent_borrower(world& w, endpoint& ep, party& me) {
  constexpr std::uint32_t messages = 300, more = 50;
  constexpr std::size_t bytes = 1000;
  if (ep.rank() == 1) {
    for (std::uint32_t i = 0; i < messages; ++i) send(ep, me, 0, largest, 2 * i + 1);
    wait_for(ep, me.answers, messages);
  }
  if (ep.rank() == 0) wait_for(ep, me.handled, messages);
  meet(w);
  if (ep.rank() == 0) {
    auto& lender = conduit::test_access::ledger(ep.internals());
    if (!conduit::test_access::by_rings(ep.internals(), 2))
      JOB_CHECK(lender.bank() + lender.loan(2) <
                conduit::test_access::cost(ep.internals(), 2, bytes));
    wait_for(ep, me.handled, messages + more);
  }
  if (ep.rank() == 2)
    for (std::uint32_t i = 0; i < more; ++i) {
      std::vector<std::byte> payload(bytes);
      test::fill(payload, 2 * i + 1);
      if (i % 2 == 0) {
        JOB_CHECK(ep.request_long(0, me.request, payload, ep.segment_of(0).data(), 2 * i + 1) ==
                  status::ok);
      } else {
        auto r = reserve_medium(ep, 0, me.request, bytes, bytes);
        std::ranges::copy(payload, r.payload().begin());
        JOB_CHECK(r.commit(bytes, 2 * i + 1) == status::ok);
      }
      wait_for(ep, me.answers, i + 1);
    }
  meet(w);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view what = argc > 1 ? argv[1] : "1";
  auto w = world::join();
  JOB_CHECK(w);
  party me;
  endpoint ep = test::open_endpoint(*w);
  me.request = ep.add<&party::on_request>(&me);
  me.answer = ep.add<&party::on_answer>(&me);
  if (auto r = ep.start(4096); !r) fatal(3, "%s", r.error().message().c_str());
  JOB_CHECK(ep.barrier() == status::ok);
  if (what == "unneeded") {
    unneeded(ep, me);
  } else if (what == "silent") {
    beside_silent_borrower(*w, ep, me);
  } else if (what == "bounded") {
    bounded(ep, me, argc > 2 ? static_cast<unsigned>(std::atoi(argv[2])) : 1);
  } else {
    to_who_computes(*w, ep, me);
    if (ep.size() >= 5) beside_who_computes(*w, ep, me);
    stream(ep, me, what != "most");
    all_to_all(ep, me, what == "most" ? 1 : static_cast<unsigned>(std::atoi(what.data())));
  }
  JOB_CHECK(ep.barrier() == status::ok);
  return 0;
}
