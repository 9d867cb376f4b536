// Posted receives (nic/shm/receive_queue.hpp): what the queue says of their sizes, on which senders
// decide whether they may call a message delivered.
#include "nic/shm/receive_queue.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <deque>
#include <random>

using penstock::nic::shm::receive_queue;
using penstock::nic::shm::receive_work;

namespace {

struct queue_of {
  receive_queue queue;
  std::deque<std::uint32_t> sizes;  ///< of the receives that are posted

  explicit queue_of(std::uint32_t capacity) { queue.size(capacity, 1); }
  void post(std::uint32_t length) {
    ibv_sge s{0, length, 1};
    ibv_recv_wr wr{};
    wr.sg_list = &s;
    wr.num_sge = 1;
    REQUIRE(queue.post(wr) == 0);
    sizes.push_back(length);
  }
  void take() {
    receive_work w;
    ibv_sge s;
    REQUIRE(queue.take(w, &s));
    REQUIRE(s.length == sizes.front());
    sizes.pop_front();
  }
};

}  // namespace

TEST_CASE("a message that fits the floor fits each receive that is posted, whatever came before") {
  std::mt19937 random(11);
  for (int round = 0; round < 200; ++round) {
    queue_of q(1 + random() % 40);
    const std::uint32_t range = 1 + random() % 1000;
    for (int i = 0; i < 500; ++i) {
      if (random() % 2 != 0 && q.sizes.size() < q.queue.capacity())
        q.post(random() % range);
      else if (!q.sizes.empty())
        q.take();
      if (!q.sizes.empty())
        CHECK(q.queue.floor() <= *std::min_element(q.sizes.begin(), q.sizes.end()));
    }
  }
}

TEST_CASE(
    "small receives are forgotten when they have been taken, though the queue is never empty") {
  constexpr std::uint32_t capacity = 16;
  queue_of q(capacity);
  for (std::uint32_t i = 0; i < capacity; ++i) q.post(2);
  for (std::uint32_t length = 4; length < 1u << 24; length *= 2) {
    for (std::uint32_t i = 0; i < 3 * capacity; ++i) {
      q.take();
      q.post(length);
    }
    CHECK(q.queue.floor() == length);
  }
}

TEST_CASE("a floor of 0 is not yet a doubt about what was posted later") {
  queue_of q(8);
  q.post(0);
  q.post(100);
  CHECK(q.queue.floor() == 0);
  CHECK_FALSE(q.queue.doubted());
  q.queue.doubt();
  CHECK(q.queue.doubted());
  q.take();
  q.post(100);
  CHECK(q.queue.floor() == 0);
}

TEST_CASE("receives that are in doubt make the floor 0 as long as they are posted") {
  queue_of q(8);
  for (int i = 0; i < 4; ++i) q.post(100);
  q.queue.doubt();
  for (int i = 0; i < 4; ++i) {
    q.post(100);
    CHECK(q.queue.floor() == 0);
    q.take();
  }
  for (int i = 0; i < 16; ++i) {
    q.take();
    q.post(100);
  }
  CHECK(q.queue.floor() == 100);
}
