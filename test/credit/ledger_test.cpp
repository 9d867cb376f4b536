// The ledger's rules, one at a time: taking and returning, loans, epochs, revoking, waiting,
// invalid input.
#include <array>

#include "test/credit/names.hpp"

namespace {

using intents = std::array<revoke_intent, 8>;

/// Ends the lender's epoch.
void end_epoch(seq_ledger& l) { l.count_requests(l.settings().epoch_requests); }

/// Empties the bank into peer's loan, a lender_limit an epoch; its last request is of this epoch.
void lend_all(seq_ledger& l, std::uint32_t peer) {
  do end_epoch(l);
  while (l.on_need(peer, 1000, false) > 0 && l.bank() > 0);
}

}  // namespace

TEST_CASE("credits are taken all or none") {
  seq_ledger l(planned(2, 0, small(20, 50)));
  CHECK(l.try_take(1, 17) == 17);
  CHECK(l.try_take(1, 4) == 0);
  CHECK(l.try_take(1, 3) == 3);
  CHECK(l.in_use(1) == 20);
}

TEST_CASE("a lease takes what there is between its bounds, and gives back the rest") {
  seq_ledger l(planned(2, 0, small(20, 50)));
  CHECK(l.take_up_to(1, 4, 16) == 16);
  CHECK(l.take_up_to(1, 4, 16) == 4);
  CHECK(l.take_up_to(1, 1, 16) == 0);
  l.give_back(1, 6);
  CHECK(l.in_use(1) == 14);
  CHECK(l.take_up_to(1, 4, 16) == 6);
}

TEST_CASE("a reply brings credits back and new ones with them") {
  seq_ledger l(planned(2, 0, small(20, 50)));
  CHECK(l.try_take(1, 20) == 20);
  CHECK(l.on_credits(1, 20, 5, false) == status::ok);
  CHECK(l.send_credits(1) == 25);
  CHECK(l.try_take(1, 25) == 25);
}

TEST_CASE("without flow control every take succeeds and nothing is counted") {
  overrides o = small(4, 100);
  o.flow_control = false;
  seq_ledger l(planned(2, 0, o));
  CHECK(l.try_take(1, 1000) == 1000);
  CHECK(l.in_use(1) == 0);
  CHECK(l.on_credits(1, 1000, 0, false) == status::ok);
}

TEST_CASE("a request without need moves no credit") {
  seq_ledger l(planned(4, 0, small(4, 100)));
  for (int i = 0; i < 5000; ++i) CHECK(l.on_request(1, 1, 0, false) == 0);
  CHECK(l.loan(1) == 4);
  CHECK(l.bank() == 100);
  intents r;
  CHECK(l.next_revoke(r) == 0);
}

TEST_CASE("a request with a need is lent it out of the bank") {
  seq_ledger l(planned(4, 0, small(4, 100)));
  CHECK(l.on_request(1, 1, 7, false) == 7);
  CHECK(l.loan(1) == 11);
  CHECK(l.bank() == 93);
  CHECK(lent_and_banked(l) == l.settings().total_credits());
}

TEST_CASE("a peer is lent at most lender_limit in an epoch, exactly") {
  overrides o = small(4, 1000, 1 << 20);
  o.lender_limit = 30;
  seq_ledger l(planned(4, 0, o));
  std::uint32_t lent = 0;
  for (int i = 0; i < 20; ++i) lent += l.on_request(1, 1, 7, false);
  CHECK(lent == 30);
  end_epoch(l);
  CHECK(l.on_request(1, 1, 100, false) == 23);  // 30 >> 2 = 7 still count
}

TEST_CASE("a peer is lent at most max_per_peer in all") {
  overrides o = small(4, 5000);
  o.max_per_peer = 100;
  seq_ledger l(planned(4, 0, o));
  for (int i = 0; i < 100; ++i) {
    static_cast<void>(l.on_request(1, 1, 50, false));
    end_epoch(l);
  }
  CHECK(l.loan(1) == 100);
}

