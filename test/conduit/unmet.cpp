// Job program: credits make no connection that no message needs. Some ranks send bursts to rank 0,
// which lends more than its bank has, while the others are idle: rank 0 connects to none of these.
// Then the others send to rank 0, too, which lends them less than their start loan by now: every
// message is answered, and in the end each credit of rank 0 is in its place.
//   unmet SENDERS
#include <bit>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "penstock/penstock.hpp"
#include "test/conduit/credit_access.hpp"
#include "test/conduit/job_check.hpp"

using namespace penstock;

namespace {

struct party {
  short_handler<> answer;
  unsigned handled = 0, answers = 0;
  void on_short(token& t) {
    ++handled;
    JOB_CHECK(t.reply_short(answer) == status::ok);
  }
  void on_medium(token& t, std::span<std::byte> payload, std::uint32_t seed) {
    JOB_CHECK(test::holds(payload, seed));
    on_short(t);
  }
  void on_answer(token&) { ++answers; }
};

}  // namespace

int main(int argc, char** argv) {
  const unsigned senders = argc > 1 ? static_cast<unsigned>(std::atoi(argv[1])) : 4;
  constexpr unsigned bursts = 10, burst = 300, mediums = 20;
  auto w = world::join();
  JOB_CHECK(w);
  party me;
  endpoint ep = test::open_endpoint(*w);
  const auto on_short = ep.add<&party::on_short>(&me);
  const auto on_medium = ep.add<&party::on_medium>(&me);
  me.answer = ep.add<&party::on_answer>(&me);
  if (auto r = ep.start(); !r) fatal(3, "%s", r.error().message().c_str());
  const rank_id n = ep.size();
  auto& engine = ep.internals();
  auto& ledger = conduit::test_access::ledger(engine);
  const bool lends = ep.rank() == 0;
  JOB_CHECK(ep.barrier() == status::ok);

  // Partners of barriers are connected, or will be.
  const auto met = [n](rank_id r) { return std::has_single_bit(r) || std::has_single_bit(n - r); };
  if (ep.rank() >= 1 && ep.rank() <= senders)
    for (unsigned b = 1; b <= bursts; ++b) {
      for (unsigned i = 0; i < burst; ++i) JOB_CHECK(ep.request_short(0, on_short) == status::ok);
      JOB_CHECK(ep.wait_until([&] { return me.answers == b * burst; }) == status::ok);
    }
  if (lends)
    JOB_CHECK(ep.wait_until([&] { return me.handled == senders * bursts * burst; }) == status::ok);
  if (lends) {
    JOB_CHECK(ep.statistics().credits_revoked > 0);
    unsigned lowered = 0;
    for (rank_id r = senders + 1; r < n; ++r) {
      JOB_CHECK(met(r) || !conduit::test_access::lane_is_ready(engine, r, 0));
      if (!met(r) && ledger.loan(r) == credit::min_credits) ++lowered;
    }
    JOB_CHECK(lowered > 0);
  }
  JOB_CHECK(w->exchange({}));  // the others send from here on

  if (ep.rank() > senders) {
    std::vector<std::byte> payload(4032);
    const unsigned all = burst + mediums;
    for (unsigned i = 0; i < burst; ++i) JOB_CHECK(ep.request_short(0, on_short) == status::ok);
    for (unsigned i = 0; i < mediums; ++i) {
      test::fill(payload, i);
      JOB_CHECK(ep.request_medium(0, on_medium, payload, i) == status::ok);
    }
    JOB_CHECK(ep.wait_until([&] { return me.answers == all; }) == status::ok);
  }
  if (lends)
    JOB_CHECK(ep.wait_until([&] {
      return me.handled == senders * bursts * burst + (n - 1 - senders) * (burst + mediums);
    }) == status::ok);

  JOB_CHECK(ep.barrier() == status::ok);  // until then all answer REVOKEs

  // What rank 0 has lent is what the others hold; the last messages of credits may be under way.
  bool settled = false;
  for (int round = 0; round < 300 && !settled; ++round) {
    for (int i = 0; i < 300; ++i) (void)ep.poll();
    conduit::test_access::give_back_leases(engine);
    const std::uint32_t mine = lends ? ledger.bank() : ledger.send_credits(0);
    auto all = w->exchange(std::as_bytes(std::span(&mine, 1)));
    JOB_CHECK(all);
    settled = true;
    std::uint32_t total = 0;
    for (rank_id r = 0; r < n; ++r) {
      std::uint32_t held;
      std::memcpy(&held, (*all)[r].data(), sizeof held);
      total += held;
      if (lends && r != 0) settled = settled && held == ledger.loan(r);
    }
    settled = settled && total == ledger.settings().total_credits();
    const std::uint8_t vote = settled ? 1 : 0;
    auto votes = w->exchange(std::as_bytes(std::span(&vote, 1)));
    JOB_CHECK(votes);
    for (const auto& v : *votes) settled = settled && v[0] == std::byte{1};
  }
  JOB_CHECK(settled);
  JOB_CHECK(ep.barrier() == status::ok);
  return 0;
}
