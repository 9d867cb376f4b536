#include "queues/completion_room.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <thread>
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