TEST_CASE("an urgent WANT lifts no loan over max_per_peer: what is too much is asked back first") {
  overrides o = small(10, 100);
  o.max_per_peer = max_cost;
  seq_ledger l(planned(3, 0, o));
  CHECK_FALSE(l.on_want(1, max_wish, true, false).send);
  grant g{};
  CHECK_FALSE(l.next_grant(g));
  intents r;
  REQUIRE(l.next_revoke(r) == 1);  // nobody else is asked: the bank has enough
  CHECK(r[0].peer == 1);
  CHECK(r[0].urgent);
  CHECK(r[0].at_most == 10 + max_wish - max_cost);
  CHECK(l.next_revoke(r) == 0);  // one is in flight
  CHECK(l.on_return(1, 2, false) == status::ok);
  CHECK_FALSE(l.next_grant(g));
  REQUIRE(l.next_revoke(r) == 1);
  CHECK(l.on_return(1, r[0].at_most, false) == status::ok);
  REQUIRE(l.next_grant(g));
  CHECK(g.count == max_wish);
  CHECK(l.loan(1) == max_cost);
  CHECK(l.next_revoke(r) == 0);
  CHECK(lent_and_banked(l) == l.settings().total_credits());
}

TEST_CASE("static credits do not move") {
  overrides o = small(20, 100);
  o.dynamic = false;
  seq_ledger l(planned(4, 0, o));
  CHECK(l.on_request(1, 1, 7, false) == 0);
  CHECK(l.hint(1, 100) == 0);
  CHECK(l.bank() == 100);
}

TEST_CASE("an epoch ends after its number of requests, and is told to each peer once") {
  seq_ledger l(planned(3, 0, small(4, 100, 4)));
  CHECK_FALSE(l.take_epoch_mark(1));
  for (int i = 0; i < 4; ++i) static_cast<void>(l.on_request(1, 1, 0, false));
  CHECK(l.epoch() == 1);
  CHECK(l.take_epoch_mark(1));
  CHECK_FALSE(l.take_epoch_mark(1));
  CHECK(l.take_epoch_mark(2));
  end_epoch(l);
  end_epoch(l);
  CHECK(l.take_epoch_mark(1));
  CHECK_FALSE(l.take_epoch_mark(1));
}

TEST_CASE("requests counted in batches end the same epochs") {
  seq_ledger l(planned(3, 0, small(4, 100, 10)));
  for (int i = 0; i < 25; ++i) l.count_requests(4);
  CHECK(l.epoch() == 10);
  l.count_requests(35);  // more than an epoch at once: what is over counts towards the next
  CHECK(l.epoch() == 13);
  for (int i = 0; i < 25; ++i) l.count_requests(1);
  CHECK(l.epoch() == 16);
}

TEST_CASE("the most in use fades by four an epoch after its own, never below what is in use") {
  seq_ledger l(planned(2, 0, small(100, 50)));
  CHECK(l.try_take(1, 80) == 80);
  CHECK(l.on_credits(1, 70, 0, false) == status::ok);
  CHECK(l.figures(1).most == 80);
  CHECK(l.on_credits(1, 0, 0, true) == status::ok);
  CHECK(l.figures(1).most == 80);
  CHECK(l.on_credits(1, 0, 0, true) == status::ok);
  CHECK(l.figures(1).most == 20);
  CHECK(l.on_credits(1, 0, 0, true) == status::ok);
  CHECK(l.figures(1).most == 10);
}

TEST_CASE("with last and curr the most in use fades from what it was, without a sawtooth") {
  overrides o = small(100, 50);
  o.fade = decay::last_curr;
  seq_ledger l(planned(2, 0, o));
  for (int i = 0; i < 4; ++i) {
    CHECK(l.try_take(1, 80) == 80);
    CHECK(l.on_credits(1, 80, 0, true) == status::ok);
  }
  CHECK(l.figures(1).most >= 78);
  for (int i = 0; i < 5; ++i) CHECK(l.on_credits(1, 0, 0, true) == status::ok);
  CHECK(l.figures(1).most == 0);
}

