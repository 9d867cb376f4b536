#include "queues/completion_room.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <thread>
#include <utility>
#include <vector>

#include "queues/dimensions.hpp"

using namespace penstock;
using queues::room_share;

TEST_CASE("requests leave a quarter of the tickets to replies, which take the last one") {
  queues::completion_room<thread_mode::seq> room;
  room.open(16);
  unsigned taken = 0;
  while (room.try_take(room_share::requests)) ++taken;
  CHECK(taken == 12);
  while (room.try_take(room_share::all)) ++taken;
  CHECK(taken == 16);
  CHECK(room.free() == 0);
  room.give(4);
  CHECK_FALSE(room.try_take(room_share::requests));
  room.give(1);
  CHECK(room.try_take(room_share::requests));
  CHECK(room.free() == 4);
}

TEST_CASE(
    "tickets of a queue that was made longer are found by who finds no other, a quarter kept") {
  queues::completion_room<thread_mode::seq> room;
  room.open(16);
  for (int i = 0; i < 12; ++i) REQUIRE(room.try_take(room_share::requests));
  CHECK_FALSE(room.try_take(room_share::requests));
  room.grow(16);
  CHECK(room.tickets() == 32);
  unsigned taken = 12;
  while (room.try_take(room_share::requests)) ++taken;
  CHECK(taken == 24);
  while (room.try_take(room_share::all)) ++taken;
  CHECK(taken == 32);
  CHECK(room.most() == 32);
}

TEST_CASE("threads never hold more tickets than there are, and none is lost") {
  constexpr std::int32_t tickets = 20;
  queues::completion_room<thread_mode::par> room;
  room.open(tickets);
  std::atomic<std::int32_t> held{0}, most{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20'000; ++i) {
        std::uint32_t mine = 0;
        while (mine < 9 && room.try_take(t == 0 ? room_share::all : room_share::requests)) {
          ++mine;
          const std::int32_t now = held.fetch_add(1) + 1;
          std::int32_t seen = most.load();
          while (now > seen && !most.compare_exchange_weak(seen, now)) {
          }
        }
        held.fetch_sub(static_cast<std::int32_t>(mine));
        room.give(mine);
      }
    });
  for (auto& t : threads) t.join();
  CHECK(most.load() <= tickets);
  CHECK(room.free() == tickets);
}

namespace {

ibv_device_attr roomy() {
  ibv_device_attr a{};
  a.max_cqe = 1 << 16;
  a.max_srq_wr = 1 << 15;
  a.max_qp_wr = 1 << 14;
  a.max_srq = 1 << 10;
  return a;
}

}  // namespace

TEST_CASE("a device too small for a queue is refused by name, and only sends have fewer tickets") {
  queues::dimensions d;
  d.peers = 100;
  d.credits = 20'000;
  CHECK(d.fit(roomy(), "dev0").has_value());
  const std::uint32_t wanted = d.send_completions(roomy());
  CHECK(wanted == 256 + 128 + 8 * 101 + 64);

  ibv_device_attr few = roomy();
  few.max_cqe = static_cast<int>(wanted) - 100;
  CHECK(d.send_completions(few) == wanted - 100);
  auto refused = d.fit(few, "dev0");
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().message().find("the completion queue of requests needs 21213 entries, and "
                                       "dev0 allows 1156") != std::string::npos);
  // Where the user has set the limit, that is to blame, and not the device.
  refused = d.fit(few, "dev0", true);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().message().find("PENSTOCK_MAX_CQE allows 1156") != std::string::npos);

  few = roomy();
  few.max_srq_wr = 16'383;  // as on mlx4
  refused = d.fit(few, "dev0");
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().message().find("the receive queue of small requests") == 0);

  d.credits = 100;
  few.max_srq_wr = 600;
  refused = d.fit(few, "dev0");
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().message().find("the receive queue of replies") == 0);
  few.max_cqe = 600;
  refused = d.fit(few, "dev0");
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().message().find("the completion queue of replies") == 0);

  few = roomy();
  few.max_cqe = 500;
  d.loan = 1;
  const std::uint32_t most = d.most_peers(few);
  CHECK(most < d.peers);
  CHECK(d.for_peers(most).fit(few, "dev0").has_value());
  CHECK_FALSE(d.for_peers(most + 1).fit(few, "dev0").has_value());
  CHECK(d.most_peers(roomy()) == d.peers);

  few = roomy();
  few.max_srq = 2;
  refused = d.fit(few, "dev0");
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().message().find("dev0 allows 2 shared receive queues") == 0);

  few = roomy();
  few.max_qp_wr = 63;
  refused = d.fit(few, "dev0");
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().message().find("PENSTOCK_OP_OUST_PP") != std::string::npos);
}

