// Job program: several threads in every process send to a favourite that changes, with few credits
// and short epochs, so that credits are lent and taken back all the time. In the end every credit
// is in its place: what each rank has lent to each other is what that one holds, and together with
// the bank it is the total of the start.
//   credit_conserved MESSAGES THREADS
#include <atomic>
#include <cstdlib>
#include <thread>
#include <vector>

#include "penstock/penstock.hpp"
#include "test/conduit/credit_access.hpp"
#include "test/conduit/job_check.hpp"

using namespace penstock;

namespace {

struct party {
  std::atomic<std::uint64_t> handled{0}, answers{0};
  short_handler<std::uint32_t> answer;
  void on_request(token& t, std::uint32_t i) {
    handled.fetch_add(1, std::memory_order_relaxed);
    if (i % 3 == 0) JOB_CHECK(t.reply_short(answer, i) == status::ok);
  }
  void on_medium(token& t, std::span<std::byte> payload, std::uint32_t i) {
    JOB_CHECK(test::holds(payload, i));
    on_request(t, i);
  }
  void on_answer(token&, std::uint32_t) { answers.fetch_add(1, std::memory_order_relaxed); }
};

/// What a process says of its credits, by peer.
struct account {
  std::uint32_t loan = 0, held = 0, in_use = 0, waiting = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const auto messages = static_cast<std::uint32_t>(argc > 1 ? std::atoi(argv[1]) : 20000);
  const unsigned threads = argc > 2 ? static_cast<unsigned>(std::atoi(argv[2])) : 1;
  auto w = world::join();
  JOB_CHECK(w);
  party me;
  endpoint ep = test::open_endpoint(*w);
  const auto on_short = ep.add<&party::on_request>(&me);
  const auto on_medium = ep.add<&party::on_medium>(&me);
  me.answer = ep.add<&party::on_answer>(&me);
  if (auto r = ep.start(); !r) fatal(3, "%s", r.error().message().c_str());
  const rank_id n = ep.size();
  JOB_CHECK(ep.barrier() == status::ok);

  std::atomic<unsigned> working{threads};
  const auto work = [&](unsigned id) {
    std::uint64_t x = 88172645463325252ull + ep.rank() * 977 + id * 131071;
    std::vector<std::byte> payload(4032);  // what is larger costs one credit
    for (std::uint32_t i = 0; i < messages; ++i) {
      x ^= x << 13, x ^= x >> 7, x ^= x << 17;
      // Three of four go to the favourite of the moment.
      const rank_id favourite = (ep.rank() + 1 + i / 500 % (n - 1)) % n;
      const auto any = static_cast<rank_id>((ep.rank() + 1 + (x >> 8) % (n - 1)) % n);
      const rank_id to = (x & 3) != 0 ? favourite : any;
      status s = status::ok;
      if ((x >> 4 & 3) != 0) {
        s = ep.request_short(to, on_short, i);
      } else {
        const auto part = std::span(payload).first((x >> 20) % (payload.size() + 1));
        test::fill(part, i);
        s = ep.request_medium(to, on_medium, part, i);
      }
      JOB_CHECK(s == status::ok);
    }
    working.fetch_sub(1, std::memory_order_release);
  };
  std::vector<std::jthread> others;
  for (unsigned t = 1; t < threads; ++t) others.emplace_back(work, t);
  work(0);
  // Polls on: the other threads, and other processes, may wait for what it handles.
  JOB_CHECK(ep.wait_until([&] { return working.load(std::memory_order_acquire) == 0; }) ==
            status::ok);
  others.clear();

  // Until the last message of credits has come, accounts may differ; it does not take long.
  auto& engine = ep.internals();
  auto& ledger = conduit::test_access::ledger(engine);
  bool settled = false;
  for (int round = 0; round < 300 && !settled; ++round) {
    for (int i = 0; i < 300; ++i) (void)ep.poll();
    conduit::test_access::give_back_leases(engine);
    JOB_CHECK(ep.barrier() == status::ok);
    conduit::test_access::give_back_leases(engine);
    std::vector<account> mine(n);
    std::uint64_t mine_in_all = ledger.bank();
    for (rank_id p = 0; p < n; ++p) {
      if (p == ep.rank()) continue;
      const auto f = ledger.figures(p);
      mine[p] = {f.loan, f.send, f.in_use, f.waiting ? 1u : 0u};
      mine_in_all += f.loan;
    }
    auto all = w->exchange(std::as_bytes(std::span(mine)));
    JOB_CHECK(all);
    JOB_CHECK(ledger.settings().flow_control);
    settled = mine_in_all == ledger.settings().total_credits();
    const auto said = [&](rank_id of, rank_id by) {
      account a;
      std::memcpy(&a, (*all)[by].data() + of * sizeof a, sizeof a);
      return a;
    };
    for (rank_id p = 0; p < n; ++p)
      for (rank_id q = 0; q < n; ++q)
        if (p != q)
          settled = settled && said(q, p).loan == said(p, q).held && said(q, p).waiting == 0;
    // All agree on going on, since all have seen the same but for their own sum.
    const std::uint8_t vote = settled ? 1 : 0;
    auto votes = w->exchange(std::as_bytes(std::span(&vote, 1)));
    JOB_CHECK(votes);
    for (const auto& v : *votes) settled = settled && v[0] == std::byte{1};
  }
  JOB_CHECK(settled);
  const auto s = ep.statistics();
  JOB_CHECK(s.credits_lent > 0);
  JOB_CHECK(s.credits_revoked > 0);
  JOB_CHECK(s.credit_epochs > 10);
  JOB_CHECK(ep.barrier() == status::ok);
  return 0;
}
