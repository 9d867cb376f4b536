// The worked example of credit/README.md: one exchange of three processes, number for number.
#include <array>

#include "test/credit/names.hpp"

TEST_CASE("a WANT, a REVOKE, its RETURN and a GRANT move credits as the README says") {
  enum : std::uint32_t { A, B, C };
  overrides o = small(4, 31);
  o.low_water = 1;
  seq_ledger a(planned(3, A, o)), b(planned(3, B, o)), c(planned(3, C, o));
  // C has been lent 26 more, and uses 6.
  REQUIRE(c.hint(A, 30) == 26);
  const want_answer more = a.on_want(C, 26, false, false);
  REQUIRE(more.message.count == 26);
  REQUIRE(c.on_grant(A, 26, false) == status::ok);
  REQUIRE(c.try_take(A, 6) == 6);
  CHECK(a.bank() == 5);
  CHECK(a.loan(B) + a.loan(C) + a.bank() == 39);

  CHECK(b.try_take(A, 17) == 0);
  CHECK(b.note_stall(A, 17) == 13);
  stall waiting{true, 0};
  const want asked = b.next_want(A, 17, waiting);
  CHECK(asked.count == 13);
  CHECK(asked.urgent);
  CHECK_FALSE(a.on_want(B, asked.count, true, false).send);  // the bank has 5: B waits

  std::array<revoke_intent, 8> out;
  REQUIRE(a.next_revoke(out) == 1);
  CHECK(out[0].peer == C);
  CHECK(out[0].urgent);
  const revoke_answer back = c.on_revoke(A, false, true, out[0].at_most);
  CHECK(back.count == 24);
  CHECK(c.figures(A).owed == 2);
  CHECK(c.send_credits(A) == 6);
  CHECK(a.on_return(C, back.count, false) == status::ok);
  CHECK(a.loan(C) == 6);
  CHECK(a.bank() == 29);

  grant g{};
  REQUIRE(a.next_grant(g));
  CHECK(g.peer == B);
  CHECK(g.count == 13);
  CHECK(a.bank() == 16);
  CHECK(b.on_grant(A, g.count, false) == status::ok);
  CHECK(b.try_take(A, 17) == 17);
  CHECK(a.loan(B) + a.loan(C) + a.bank() == 39);
  CHECK(a.adds_up());
}