TEST_CASE("a borrower gives back what it did not use lately, down to the minimum") {
  seq_ledger l(planned(2, 0, small(50, 50)));
  CHECK(l.try_take(1, 30) == 30);
  CHECK(l.on_credits(1, 30, 0, false) == status::ok);
  CHECK(l.on_revoke(1, false).count == 20);
  for (int i = 0; i < 4; ++i) CHECK(l.on_credits(1, 0, 0, true) == status::ok);
  CHECK(l.on_revoke(1, false).count == 26);
  CHECK(l.send_credits(1) == min_credits);
}

TEST_CASE("a REVOKE early in an epoch finds no more to take than one late in it") {
  seq_ledger l(planned(2, 0, small(50, 50)));
  for (int epoch = 0; epoch < 5; ++epoch) {
    CHECK(l.try_take(1, 48) == 48);  // what the pattern needs in each epoch
    CHECK(l.on_credits(1, 48, 0, false) == status::ok);
    CHECK(l.on_revoke(1, true).count == (epoch == 0 ? 2 : 0));
  }
  CHECK(l.on_revoke(1, true).count == 36);  // an epoch without: a quarter of 48 stays
}

TEST_CASE("a borrower gives back nothing after a stall, until it has faded") {
  seq_ledger l(planned(2, 0, small(50, 50)));
  CHECK(l.note_stall(1, 60) == 10);
  CHECK(l.on_revoke(1, false).count == 0);
  CHECK(l.on_revoke(1, true).count == 46);
}

TEST_CASE("a borrower gives back at most revoke_limit in an epoch") {
  overrides o = small(100, 50);
  o.revoke_limit = 40;
  seq_ledger l(planned(2, 0, o));
  CHECK(l.on_revoke(1, false).count == 40);
  CHECK(l.on_revoke(1, false).count == 0);
  CHECK(l.on_revoke(1, true).count == 30);  // 40 >> 2 = 10 still count
}

TEST_CASE("credits in use are never given up, whatever has faded") {
  seq_ledger l(planned(2, 0, small(50, 50)));
  CHECK(l.try_take(1, 45) == 45);
  for (int i = 0; i < 6; ++i) CHECK(l.on_credits(1, 0, 0, true) == status::ok);
  CHECK(l.on_revoke(1, false).count == 5);
  CHECK(l.on_credits(1, 45, 0, false) == status::ok);
}

TEST_CASE("an urgent recall takes all above the minimum, what is in use when it comes free") {
  seq_ledger l(planned(2, 0, small(50, 50)));
  CHECK(l.try_take(1, 30) == 30);
  CHECK(l.on_revoke(1, false, true).count == 20);
  CHECK(l.figures(1).owed == 26);
  CHECK(l.on_credits(1, 29, 0, false) == status::ok);
  CHECK(l.try_take(1, 4) == 0);  // one in use, and only the minimum may be spent
  CHECK(l.try_take(1, 3) == 3);
  CHECK(l.on_revoke(1, false).count == 26);
  CHECK(l.send_credits(1) == min_credits);
}

TEST_CASE("the lender asks back only when somebody needs and the bank is low") {
  seq_ledger l(planned(4, 0, small(20, 100)));
  intents r;
  CHECK(l.next_revoke(r) == 0);
  lend_all(l, 1);
  CHECK(l.bank_low());
  const std::uint32_t n = l.next_revoke(r);
  REQUIRE(n == 2);  // 2 and 3; peer 1 has asked for more lately
  CHECK(r[0].peer == 2);
  CHECK(r[1].peer == 3);
  CHECK(l.next_revoke(r) == 0);
}

