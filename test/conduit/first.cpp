// Job program: what the first Medium to a peer finds, after a few Shorts. By rings its pages are
// there at both ends, so that it takes no page fault. By queue pairs it waits for no connection:
// its lane is there, or it goes by rendezvous.
//   first lane | rendezvous [faults]    which of the two, by queue pairs; faults: counts them
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "penstock/counters.hpp"
#include "penstock/penstock.hpp"
#include "test/conduit/credit_access.hpp"
#include "test/conduit/job_check.hpp"

using namespace penstock;

namespace {

// Page faults of this thread so far.
long faults() {
  rusage u{};
  JOB_CHECK(::getrusage(RUSAGE_THREAD, &u) == 0);
  return u.ru_minflt;
}

struct party {
  unsigned got = 0, answers = 0;
  short_handler<> ping, back;
  payload_handler<std::uint32_t> in;

  void on_ping(token& t) { JOB_CHECK((++got, t.reply_short(back)) == status::ok); }
  void on_in(token& t, std::span<std::byte> p, std::uint32_t seed) {
    JOB_CHECK(test::holds(p, seed));
    JOB_CHECK((++got, t.reply_short(back)) == status::ok);
  }
  void on_back(token&) { ++answers; }
};

// What rank 0, or the last rank, saw of the first Medium.
struct sight {
  long faults = 0;
  bool by_rings = false, lane = false, rendezvous = false;
};

// Rank `from` sends Shorts and a Medium to rank `to`.
sight first_medium(endpoint& ep, party& me, rank_id from, rank_id to) {
  constexpr unsigned shorts = 3;
  static std::vector<std::byte> payload(4032);
  const std::uint32_t seed = from * 16 + to;
  test::fill(payload, seed);
  sight s;
  const auto until = [&](unsigned& n, unsigned all) {
    JOB_CHECK(ep.wait_until([&] { return n >= all; }) == status::ok);
  };
  if (ep.rank() == from) {
    for (unsigned i = 0; i < shorts; ++i) {
      JOB_CHECK(ep.request_short(to, me.ping) == status::ok);
      until(me.answers, i + 1);
    }
    s.lane = conduit::test_access::lane_is_ready(ep.internals(), to, conduit::lane_bulk) ||
             conduit::test_access::placed_at_once(ep.internals(), to, payload.size(), 1) != 0;
    s.by_rings = conduit::test_access::by_rings(ep.internals(), to);
    const long before = faults();
    JOB_CHECK(ep.request_medium(to, me.in, std::span<const std::byte>(payload), seed) ==
              status::ok);
    until(me.answers, shorts + 1);
    s.faults = faults() - before;
    for (const peer_counters& p : ep.counters().peers)
      if (p.rank == to) s.rendezvous = p.rendezvous != 0;
    me.answers = 0;
  } else if (ep.rank() == to) {
    until(me.got, shorts);
    const long before = faults();
    until(me.got, shorts + 1);
    s.faults = faults() - before;
    s.by_rings = conduit::test_access::by_rings(ep.internals(), from);
    me.got = 0;
  }
  return s;
}

}  // namespace

int main(int argc, char** argv) {
  const bool wants_lane = argc > 1 && std::string_view(argv[1]) == "lane";
  const bool counts = argc > 2;
  auto w = world::join();
  JOB_CHECK(w);
  long fewest = 1000;
  bool rings = false;
  // A fault may have another cause now and then, so the best of several counts.
  for (int i = 0; i < 8; ++i) {
    party me;
    endpoint ep = test::open_endpoint(*w);
    me.ping = ep.add<&party::on_ping>(&me);
    me.back = ep.add<&party::on_back>(&me);
    me.in = ep.add<&party::on_in>(&me);
    if (auto r = ep.start(); !r) fatal(3, "%s", r.error().message().c_str());
    const rank_id last = ep.size() - 1;
    // Before that the two have sent and received Mediums, so that what all peers share is there.
    // Who takes no part does not poll.
    for (const auto& [from, to] : {std::pair{0u, 1u}, {1u, last}, {0u, last}}) {
      JOB_CHECK(w->exchange({}));
      const sight s = first_medium(ep, me, from, to);
      if (from != 0 || to != last || (ep.rank() != 0 && ep.rank() != last)) continue;
      rings = s.by_rings;
      fewest = std::min(fewest, s.faults);
      if (ep.rank() != 0 || rings) continue;
      JOB_CHECK(s.lane == wants_lane);
      JOB_CHECK(s.rendezvous == !wants_lane);
    }
    JOB_CHECK(w->exchange({}));
    JOB_CHECK(ep.barrier() == status::ok);
  }
  if (rings && counts) {
    std::printf("rank %u: %ld page faults at least\n", w->rank(), fewest);
    JOB_CHECK(fewest == 0);
  }
  return 0;
}
