// Job program of two ranks: messages above 256 bytes, which by queue pairs are placed. A handler's
// payload is its own until it returns, also after it has answered. A message takes no more room at
// its target than it is long, in whole units; one that finds none is refused by try_request, and
// holds up nothing once the target polls. By rings the payloads alone are looked at.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

#include "lib/base/clock.hpp"
#include "penstock/penstock.hpp"
#include "test/conduit/credit_access.hpp"
#include "test/conduit/job_check.hpp"

using namespace penstock;

namespace {

struct party {
  std::atomic<std::uint64_t> handled{0}, answers{0};
  payload_handler<std::uint32_t> request, answer;

  // One in three is answered at once, one with as much as came; what came is looked at afterwards.
  void on_request(token& t, std::span<std::byte> p, std::uint32_t seed) {
    JOB_CHECK(test::holds(p, seed));
    if (seed % 3 != 0) {
      JOB_CHECK(t.reply_medium(answer, p.first(seed % 3 == 1 ? 8 : p.size()), seed) == status::ok);
      for (const std::uint64_t until = now_ns() + 30'000; now_ns() < until;)
        JOB_CHECK(test::holds(p, seed));
    }
    handled.fetch_add(1, std::memory_order_release);
  }
  void on_answer(token&, std::span<std::byte> p, std::uint32_t seed) {
    JOB_CHECK(test::holds(p, seed));
    answers.fetch_add(1, std::memory_order_release);
  }
};

void wait_for(endpoint& ep, const std::atomic<std::uint64_t>& n, std::uint64_t all) {
  JOB_CHECK(ep.wait_until([&] { return n.load(std::memory_order_acquire) >= all; }) == status::ok);
}

std::uint32_t size_of(std::uint32_t i) {
  return 230 + i * 7919u % static_cast<std::uint32_t>(limits::max_eager - 230);
}

// Each sends the other a stream while it handles that one's.
void stream(endpoint& ep, party& me) {
  constexpr std::uint32_t messages = 1500;
  const rank_id other = 1 - ep.rank();
  std::vector<std::byte> payload(limits::max_eager);
  for (std::uint32_t i = 0; i < messages; ++i) {
    const std::span<std::byte> p = std::span(payload).first(size_of(i));
    test::fill(p, i);
    JOB_CHECK(ep.request_medium(other, me.request, std::span<const std::byte>(p), i) == status::ok);
  }
  wait_for(ep, me.handled, messages);
  wait_for(ep, me.answers, messages - messages / 3);
  JOB_CHECK(ep.barrier() == status::ok);
}

// Rank 0 sends to rank 1, which does not poll, as many as find room.
void fill(world& w, endpoint& ep, party& me, std::uint32_t bytes) {
  constexpr std::uint32_t seed = 3;  // has no answer
  const std::uint64_t before = me.handled.load();
  JOB_CHECK(ep.barrier() == status::ok);
  JOB_CHECK(w.exchange({}));
  std::uint32_t sent = 0;
  if (ep.rank() == 0) {
    std::vector<std::byte> payload(bytes);
    test::fill(payload, seed);
    const std::uint32_t room = conduit::test_access::placed_at_once(ep.internals(), 1, bytes, 1);
    const auto m = conduit::medium_of(me.request.index, &seed, 1, payload.data(), bytes);
    status s = status::ok;
    // Beside the space, the chunks of requests bound what is under way. Less than a quarter of the
    // space may be free without rank 0's knowledge, and its end too short. The send queue has room
    // again once the device has sent.
    const auto full = [&] {
      return s == status::no_chunk || (s == status::no_space && sent + 2 >= room * 3 / 4);
    };
    const std::uint64_t until = now_ns() + 20'000'000'000;
    for (unsigned in_vain = 0; room != 0 && in_vain < 1000 && now_ns() < until;
         in_vain = full() ? in_vain + 1 : 0) {
      s = ep.internals().try_request(1, m);
      if (s == status::ok) ++sent;
      (void)ep.poll();
    }
    JOB_CHECK(sent <= room);
    JOB_CHECK(room == 0 || full());
  }
  auto all = w.exchange(std::as_bytes(std::span(&sent, 1)));
  JOB_CHECK(all);
  std::memcpy(&sent, (*all)[0].data(), sizeof sent);
  if (ep.rank() == 1) wait_for(ep, me.handled, before + sent);
  JOB_CHECK(ep.barrier() == status::ok);
}

}  // namespace

int main() {
  auto w = world::join();
  JOB_CHECK(w);
  endpoint ep = test::open_endpoint(*w);
  JOB_CHECK(ep.size() == 2);
  party me;
  me.request = ep.add<&party::on_request>(&me);
  me.answer = ep.add<&party::on_answer>(&me);
  if (auto r = ep.start(); !r) fatal(3, "%s", r.error().message().c_str());
  stream(ep, me);
  for (const std::uint32_t bytes : {257u, 500u, 1000u, 2177u, 4032u})
    if (bytes <= limits::max_eager) fill(*w, ep, me, bytes);
  return 0;
}