TEST_CASE("what one message in an epoch lacks is taken from nobody, what more lack is") {
  overrides o = small(20, 0, 1024);
  o.empty_bank = true;
  seq_ledger l(planned(4, 0, o));
  intents r;
  for (int epoch = 0; epoch < 5; ++epoch) {
    static_cast<void>(l.on_need(1, 7, false));
    static_cast<void>(l.on_want(1, 17, false, false));
    CHECK_FALSE(l.has_intents());
    CHECK(l.next_revoke(r) == 0);
    end_epoch(l);
  }
  for (int message = 0; message < 2; ++message) static_cast<void>(l.on_need(1, 7, false));
  CHECK_FALSE(l.has_intents());
  static_cast<void>(l.on_need(1, 7, false));
  CHECK(l.has_intents());
  CHECK(l.next_revoke(r) == 2);
  CHECK_FALSE(l.has_intents());  // until one more asks
  CHECK(l.on_return(2, 0, false) == status::ok);
  CHECK(l.on_return(3, 0, false) == status::ok);
  static_cast<void>(l.on_need(1, 7, false));
  CHECK(l.has_intents());
}

TEST_CASE("for a peer that cannot send at all others are asked at once, however rarely it asks") {
  overrides o = small(8, 0, 1024);
  o.empty_bank = true;
  seq_ledger l(planned(5, 0, o));
  intents r;
  CHECK_FALSE(l.on_want(1, 9, true, false).send);
  CHECK(l.has_intents());
  CHECK(l.next_revoke(r) == 4);
  CHECK(r[0].urgent);
}

TEST_CASE("a peer with a REVOKE in flight is not asked again, and its RETURN ends that") {
  seq_ledger l(planned(3, 0, small(20, 40)));
  intents r;
  lend_all(l, 1);
  REQUIRE(l.next_revoke(r) == 1);
  static_cast<void>(l.on_need(1, 5, false));
  CHECK(l.next_revoke(r) == 0);
  CHECK(l.on_return(2, 10, false) == status::ok);
  CHECK(l.loan(2) == 10);
  CHECK(l.bank() == 10);
  static_cast<void>(l.on_need(1, 50, false));
  CHECK(l.next_revoke(r) == 1);
}

TEST_CASE("a peer that answered nothing is left alone until the epoch ends") {
  seq_ledger l(planned(3, 0, small(20, 40)));
  intents r;
  lend_all(l, 1);
  REQUIRE(l.next_revoke(r) == 1);
  CHECK(l.on_return(2, 0, false) == status::ok);
  static_cast<void>(l.on_need(1, 5, false));
  CHECK(l.next_revoke(r) == 0);
  end_epoch(l);
  static_cast<void>(l.on_need(1, 5, false));
  CHECK(l.next_revoke(r) == 1);
}

TEST_CASE("a peer at the minimum leaves the list, and joins it again with its next loan") {
  seq_ledger l(planned(3, 0, small(6, 40)));
  intents r;
  lend_all(l, 1);
  REQUIRE(l.next_revoke(r) == 1);
  CHECK(l.on_return(2, 2, false) == status::ok);
  CHECK(l.figures(2).listed);
  end_epoch(l);
  static_cast<void>(l.on_need(1, 5, false));
  CHECK(l.next_revoke(r) == 0);
  CHECK_FALSE(l.figures(2).listed);
  CHECK(l.on_need(2, 1, false) == 0);  // the bank gave its two to peer 1
}

TEST_CASE("each on the list is asked once before any is asked twice") {
  overrides o = small(6, 20, 500);
  o.num_scavenge = 3;
  seq_ledger l(planned(10, 4, o));
  std::array<int, 10> asked{};
  intents r;
  lend_all(l, 0);
  for (int round = 0; round < 3; ++round) {
    static_cast<void>(l.on_need(0, 7, false));
    const std::uint32_t n = l.next_revoke(r);
    for (std::uint32_t i = 0; i < n; ++i) {
      ++asked[r[i].peer];
      CHECK(l.on_return(r[i].peer, 0, false) == status::ok);
    }
  }
  for (std::uint32_t p = 1; p < 10; ++p) CHECK(asked[p] == (p == 4 ? 0 : 1));
}

