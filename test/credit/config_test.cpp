// Start-up: the table of shares, the settings that are refused and the line that says so, costs and
// the credit byte.
#include <string>

#include "test/credit/names.hpp"

namespace {

std::string refusal(std::uint32_t ranks, const overrides& o) {
  const result<config> c = plan(ranks, 0, o);
  return c ? std::string() : c.error().what;
}
bool names(const std::string& text, const char* a, const char* b) {
  return text.find(a) != std::string::npos && text.find(b) != std::string::npos;
}

}  // namespace

TEST_CASE("a Short costs 1, a two-message Long 2, whatever their size") {
  CHECK(cost(kind::short_, 200) == 1);
  CHECK(cost(kind::long_, 1 << 20) == 2);
}

TEST_CASE("Mediums and packed Longs cost their 256-byte units") {
  CHECK(cost(kind::medium, 0) == 1);
  CHECK(cost(kind::medium, 256) == 1);
  CHECK(cost(kind::medium, 257) == 2);
  CHECK(cost(kind::packed_long, 1024) == 4);
  CHECK(cost(kind::medium, 4096 + 64) == max_cost);
  CHECK(cost(kind::medium, 0xffffffff) == 0x1000000);
}

TEST_CASE("every credit byte decodes to what was encoded") {
  for (int b = 0; b < 256; ++b)
    CHECK(credit_byte::decode(static_cast<std::uint8_t>(b)).encode() == b);
  CHECK(credit_byte{true, 5, 9}.encode() == 0xd9);
}

TEST_CASE("a need above 7 travels as 7") {
  CHECK(credit_byte::decode(credit_byte{false, 13, 2}.encode()) == credit_byte{false, 7, 2});
  CHECK(credit_byte::fits(15));
  CHECK_FALSE(credit_byte::fits(16));
}

TEST_CASE("few processes get hundreds of credits each, many the minimum and a bank") {
  CHECK(planned(2, 0).credits_per_peer >= 200);
  CHECK(planned(10000, 0).credits_per_peer == 6);
  CHECK(planned(100000, 0).credits_per_peer == min_credits);
  CHECK(planned(1000000, 0).credits_per_peer == min_credits);
}

TEST_CASE("the most that may be lent to a peer bounds the whole loan, at start, too") {
  for (std::uint32_t n = 2; n <= 1024; ++n) {
    CHECK(planned(n, 0).max_per_peer == 400);
    CHECK(planned(n, 0).credits_per_peer <= 400);
  }
  overrides o;
  o.max_per_peer = 100;
  CHECK(planned(4, 0, o).credits_per_peer == 100);
  CHECK(planned(4, 0, o).max_per_peer == 100);
}

TEST_CASE("a bound below the cost of the largest message means that cost") {
  for (const std::int64_t most : {1, 4, 8, 16, 17, 18}) {
    CAPTURE(most);
    overrides o;
    o.max_per_peer = most;
    for (const std::uint32_t n : {2u, 8u, 100u, 1024u}) {
      const config c = planned(n, 0, o);
      CHECK(c.max_per_peer == std::max<std::uint32_t>(static_cast<std::uint32_t>(most), max_cost));
      CHECK(c.credits_per_peer <= c.max_per_peer);
    }
    o.credits_per_peer = 10;
    CHECK(planned(4, 0, o).max_per_peer >= max_cost);
  }
}

TEST_CASE("from 16 processes on there is a bank for demand, and room above the loan at start") {
  for (std::uint32_t n = 16; n <= 1024; ++n) {
    CHECK(planned(n, 0).credits_per_peer <= 128);
    CHECK(planned(n, 0).bank >= 4096);
  }
}

TEST_CASE("up to 64 processes a default receive space fits the usual 8 MB of locked memory") {
  constexpr std::uint64_t pinned = 512;  // bytes a credit in both lanes
  for (std::uint32_t n = 2; n <= 64; ++n)
    CHECK(planned(n, 0).total_credits() * pinned <= 6'400'000);
}

TEST_CASE("receive space stays within the note's budget: 10 MB at 1,024 and 25 MB at 10,000") {
  constexpr std::uint64_t note_bytes = 256 + 128;  // a credit's buffer space and its event
  CHECK(planned(1024, 0).total_credits() * note_bytes <= 10'000'000);
  CHECK(planned(10000, 0).total_credits() * note_bytes <= 25'000'000);
}

TEST_CASE("between two rows of the table shares never grow with the job") {
  std::uint32_t last = counter_max;
  for (std::uint32_t n = 2; n <= 120000; n += 1 + n / 64) {
    const config c = planned(n, 0);
    CHECK(c.credits_per_peer <= last);
    CHECK(c.credits_per_peer >= min_credits);
    last = c.credits_per_peer;
  }
}

TEST_CASE("all processes compute the same, and a different setting shows in the fingerprint") {
  CHECK(planned(77, 0).fingerprint() == planned(77, 76).fingerprint());
  overrides o;
  o.lender_limit = 65;
  CHECK(planned(77, 0).fingerprint() != planned(77, 0, o).fingerprint());
}

TEST_CASE("what is left of the last buffer goes to the bank") {
  overrides o = small(5, 100);
  o.buffer_bytes = 4096;
  const config c = planned(8, 0, o);
  CHECK(c.total_credits() == 144);  // 135 rounded up to nine buffers of 16
  CHECK(c.bank == 109);
}

