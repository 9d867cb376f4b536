// Records that nobody has touched: they are all zero, and every function of the ledger finds the
// start loan there.
#include <array>
#include <functional>
#include <utility>

#include "test/credit/names.hpp"

namespace {

/// Has lent all that is banked to rank 1, in a job of that many ranks, and asks for credits back.
struct lender {
  explicit lender(std::uint32_t ranks) : l(planned(ranks, 0, small(20, 50))) {
    do l.count_requests(l.settings().epoch_requests);
    while (l.on_need(1, 1000, false) > 0 && l.bank() > 0);
    count = l.next_revoke(asked);
  }
  seq_ledger l;
  std::array<revoke_intent, 8> asked{};
  std::uint32_t count = 0;
};

}  // namespace

TEST_CASE("whatever touches a peer's record first finds its start loan there") {
  const std::pair<const char*, std::function<void(seq_ledger&)>> first[] = {
      {"figures", [](seq_ledger& l) { CHECK(l.figures(1).listed); }},
      {"take", [](seq_ledger& l) { CHECK(l.try_take(1, 9) == 9); }},
      {"too much", [](seq_ledger& l) { CHECK(l.try_take(1, 21) == 0); }},
      {"credits",
       [](seq_ledger& l) { CHECK(l.on_credits(1, 1, 0, false) == status::bad_arguments); }},
      {"grant", [](seq_ledger& l) { CHECK(l.on_grant(1, 5, false) == status::bad_arguments); }},
      {"lent in passing", [](seq_ledger& l) { CHECK(l.on_credits(1, 0, 0, true) == status::ok); }},
      {"stall", [](seq_ledger& l) { CHECK(l.note_stall(1, 25) == 5); }},
      {"want", [](seq_ledger& l) { CHECK(l.begin_want(1, 20) == 0); }},
      {"hint", [](seq_ledger& l) { CHECK(l.hint(1, 30) == 10); }},
      {"revoked", [](seq_ledger& l) { CHECK(l.on_revoke(1, false, true, 0).count == 0); }},
      {"need", [](seq_ledger& l) { CHECK(l.on_need(1, 0, true) == 0); }},
      {"claim", [](seq_ledger& l) { CHECK(!l.may_have_spent(1, 21)); }},
      {"mark", [](seq_ledger& l) { CHECK(!l.take_epoch_mark(1)); }},
      {"return", [](seq_ledger& l) { CHECK(l.on_return(1, 1, false) == status::bad_arguments); }},
  };
  for (const auto& f : first) {  // Clang 14 does not capture structured bindings
    const auto& touch = f.second;
    CAPTURE(f.first);
    seq_ledger l(planned(3, 0, small(20, 50)));
    touch(l);
    CHECK(l.loan(1) == 20);
    CHECK(l.send_credits(1) == 20);
    CHECK(l.figures(1).loan == 20);
    CHECK(l.figures(0).loan == 0);
    CHECK(lent_and_banked(l) == l.settings().total_credits());
    CHECK(l.try_take(2, 20) == 20);
    CHECK(l.on_credits(2, 20, 3, false) == status::ok);
    CHECK(l.send_credits(2) == 23);
  }
}

TEST_CASE("a peer that nobody has touched is asked for credits, and gives its loan when it goes") {
  lender a(4);
  REQUIRE(a.count == 2);
  CHECK(a.asked[0].peer == 2);
  CHECK(a.l.on_return(2, 16, false) == status::ok);
  CHECK(a.l.on_gone(3) == 20);
  CHECK(lent_and_banked(a.l) == a.l.settings().total_credits());
}

TEST_CASE("a borrower that gives all of its loan back is lent no start loan again") {
  lender a(3);
  REQUIRE(a.count == 1);
  REQUIRE(a.asked[0].peer == 2);
  CHECK(a.l.on_return(2, 20, false) == status::ok);
  CHECK(a.l.loan(2) == 0);
  CHECK(a.l.on_need(2, 0, true) == 0);
  CHECK(lent_and_banked(a.l) == a.l.settings().total_credits());
}