TEST_CASE("when the lender keeps count, it does not ask who has given back enough") {
  overrides o = small(100, 60, 500);
  o.revoked = revoked_at::lender;
  o.lender_limit = 1000;
  o.revoke_limit = 40;
  seq_ledger l(planned(3, 0, o));
  intents r;
  lend_all(l, 1);
  REQUIRE(l.next_revoke(r) == 1);
  CHECK(r[0].at_most == 40);
  CHECK(l.on_return(2, 40, false) == status::ok);
  CHECK(l.on_need(1, 1000, false) == 40);
  CHECK(l.next_revoke(r) == 0);
  end_epoch(l);
  CHECK(l.on_need(1, 7, false) == 0);
  REQUIRE(l.next_revoke(r) == 1);
  CHECK(r[0].at_most == 30);
}

TEST_CASE(
    "the loan of a peer that has gone is the bank's at once, and the peer is lent nothing more") {
  seq_ledger l(planned(3, 0, small(20, 40)));
  const std::uint32_t bank = l.bank(), loan = l.loan(1);
  CHECK(l.on_gone(1) == loan);
  CHECK(l.bank() == bank + loan);
  CHECK(l.loan(1) == 0);
  CHECK(l.on_gone(1) == 0);
  // Messages that it sent before and that are read only now.
  CHECK(l.may_have_spent(1, 17));
  CHECK(l.on_need(1, 7, false) == 0);
  CHECK_FALSE(l.on_want(1, 30, false, false).send);
  CHECK_FALSE(l.on_want(1, 13, true, false).send);
  CHECK(l.waiting() == 0);
  CHECK(l.on_return(1, 5, false) == status::ok);
  CHECK(l.bank() == bank + loan);
  CHECK(l.on_gone(0) == 0);
  CHECK(l.on_gone(9) == 0);
}

TEST_CASE("the loan of a peer that has gone serves one that waits, and its REVOKE is forgotten") {
  seq_ledger l(planned(4, 0, small(4, 13)));
  intents r;
  CHECK(l.on_want(1, 13, true, false).send);  // the whole bank
  CHECK(l.bank() == 0);
  CHECK_FALSE(l.on_want(2, 13, true, false).send);
  CHECK_FALSE(l.on_want(3, 13, true, false).send);
  REQUIRE(l.next_revoke(r) == 1);
  CHECK(r[0].peer == 1);
  CHECK(l.on_gone(2) == 4);  // it waits first
  CHECK(l.on_gone(1) == 17);
  grant g{};
  REQUIRE(l.next_grant(g));
  CHECK(g.peer == 3);
  CHECK(g.count == 13);
  CHECK_FALSE(l.next_grant(g));
  CHECK(l.waiting() == 0);
  CHECK(l.bank() + l.loan(3) == l.settings().total_credits());
  CHECK(l.next_revoke(r) == 0);
}

TEST_CASE("a hint asks once for what is lacking, and is lent what the limits allow") {
  seq_ledger borrower(planned(2, 0, small(4, 40)));
  seq_ledger lender(planned(2, 1, small(4, 40)));
  CHECK(borrower.hint(1, 50) == 46);
  CHECK(borrower.hint(1, 50) == 0);
  const want_answer a = lender.on_want(0, 46, false, false);
  REQUIRE(a.send);
  CHECK(a.message.count == 40);
  CHECK(borrower.on_grant(1, a.message.count, false) == status::ok);
  CHECK(borrower.try_take(1, 44) == 44);
}

TEST_CASE("a message larger than the loan is asked for, and waits until enough has come in") {
  seq_ledger borrower(planned(3, 0, small(4, 13)));
  seq_ledger lender(planned(3, 1, small(4, 13)));
  CHECK(lender.on_need(2, 10, false) == 10);
  CHECK(borrower.begin_want(1, 4) == 0);
  CHECK(borrower.begin_want(1, 17) == 13);
  CHECK(borrower.begin_want(1, 17) == 0);
  CHECK_FALSE(lender.on_want(0, 13, true, false).send);
  grant g;
  CHECK_FALSE(lender.next_grant(g));
  CHECK(lender.on_need(2, 3, false) == 0);  // the bank's last credits are spoken for
  intents r;
  REQUIRE(lender.next_revoke(r) == 1);
  CHECK(r[0].urgent);
  CHECK(lender.on_return(2, 10, false) == status::ok);
  REQUIRE(lender.next_grant(g));
  CHECK(g.peer == 0);
  CHECK(g.count == 13);
  CHECK(borrower.on_grant(1, g.count, g.end_epoch) == status::ok);
  CHECK(borrower.try_take(1, 17) == 17);
  borrower.end_stall(1);
  CHECK(lent_and_banked(lender) == lender.settings().total_credits());
}