TEST_CASE("a refusal of shares that come from a receive space names that") {
  overrides o;
  o.receive_bytes = 17 * 256;
  CHECK(names(refusal(3, o), "AMRECV_SPACE=4352", "RBUF_COUNT"));
}

TEST_CASE("a receive space that was set is shared: loans first, the rest banked") {
  overrides o;
  o.receive_bytes = 1000 * 256;
  o.credits_per_peer = 100;
  CHECK(planned(8, 0, o).bank == 300);
}

TEST_CASE("a receive space too small for the table's loans lends less") {
  overrides o;
  o.receive_bytes = 100 * 256;
  const config c = planned(8, 0, o);
  CHECK(c.credits_per_peer == 14);
  CHECK(c.bank == 2);
}

TEST_CASE("a negative bank is refused with the space and the loans") {
  overrides o;
  o.receive_bytes = 25600;
  o.credits_per_peer = 20;
  CHECK(names(refusal(8, o), "AMRECV_SPACE=25600", "CRED_PER_NODE=20"));
}

TEST_CASE("a receive space that no count of 32 bits holds is refused") {
  for (const std::int64_t gib : {65, 1000, 1024}) {
    overrides o;
    o.receive_bytes = gib << 30;
    CHECK(names(refusal(3, o), ("AMRECV_SPACE=" + std::to_string(o.receive_bytes)).c_str(),
                (std::to_string(o.receive_bytes / 256) + " credits").c_str()));
  }
  overrides o;
  o.receive_bytes = std::int64_t{64} << 30;
  CHECK(plan(3, 0, o)->total_credits() == 1u << 28);
}

TEST_CASE("loans to all peers above 65536 are refused with both values") {
  overrides o;
  o.credits_per_peer = 400;
  CHECK(names(refusal(1024, o), "CRED_PER_NODE=400", "1023 peers"));
}

TEST_CASE("a loan above the most per peer is refused with both values") {
  overrides o;
  o.credits_per_peer = 500;
  CHECK(names(refusal(4, o), "CRED_PER_NODE=500", "MAX_CRED_PER_NODE=400"));
}

TEST_CASE("less than the minimum is refused") {
  CHECK(names(refusal(4, small(3, 100)), "CRED_PER_NODE=3", "4"));
  overrides o;
  o.bank = -1;
  CHECK(names(refusal(4, o), "BANKED_CREDITS=-1", "0"));
}

TEST_CASE("too few credits for one full-size message are refused") {
  CHECK(names(refusal(4, small(4, 12)), "CRED_PER_NODE=4", "BANKED_CREDITS=12"));
  CHECK(refusal(4, small(4, 13)).empty());
  overrides o = small(16, 500);
  o.dynamic = false;
  CHECK(names(refusal(4, o), "CRED_PER_NODE=16", "17"));
}

TEST_CASE(
    "a device's room cuts what comes from the table, and loans and bank keep their proportion") {
  for (const std::uint32_t ranks : {2u, 8u, 100u, 1024u}) {
    CAPTURE(ranks);
    const config all = planned(ranks, 0);
    overrides o;
    o.room.credits = all.total_credits() / 2;
    const config half = planned(ranks, 0, o);
    CHECK(half.total_credits() == o.room.credits);
    CHECK(half.credits_per_peer == all.credits_per_peer / 2);
    CHECK(half.dynamic);
    CHECK(half.highest_cost == max_cost);
    CHECK(half.fingerprint() != all.fingerprint());
    o.room.credits = all.total_credits();
    CHECK(planned(ranks, 0, o).fingerprint() == all.fingerprint());
  }
}

TEST_CASE("credits move in the least room of a minimum for each rank and the largest message") {
  overrides o;
  o.room.credits = 7 * min_credits + max_wish;
  const config least = planned(8, 0, o);
  CHECK(least.credits_per_peer == min_credits);
  CHECK(least.bank == max_wish);
  --o.room.credits;
  CHECK(names(refusal(8, o), "room for 40", "7 other ranks take 41 at least"));
}

TEST_CASE(
    "in a room where nothing moves, loans are equal, and the largest message costs the minimum") {
  overrides o;
  o.room = {.moves = false, .credits = 15};
  for (std::uint32_t ranks = 2; ranks <= 4; ++ranks) {
    const config c = planned(ranks, 0, o);
    CHECK(c.credits_per_peer == 15 / (ranks - 1));
    CHECK(c.bank == 0);
    CHECK_FALSE(c.dynamic);
    CHECK(c.highest_cost == min_credits);
  }
  CHECK(planned(1, 0, o).total_credits() == 0);
  CHECK(names(refusal(5, o), "room for 15", "4 other ranks take 16 at least"));
}

TEST_CASE("a room bounds nothing that was set") {
  overrides set = small(20, 100);
  const config without = planned(4, 0, set);
  set.room = {.moves = false, .credits = 15};
  CHECK(planned(4, 0, set).fingerprint() == without.fingerprint());
}

TEST_CASE(
    "of two rooms the lesser one is that in which nothing moves, then that of fewer credits") {
  CHECK(room{.moves = false} < room{.moves = true, .credits = 50});
  CHECK(room{.moves = true, .credits = 49} < room{.moves = true, .credits = 50});
  CHECK(room{.moves = true, .credits = 50} < room{});
}

TEST_CASE("a loan's useful size follows from bandwidth and delay") {
  CHECK(bandwidth_delay_credits(12'500'000'000, 10'000) == 488 + max_cost);
  CHECK(bandwidth_delay_credits(1'000'000'000'000, 1'000'000'000) == counter_max);
}
