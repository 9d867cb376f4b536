// Loans of peers that were never met: the bank takes what it needs without a REVOKE, and the peer
// hears of it before it can send.
#include <array>
#include <vector>

#include "test/credit/names.hpp"

namespace {

/// Has lent all that is banked to rank 1, which asks for more.
struct unmet_lender {
  explicit unmet_lender(std::uint32_t ranks, std::uint32_t bank = 50)
      : l(planned(ranks, 0, small(20, bank))) {
    do l.count_requests(l.settings().epoch_requests);
    while (l.on_need(1, 1000, false) > 0 && l.bank() > 0);
  }
  /// Everybody but rank 1 was never met, and `room` of them can get buffers.
  std::uint32_t revoke(std::uint32_t room = ~0u) {
    return l.next_revoke(asked, [&](std::uint32_t p) {
      if (p == 1) return reach::ask;
      looked.push_back(p);
      return looked.size() <= room ? reach::take : reach::leave;
    });
  }
  seq_ledger l;
  std::array<revoke_intent, 8> asked{};
  std::vector<std::uint32_t> looked;
};

}  // namespace

TEST_CASE("a peer that was never met is asked nothing: the bank takes all above the minimum") {
  unmet_lender b(3);
  REQUIRE(b.l.bank() == 0);
  CHECK(b.revoke() == 0);
  CHECK(b.looked == std::vector<std::uint32_t>{2});
  CHECK(b.l.loan(2) == min_credits);
  CHECK(b.l.bank() == 20 - min_credits);
  CHECK(lent_and_banked(b.l) == b.l.settings().total_credits());
  CHECK_FALSE(b.l.figures(2).sys_in_flight);
}

TEST_CASE("no more such loans are taken than fill the bank to its mark") {
  unmet_lender b(40, 400);
  REQUIRE(b.l.bank_low());
  CHECK(b.revoke() == 0);
  CHECK_FALSE(b.l.bank_low());
  CHECK(b.l.bank() < b.l.settings().low_water + 20);
  CHECK(b.looked.size() < 38);
  CHECK(lent_and_banked(b.l) == b.l.settings().total_credits());
}

TEST_CASE("a peer that waits for credits gets those of one that was never met") {
  unmet_lender b(4);
  CHECK_FALSE(b.l.on_want(1, 13, true, false).send);
  static_cast<void>(b.revoke());  // it may be asked itself
  CHECK(b.looked.size() == 1);
  grant g{};
  REQUIRE(b.l.next_grant(g));
  CHECK(g.peer == 1);
  CHECK(g.count == 13);
  CHECK(lent_and_banked(b.l) == b.l.settings().total_credits());
}

TEST_CASE("a loan for which there is no room stays as it is, and is not looked at again") {
  unmet_lender b(5);
  CHECK(b.revoke(0) == 0);
  CHECK(b.looked.size() == 3);
  CHECK(b.l.bank() == 0);
  CHECK(b.l.loan(2) == 20);
  b.l.count_requests(b.l.settings().epoch_requests);
  for (int i = 0; i < 4; ++i) static_cast<void>(b.l.on_need(1, 7, false));
  CHECK(b.revoke(0) == 0);
  CHECK(b.looked.size() == 3);
}

TEST_CASE("who hears that its loan was lowered holds the minimum, and what was granted since") {
  seq_ledger l(planned(3, 0, small(20, 50)));
  l.on_lowered(1);
  CHECK(l.send_credits(1) == min_credits);
  CHECK(l.try_take(1, 5) == 0);
  CHECK(l.hint(2, 30) == 10);
  CHECK(l.on_grant(2, 10, false) == status::ok);
  l.on_lowered(2);
  CHECK(l.send_credits(2) == min_credits + 10);
  l.on_lowered(0);  // itself
  l.on_lowered(9);
  seq_ledger least(planned(3, 0, small(4, 50)));
  least.on_lowered(1);
  CHECK(least.send_credits(1) == min_credits);
}
