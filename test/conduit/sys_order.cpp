// Job program of three ranks: a poll takes system messages before replies, and both before further
// requests (SYS, SAFE, AM). Requests of rank 1, or its answers, wait at rank 0, when a WANT of rank
// 2 comes behind them: rank 0 handles at most AM_LIMIT requests before it lends, in whichever of
// its polls that is. By queue pairs, where all of that has one queue, it handles no answer of the
// same batch before. By rings it handles no request before; a ring keeps its own order of answers
// and system messages, and none of it waits for a handler's end but its own.
#include <functional>

#include "penstock/penstock.hpp"
#include "test/conduit/credit_access.hpp"
#include "test/conduit/job_check.hpp"

using namespace penstock;

namespace {

constexpr unsigned waiting = 40, answers = 10, am_limit = 8;

struct party {
  short_handler<> answer;
  unsigned handled = 0, called = 0, answered = 0;
  const std::function<std::uint32_t()>* loan = nullptr;
  std::uint32_t at_first_answer = 0, at_first_request = 0;
  void on_short(token&) {
    if (handled++ % waiting == 0) at_first_request = (*loan)();
  }
  void on_call(token& t) {
    ++called;
    JOB_CHECK(t.reply_short(answer) == status::ok);
  }
  void on_answer(token&) {
    if (answered++ == 0) at_first_answer = (*loan)();
  }
};

}  // namespace

int main() {
  auto w = world::join();
  JOB_CHECK(w);
  party me;
  endpoint ep = test::open_endpoint(*w);
  JOB_CHECK(ep.size() == 3);
  const auto on_short = ep.add<&party::on_short>(&me);
  const auto on_call = ep.add<&party::on_call>(&me);
  me.answer = ep.add<&party::on_answer>(&me);
  if (auto r = ep.start(); !r) fatal(3, "%s", r.error().message().c_str());
  auto& engine = ep.internals();
  auto& ledger = conduit::test_access::ledger(engine);
  const std::function<std::uint32_t()> loan = [&] { return ledger.loan(2); };
  me.loan = &loan;
  JOB_CHECK(ep.barrier() == status::ok);
  const auto polled_until = [&](auto&& so) {
    JOB_CHECK(ep.wait_until([&] { return so(); }) == status::ok);
  };
  // Rank 2 asks for more than it holds, and hears the answer later.
  std::uint32_t wanted = 0;
  const auto ask = [&] {
    wanted = ledger.send_credits(0) + 10;
    JOB_CHECK(ep.expect(0, wanted, 0) == status::ok);
  };
  const auto hear = [&] { polled_until([&] { return ledger.send_credits(0) >= wanted; }); };
  // Nobody has sent a request lately, and all connections are there.
  const auto meet = [&](unsigned phase) {
    if (ep.rank() != 0) {
      const unsigned before = me.answered;
      JOB_CHECK(ep.request_short(0, on_call) == status::ok);
      polled_until([&] { return me.answered > before; });
    } else {
      polled_until([&] { return me.called % 2 == 0 && me.called != 0; });
    }
    for (unsigned i = 0; i < 400 + phase; ++i) (void)ep.poll();
    JOB_CHECK(w->exchange({}));
  };

  for (unsigned round = 0; round < 8; ++round) {
    meet(round);
    if (ep.rank() == 1)
      for (unsigned i = 0; i < waiting; ++i) JOB_CHECK(ep.request_short(0, on_short) == status::ok);
    JOB_CHECK(w->exchange({}));
    if (ep.rank() == 2) ask();
    JOB_CHECK(w->exchange({}));
    if (ep.rank() == 0) {
      const std::uint32_t before = loan();
      const unsigned handled = me.handled;
      while (loan() == before && me.handled - handled < waiting) (void)ep.poll();
      // The first word of a rank by queue pairs waits until its device has been shown where it
      // goes.
      JOB_CHECK(round == 0 || me.handled - handled <= am_limit);
      // By rings each poll looks for system messages of all ranks before it takes a request (where
      // the peers are few; see ring_path::poll_in_turn).
      if (conduit::test_access::by_rings(engine, 1) && conduit::test_access::by_rings(engine, 2))
        JOB_CHECK(me.handled == handled || me.at_first_request > before);
      polled_until([&] { return me.handled - handled == waiting && loan() != before; });
    }
    if (ep.rank() == 2) hear();
    me.called = 0;
    JOB_CHECK(w->exchange({}));
  }

  meet(0);
  me.answered = 0;
  if (ep.rank() == 0)
    for (unsigned i = 0; i < answers; ++i) JOB_CHECK(ep.request_short(1, on_call) == status::ok);
  if (ep.rank() == 1) polled_until([&] { return me.called == answers; });
  JOB_CHECK(w->exchange({}));
  if (ep.rank() == 2) ask();
  JOB_CHECK(w->exchange({}));
  if (ep.rank() == 0) {
    const std::uint32_t before = loan();
    polled_until([&] { return me.answered == answers && loan() > before; });
    const bool one_queue =
        !conduit::test_access::by_rings(engine, 1) && !conduit::test_access::by_rings(engine, 2);
    if (one_queue) JOB_CHECK(me.at_first_answer > before);
  }
  if (ep.rank() == 2) hear();
  JOB_CHECK(ep.barrier() == status::ok);
  return 0;
}
