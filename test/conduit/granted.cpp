// Job program of two ranks: no credit lies where nobody takes it away. Rank 1 sends two requests
// that have no answer, and each asks for seven credits, while rank 0 cannot send messages of
// credits: by rings there is no room, by queue pairs no reply chunk (with INLINE_LIMIT=0). A third
// request is answered meanwhile. Later all requests are answered. Once both ranks are at rest, rank
// 1 holds what rank 0 has lent, and every place of credit_places.hpp is empty on both.
#include <vector>

#include "penstock/penstock.hpp"
#include "test/conduit/credit_access.hpp"
#include "test/conduit/job_check.hpp"

using namespace penstock;

namespace {

constexpr unsigned asks = 2, needed = 7;

struct party {
  short_handler<> plain, call, answer;
  unsigned came = 0, calls = 0, answers = 0;
  void on_plain(token&) { ++came; }
  void on_call(token& t) {
    ++calls;
    JOB_CHECK(t.reply_short(answer) == status::ok);
  }
  void on_answer(token&) { ++answers; }
};

/// What a process says of its credits when it is at rest.
struct account {
  std::uint32_t loan = 0, held = 0, elsewhere = 0;
};

}  // namespace

int main() {
  auto w = world::join();
  JOB_CHECK(w);
  party me;
  endpoint ep = test::open_endpoint(*w);
  me.plain = ep.add<&party::on_plain>(&me);
  me.call = ep.add<&party::on_call>(&me);
  me.answer = ep.add<&party::on_answer>(&me);
  if (auto r = ep.start(); !r) fatal(3, "%s", r.error().message().c_str());
  JOB_CHECK(ep.size() == 2);
  auto& engine = ep.internals();
  const rank_id other = 1 - ep.rank();
  const bool lends = ep.rank() == 0;
  const auto polled_until = [&](auto&& so) {
    JOB_CHECK(ep.wait_until([&] { return so(); }) == status::ok);
  };
  const auto ask = [&](unsigned n) {
    for (unsigned i = 0; i < n; ++i) {
      const unsigned before = me.answers;
      JOB_CHECK(ep.request_short(other, me.call) == status::ok);
      polled_until([&] { return me.answers > before; });
    }
  };
  JOB_CHECK(ep.barrier() == status::ok);
  if (lends)
    polled_until([&] { return me.calls == 3; });
  else
    ask(3);
  JOB_CHECK(ep.barrier() == status::ok);

  conduit::test_access::credits_held_up held;
  if (lends) held.begin(engine, other);
  JOB_CHECK(w->exchange({}));
  if (lends) {
    polled_until([&] { return me.came == asks && me.calls == 4; });
    JOB_CHECK(conduit::test_access::granted(engine, other) == asks * needed);
    held.end(engine, other);
  } else {
    for (unsigned i = 0; i < asks; ++i) {
      conduit::test_access::ask_for_more(engine, other, needed);
      JOB_CHECK(ep.request_short(other, me.plain) == status::ok);
    }
    ask(1);
  }
  JOB_CHECK(w->exchange({}));

  bool at_rest = false;
  for (int round = 0; round < 300 && !at_rest; ++round) {
    if (lends)
      polled_until([&] { return me.calls == 4 + 5 * static_cast<unsigned>(round + 1); });
    else
      ask(5);
    for (int i = 0; i < 1000; ++i) (void)ep.poll();
    conduit::test_access::give_back_leases(engine);
    const auto f = conduit::test_access::ledger(engine).figures(other);
    const auto& p = conduit::test_access::places(engine, other);
    const account mine{f.loan, f.send,
                       p.due() + conduit::test_access::granted(engine, other) +
                           conduit::test_access::leased(engine, other)};
    auto all = w->exchange(std::as_bytes(std::span(&mine, 1)));
    JOB_CHECK(all);
    account said[2];
    for (unsigned r = 0; r < 2; ++r) std::memcpy(&said[r], (*all)[r].data(), sizeof said[r]);
    at_rest = true;
    for (unsigned r = 0; r < 2; ++r)
      at_rest = at_rest && said[r].loan == said[1 - r].held && said[r].elsewhere == 0;
  }
  JOB_CHECK(at_rest);
  JOB_CHECK(ep.statistics().credits_lent == (lends ? asks * needed : 0));
  JOB_CHECK(ep.barrier() == status::ok);
  return 0;
}
