#include "queues/lane.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace penstock;

namespace {

/// A queue pair that keeps what is posted.
struct recorder {
  ibv_context context{};
  ibv_qp qp{};
  std::vector<std::uint64_t> signalled, silent;  // wr_id of each

  recorder() {
    context.ops.post_send = [](ibv_qp* q, ibv_send_wr* wr, ibv_send_wr**) {
      auto& r = *static_cast<recorder*>(q->qp_context);
      ((wr->send_flags & IBV_SEND_SIGNALED) != 0 ? r.signalled : r.silent).push_back(wr->wr_id);
      return 0;
    };
    qp.context = &context;
    qp.qp_context = this;
  }
};

constexpr std::uint32_t depth = 16, identity = 77;
constexpr std::uint64_t half = 1ull << 31, whole = 1ull << 32;

int post(queues::lane& l, queues::holding h = {}, bool signal = false) {
  ibv_send_wr wr{};
  return l.post(wr, identity, h, signal);
}

}  // namespace

TEST_CASE("a lane counts past 2^31 and 2^32, and releases each holding once, in order") {
  for (const std::uint64_t before : {std::uint64_t{0}, half - 40, whole - 40, whole + half - 40}) {
    CAPTURE(before);
    recorder device;
    queues::lane lane;
    lane.open(&device.qp, depth, 0, before);
    std::uint16_t next = 0, released = 0;
    for (int round = 0; round < 40; ++round) {
      for (; lane.has_room(); ++next) REQUIRE(post(lane, {.chunk = next}) == 0);
      REQUIRE(lane.posted() - before == next);
      REQUIRE(device.signalled.size() == depth);
      // A later completion covers those before it, which say nothing new.
      for (const std::size_t i : {std::size_t{7}, std::size_t{3}, std::size_t{15}, std::size_t{15}})
        lane.complete(static_cast<std::uint32_t>(device.signalled[i]),
                      [&](const queues::holding& h) { CHECK(h.chunk == released++); });
      CHECK(released == next);
      CHECK(lane.completed(lane.posted()));
      CHECK(lane.drained());
      device.signalled.clear();
    }
  }
}

TEST_CASE("what was posted 2^31 messages ago has completed, and what comes has not") {
  recorder device;
  queues::lane lane;
  for (const std::uint64_t before : {half + 100, whole + 100, 5 * whole}) {
    lane.open(&device.qp, depth, 0, before);
    CHECK(lane.completed(50));
    CHECK(lane.completed(before));
    CHECK_FALSE(lane.completed(before + 1));
  }
}

TEST_CASE("one work request in a quarter of the depth is signalled, and what asks or holds") {
  recorder device;
  queues::lane lane;
  lane.open(&device.qp, depth, 0, whole - 2);
  for (int i = 0; i < 8; ++i) {
    const bool due = lane.signals_next();
    const std::size_t before = device.signalled.size();
    REQUIRE(post(lane) == 0);
    CHECK((device.signalled.size() != before) == due);
  }
  CHECK(device.signalled.size() == 2);
  REQUIRE(post(lane, {.chunk = 1}) == 0);
  REQUIRE(post(lane, {}, true) == 0);
  CHECK(device.signalled.size() >= 4);
  CHECK((device.signalled.back() >> 32) == identity);
}

TEST_CASE("a lane that was closed goes on with its numbers, and a late completion covers nothing") {
  recorder first, second;
  queues::lane lane;
  lane.open(&first.qp, depth, 0);
  CHECK(lane.empty());
  REQUIRE(post(lane, {.chunk = 5}) == 0);
  REQUIRE(post(lane, {}, true) == 0);
  CHECK_FALSE(lane.empty());
  const auto ignore = [](const queues::holding&) {};
  lane.complete(static_cast<std::uint32_t>(first.signalled[1]), ignore);
  CHECK(lane.empty());
  lane.close();
  CHECK(lane.qp == nullptr);
  const std::uint64_t before = lane.posted();
  lane.open(&second.qp, depth, 0, before);
  CHECK(lane.empty());
  REQUIRE(post(lane, {.chunk = 6}) == 0);
  lane.complete(static_cast<std::uint32_t>(first.signalled[0]), ignore);
  CHECK_FALSE(lane.completed(before + 1));
  unsigned released = 0;
  lane.complete(static_cast<std::uint32_t>(second.signalled[0]),
                [&](const queues::holding& h) { released += h.chunk == 6; });
  CHECK(released == 1);
  CHECK(lane.empty());
}

TEST_CASE(
    "completions of work requests that were not signalled, as errors bring them, give no ticket "
    "back") {
  for (const std::uint64_t before : {std::uint64_t{0}, half - 20, whole - 20}) {
    recorder device;
    queues::lane lane;
    lane.open(&device.qp, 4 * depth, 0, before);
    for (std::uint16_t i = 0; i < 40; ++i)
      REQUIRE(post(lane, i % 7 == 0 ? queues::holding{.chunk = i} : queues::holding{},
                   i % 5 == 0) == 0);
    CHECK(device.signalled.size() > 12);
    CHECK(device.silent.size() > 12);
    for (const std::uint64_t id : device.signalled) CHECK(queues::lane::had_ticket(id));
    for (const std::uint64_t id : device.silent) CHECK(!queues::lane::had_ticket(id));
    unsigned released = 0;
    lane.complete(static_cast<std::uint32_t>(device.silent.back()),
                  [&](queues::holding) { ++released; });
    CHECK(released >= 39);
  }
}