TEST_CASE("a request that waits asks for as much again, some times, or for what it must have") {
  seq_ledger l(planned(3, 0, small(40, 100)));
  CHECK(l.try_take(1, 40) == 40);
  stall s;
  CHECK(l.next_want(1, 1, s).count == stream_credits);
  CHECK(l.next_want(1, 1, s).count == 0);  // one is in flight
  for (int asks = 1; asks < seq_ledger::most_asks; ++asks) {
    CHECK(l.on_grant(1, 0, false) == status::ok);
    CHECK(l.next_want(1, 1, s).count == stream_credits);  // it may have come back to the lender
  }
  CHECK(l.on_grant(1, 0, false) == status::ok);
  CHECK(l.next_want(1, 1, s).count == 0);
  stall other;
  const want w = l.next_want(1, 17, other);
  CHECK(w.count == 2 * stream_credits);
  CHECK_FALSE(w.urgent);
  seq_ledger poor(planned(3, 0, small(4, 100)));
  s.asks = seq_ledger::most_asks;
  const want must = poor.next_want(1, 17, s);
  CHECK(must.count == 13);
  CHECK(must.urgent);
}

TEST_CASE("who has stalled at a small loan asks the next peer before it stalls") {
  seq_ledger l(planned(4, 0, small(12, 100)));
  CHECK(l.try_take(1, 1) == 1);
  CHECK(l.early_want(1, 1) == 0);
  l.note_stall(1, 12);
  CHECK(l.try_take(2, 4) == 4);
  CHECK(l.early_want(2, 4) == stream_credits_of(4));
  CHECK(l.try_take(3, 4) == 4);
  CHECK(l.early_want(3, 4) == 0);  // it has asked once; if that was wrong it does not go on
  l.note_stall(3, 12);
  CHECK(l.early_want(2, 4) == 0);  // one is in flight
  CHECK(l.on_grant(2, 60, false) == status::ok);
  CHECK(l.early_want(2, 4) == 0);  // it holds a stream's credits
  CHECK(l.early_want(3, 4) == stream_credits_of(4));
}

TEST_CASE("what is owed goes back at a quarter of the loan, or at 64") {
  CHECK(return_batch(0) == 1);
  CHECK(return_batch(4) == 1);
  CHECK(return_batch(100) == 25);
  CHECK(return_batch(1000) == 64);
}

TEST_CASE("what was granted to a waiting request is kept for it") {
  seq_ledger l(planned(3, 0, small(4, 13)));
  CHECK(l.begin_want(1, 17) == 13);
  CHECK(l.on_grant(1, 13, false) == status::ok);
  CHECK(l.on_revoke(1, false, true).count == 0);
  CHECK(l.try_take(1, 17) == 17);
  l.end_stall(1);
  CHECK(l.on_credits(1, 17, 0, false) == status::ok);
  CHECK(l.on_revoke(1, false, true).count == 13);
}

TEST_CASE("peers that wait are served first come first served") {
  seq_ledger l(planned(5, 0, small(4, 13)));
  CHECK(l.on_need(4, 13, false) == 13);
  for (const std::uint32_t p : {2U, 1U, 3U}) CHECK_FALSE(l.on_want(p, 13, true, false).send);
  std::uint32_t from = 4;
  for (const std::uint32_t expected : {2U, 1U, 3U}) {
    grant g;
    CHECK_FALSE(l.next_grant(g));
    intents r;
    REQUIRE(l.next_revoke(r) == 1);
    CHECK(r[0].peer == from);
    CHECK(l.on_return(from, 13, false) == status::ok);
    REQUIRE(l.next_grant(g));
    CHECK(g.peer == expected);
    from = expected;
  }
}