TEST_CASE(
    "sizes are bounded by a short device: the send queue, the chunks of requests, and no others") {
  queues::dimensions d;
  d.peers = 3;
  d.credits = 25;
  CHECK(d.bounded(roomy()).depth == d.depth);
  CHECK(d.bounded(roomy()).request_chunks == d.request_chunks);

  ibv_device_attr few = roomy();
  few.max_cqe = 100;
  few.max_srq_wr = 80;
  few.max_qp_wr = 12;
  CHECK_FALSE(d.fit(few, "dev0").has_value());
  const queues::dimensions bounded = d.bounded(few);
  CHECK(bounded.fit(few, "dev0").has_value());
  CHECK(bounded.depth == 12);
  CHECK(bounded.reply_receives() == 80);
  CHECK(bounded.small_receives() == d.small_receives());

  // Where fewer chunks do not suffice, they stay as they are.
  few.max_srq_wr = static_cast<int>(d.reply_receives() - d.request_chunks) + 7;
  CHECK(d.bounded(few).request_chunks == d.request_chunks);
  ++few.max_srq_wr;
  CHECK(d.bounded(few).request_chunks == 8);
}

TEST_CASE("the most credits fill the tightest queue of requests, and one more does not fit") {
  for (const auto& limits : {std::pair{16'383, 1 << 16}, {1 << 15, 20'000}, {100, 90}}) {
    CAPTURE(limits.first);
    ibv_device_attr few = roomy();
    few.max_srq_wr = limits.first;
    few.max_cqe = limits.second;
    queues::dimensions d;
    d.peers = 1;
    d.credits = d.most_credits(few);
    d.words = d.more_replies = 0;
    d = d.bounded(few);
    CHECK(d.fit(few, "dev0").has_value());
    ++d.credits;
    CHECK_FALSE(d.fit(few, "dev0").has_value());
  }
  ibv_device_attr few = roomy();
  few.max_srq_wr = 32;  // as much as the spares hold back
  queues::dimensions d;
  CHECK(d.most_credits(few) == 0);
  CHECK(d.lean(1).most_credits(few) == 31);
}

TEST_CASE("a queue of 16 receives has room for 15 credits of three peers and eight chunks") {
  ibv_device_attr few = roomy();
  few.max_srq_wr = few.max_qp_wr = 16;
  few.max_cqe = 32;
  queues::dimensions d;
  d.peers = 3;
  d.words = 0;
  d.full_cost = 4;
  d = d.lean(1).bounded(few);
  d.credits = d.most_credits(few);
  CHECK(d.credits == 15);
  CHECK(d.fit(few, "dev0").has_value());
  CHECK(d.request_chunks == 15);
  CHECK(d.lean(2).bounded(few).request_chunks == 14);
}

TEST_CASE("a credit takes at most 300 bytes where messages are placed, spares and space included") {
  struct job {
    std::uint32_t peers, loan, bank;
  };
  for (const job j : {job{1, 400, 512}, {7, 400, 1024}, {15, 128, 4096}})
    for (const std::uint32_t spares : {2u, 5u}) {
      CAPTURE(j.peers);
      CAPTURE(spares);
      queues::dimensions d;
      d.peers = j.peers;
      d.credits = j.peers * j.loan + j.bank;
      d.spares = spares;
      d = d.placed();
      CHECK(d.space >= 4 * d.full_bytes);
      CHECK(d.space % queues::placing::unit == 0);
      CHECK(d.bulk_receives() == 0);
      CHECK(d.receive_bytes() <= std::size_t{300} * d.credits);
      CHECK(d.receive_bytes() >= std::size_t{290} * d.credits);
    }
}

TEST_CASE("messages are placed only where each sender has room for four of the longest") {
  queues::dimensions d;
  d.peers = 10;
  d.credits = 1000;
  CHECK(d.placed().space == 0);
  CHECK(d.placed().bulk_receives() == d.bulk_receives());
  d.credits = 5000;
  CHECK(d.placed().space != 0);
  d.peers = 1000;
  d.credits = 1'000'000;
  CHECK(d.placed().space == 0);  // blocks are for those that are there from the start
  d.near = 990;
  CHECK(d.placed().space == 0);  // of whom others may have more peers by queue pairs
  d.peers = 60;
  d.near = 50;
  CHECK(d.placed().space != 0);
  CHECK(d.placed().space <= queues::placing::most_bytes);
}
