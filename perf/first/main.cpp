// first: how long the first messages to a peer take, beside later ones.
//
//   penrun -n 3 first [ENDPOINTS [SHORTS]]
//
// The last rank is the peer, and rank 0 the requester. Each endpoint begins anew. Rank 0 sends
// Mediums to rank 1, and rank 1 to the last rank, so that the memory which all peers of a process
// share is in use. Then rank 0 connects to the last rank by a Short, sends it SHORTS more (50), and
// then Mediums of 4,032 bytes, each answered by a Short and waited for. Ranks that take no part
// sleep. Rank 0 has a core to itself. Printed are medians over all endpoints: of the first Short,
// of a later one, of the first Medium, of the slowest of the 15 after it, and of a later
// one.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <vector>

#include "lib/base/clock.hpp"
#include "lib/base/log.hpp"
#include "penstock/penstock.hpp"
#include "perf/penperf/launch.hpp"
#include "perf/penperf/or_die.hpp"
#include "perf/statistics.hpp"

namespace {

using namespace penstock;
using penstock::penperf::or_die;

constexpr std::size_t payload = 4032;
constexpr unsigned mediums = 200, early = 16;

void must(bool good, const char* what) {
  if (!good) fatal(1, "%s failed", what);
}

class side {
 public:
  explicit side(world& w)
      : ep_(or_die(endpoint::open(w))),
        ping_(ep_.add<&side::on_ping>(this)),
        in_(ep_.add<&side::on_in>(this)),
        back_(ep_.add<&side::on_back>(this)),
        data_(payload) {
    if (const auto started = ep_.start(); !started)
      fatal(1, "%s", started.error().message().c_str());
    must(ep_.barrier() == status::ok, "barrier");
  }

  /// Nanoseconds of each of n round trips to rank `to`.
  std::vector<std::uint64_t> trips(rank_id to, unsigned n, bool medium) {
    std::vector<std::uint64_t> all(n);
    for (std::uint64_t& one : all) {
      const unsigned before = answers_;
      const std::uint64_t start = now_ns();
      must((medium ? ep_.request_medium(to, in_, std::span<const std::byte>(data_))
                   : ep_.request_short(to, ping_)) == status::ok,
           "a request");
      must(ep_.wait_until([&] { return answers_ != before; }) == status::ok, "a wait");
      one = now_ns() - start;
    }
    return all;
  }
  /// Polls until that many requests have come since the last call.
  void serve(unsigned n) {
    must(ep_.wait_until([&] { return got_ >= n; }) == status::ok, "a wait");
    got_ -= n;
  }
  endpoint& at() { return ep_; }

 private:
  void on_ping(token& t) { answer(t); }
  void on_in(token& t, std::span<std::byte>) { answer(t); }
  void on_back(token&) { ++answers_; }
  void answer(token& t) {
    ++got_;
    must(t.reply_short(back_) == status::ok, "a reply");
  }

  endpoint ep_;
  short_handler<> ping_;
  payload_handler<> in_;
  short_handler<> back_;
  std::vector<std::byte> data_;
  unsigned answers_ = 0, got_ = 0;
};

struct figures {
  std::vector<std::uint64_t> first_short, later_short, first_medium, slowest, later_medium;
};

// One endpoint on all ranks; rank 0 notes what it measures.
void one_endpoint(world& w, unsigned shorts, figures& f) {
  side s(w);
  const rank_id last = w.size() - 1;
  const auto pass = [&](rank_id from, rank_id to, auto&& send) {
    (void)or_die(w.exchange({}));  // sleeps, so that no process polls beside the two
    if (w.rank() == from) send();
    if (w.rank() == to) s.serve(1 + shorts + mediums);
  };
  const auto all = [&](rank_id to) {
    const auto first = s.trips(to, 1, false);
    auto more = s.trips(to, shorts, false);
    auto sent = s.trips(to, mediums, true);
    if (to != last || w.rank() != 0) return;
    f.first_short.push_back(first[0]);
    f.later_short.push_back(perf::median(std::span(more).subspan(shorts / 2)));
    f.first_medium.push_back(sent[0]);
    f.slowest.push_back(*std::max_element(sent.begin() + 1, sent.begin() + early));
    f.later_medium.push_back(perf::median(std::span(sent).subspan(mediums / 2)));
  };
  if (last > 1) {
    pass(0, 1, [&] { all(1); });
    pass(1, last, [&] { all(last); });
  }
  pass(0, last, [&] { all(last); });
  (void)or_die(w.exchange({}));
  must(s.at().barrier() == status::ok, "the last barrier");
}

}  // namespace

int main(int argc, char** argv) {
  const int endpoints = argc > 1 ? std::max(std::atoi(argv[1]), 1) : 20;
  const auto shorts = static_cast<unsigned>(argc > 2 ? std::max(std::atoi(argv[2]), 1) : 50);
  world w = or_die(world::join());
  if (w.size() < 2) fatal(2, "first needs two processes or more: start it with penrun -n 3");
  penperf::pin_to_core(w.rank() == 0 ? 0 : 1);
  figures f;
  for (int i = 0; i < endpoints; ++i) one_endpoint(w, shorts, f);
  if (w.rank() != 0) return 0;
  const auto us = [](std::vector<std::uint64_t>& v) {
    return static_cast<double>(perf::median(v)) * 1e-3;
  };
  const double first = us(f.first_medium), later = us(f.later_medium);
  std::printf(
      "%u processes, us: first Short %.2f, later %.2f; first Medium %.2f, slowest of the next %u "
      "%.2f, later %.2f: ratio %.2f\n",
      w.size(), us(f.first_short), us(f.later_short), first, early - 1, us(f.slowest), later,
      first / later);
  return 0;
}