TEST_CASE("who waits is served though most on the list have nothing left to give") {
  constexpr std::uint32_t ranks = 80;
  seq_ledger l(planned(ranks, 0, small(5, 13)));
  grant g;
  intents r;
  // Each takes what the others have above the minimum; the last ones asked then stand at the back.
  for (std::uint32_t p = ranks - 1; p > 0; --p) {
    if (l.on_want(p, 13, true, false).send) continue;
    while (!l.next_grant(g)) {
      const std::uint32_t n = l.next_revoke(r);
      REQUIRE(n > 0);  // nobody else is under way, so nothing would ever come of it
      for (std::uint32_t i = 0; i < n; ++i)
        CHECK(l.on_return(r[i].peer, l.loan(r[i].peer) - min_credits, false) == status::ok);
    }
    CHECK(g.peer == p);
  }
  CHECK(lent_and_banked(l) == l.settings().total_credits());
}

TEST_CASE("wrong peer numbers are refused") {
  seq_ledger l(planned(3, 1, small(20, 40)));
  for (const std::uint32_t bad : {1U, 3U, 0xffffffffU}) {
    CHECK(l.on_credits(bad, 0, 1, false) == status::bad_rank);
    CHECK(l.on_return(bad, 0, false) == status::bad_rank);
    CHECK(l.on_grant(bad, 1, false) == status::bad_rank);
    CHECK(l.on_request(bad, 1, 7, true) == 0);
    CHECK(l.on_revoke(bad, true).count == 0);
    CHECK_FALSE(l.on_want(bad, 5, true, false).send);
  }
  CHECK(lent_and_banked(l) == l.settings().total_credits());
}

TEST_CASE("counts that cannot be are refused and change nothing") {
  seq_ledger l(planned(3, 1, small(20, 40)));
  CHECK(l.try_take(0, 5) == 5);
  CHECK(l.on_credits(0, 6, 0, false) == status::bad_arguments);
  CHECK(l.on_credits(0, 0, 0xffff, false) == status::bad_arguments);
  CHECK(l.on_credits(0, 0, 0xffffffff, false) == status::bad_arguments);
  CHECK(l.on_return(0, 0, false) == status::bad_arguments);  // nothing was asked for
  CHECK(l.on_grant(0, 5, false) == status::bad_arguments);
  lend_all(l, 0);
  intents r;
  REQUIRE(l.next_revoke(r) == 1);
  CHECK(l.on_return(2, 21, false) == status::bad_arguments);
  CHECK(l.on_return(2, 20, false) == status::ok);
  CHECK(l.on_request(0, 0xffffffff, 7, false) == 0);
  CHECK(l.in_use(0) == 5);
  CHECK(lent_and_banked(l) == l.settings().total_credits());
}

TEST_CASE("a WANT sent twice is answered once") {
  seq_ledger l(planned(3, 0, small(4, 13)));
  CHECK(l.on_need(2, 13, false) == 13);
  CHECK_FALSE(l.on_want(1, 13, true, false).send);
  CHECK_FALSE(l.on_want(1, 13, true, false).send);
  CHECK(l.waiting() == 1);
}

TEST_CASE("a peer's record takes at most 40 bytes") {
  CHECK(sizeof(peer_state<thread_mode::par, std::atomic>) <= 40);
}

TEST_CASE("the statistics name who lends to whom") {
  seq_ledger l(planned(3, 0, small(4, 100)));
  static_cast<void>(l.on_need(2, 7, false));
  const std::string text = snapshot(l);
  CHECK(text.find(R"("rank":0,"peer":2,"loan":11)") != std::string::npos);
  CHECK(text.find(R"("peer":1)") == std::string::npos);
  CHECK(text.find(R"("bank":93)") != std::string::npos);
}
