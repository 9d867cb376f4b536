// Job program: every rank sends to every other at random, all kinds mixed, from one thread or
// several; the messages handled are those sent, to the byte, and all credits are back at the end.
//   am_flood MESSAGES|FILE [THREADS]      FILE, an absolute path: floods until there is such a file
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <thread>
#include <vector>

#include "lib/conduit/engine.hpp"
#include "penstock/penstock.hpp"
#include "test/conduit/job_check.hpp"

using namespace penstock;

namespace {

struct party {
  std::vector<std::atomic<std::uint64_t>> from;  // requests handled, by sender
  std::atomic<std::uint64_t> sum{0}, answers{0};
  short_handler<std::uint32_t> answer;

  void on_short(token& t, std::uint32_t x, std::uint32_t want) { count(t, x, want); }
  void on_medium(token& t, std::span<std::byte> p, std::uint32_t x, std::uint32_t want) {
    JOB_CHECK(test::holds(p, x));
    count(t, x, want);
  }
  void on_long(token& t, std::span<std::byte> p, std::uint32_t x, std::uint32_t want) {
    JOB_CHECK(test::holds(p, x));
    count(t, x, want);
  }
  void on_answer(token&, std::uint32_t) { answers.fetch_add(1, std::memory_order_release); }
  void count(token& t, std::uint32_t x, std::uint32_t want) {
    sum.fetch_add(x, std::memory_order_relaxed);
    from[t.source()].fetch_add(1, std::memory_order_relaxed);
    if (want != 0) JOB_CHECK(t.reply_short(answer, x) == status::ok);
  }
};

}  // namespace

int main(int argc, char** argv) {
  const char* const until = argc > 1 && argv[1][0] == '/' ? argv[1] : nullptr;
  const std::uint64_t messages = until != nullptr ? std::numeric_limits<std::uint64_t>::max()
                                 : argc > 1       ? std::strtoull(argv[1], nullptr, 10)
                                                  : 20000;
  const unsigned threads = argc > 2 ? static_cast<unsigned>(std::atoi(argv[2])) : 1;
  auto w = world::join();
  if (!w) fatal(3, "%s", w.error().message().c_str());
  party me;
  endpoint ep = test::open_endpoint(*w);
  me.from = std::vector<std::atomic<std::uint64_t>>(ep.size());
  const auto s = ep.add<&party::on_short>(&me);
  const auto m = ep.add<&party::on_medium>(&me);
  const auto l = ep.add<&party::on_long>(&me);
  me.answer = ep.add<&party::on_answer>(&me);
  // A place in every segment for each sender's thread, since a Long's place is free only after its
  // handler.
  const std::size_t place = 4 * ep.max_medium() + 256;
  if (auto r = ep.start(place * threads * ep.size()); !r)
    fatal(3, "%s", r.error().message().c_str());
  if (ep.rank() == 0) std::puts("flooding");
  std::fflush(stdout);

  std::atomic<std::uint64_t> sent_sum{0}, asked{0};
  std::vector<std::atomic<std::uint64_t>> sent(ep.size());
  const auto work = [&](unsigned id) {
    std::uint64_t x = 88172645463325252ull + ep.rank() * 977 + id * 131071;
    std::vector<std::byte> payload(place);
    for (std::uint64_t i = 0; i < messages; ++i) {
      if (until != nullptr && i % 256 == 0 && access(until, F_OK) == 0) break;
      x ^= x << 13, x ^= x >> 7, x ^= x << 17;
      const auto to = static_cast<rank_id>((x >> 8) % ep.size());
      const auto seed = static_cast<std::uint32_t>(x >> 32);
      const std::uint32_t want = x >> 4 & 3 ? 0 : 1;
      const std::size_t bytes = (x >> 20) % ((x & 7) == 0 ? ep.max_medium() + 1 : 300);
      status r = status::ok;
      if ((x & 15) == 15) {
        // Answered always, so that the place is free for the next.
        const std::uint64_t before = me.answers.load(std::memory_order_acquire);
        test::fill({payload.data(), bytes * 4}, seed);
        (void)before;
        r = threads == 1
                ? ep.request_long(to, l, std::span(payload).first(bytes * 4),
                                  ep.segment_of(to).data() + (ep.rank() * threads + id) * place,
                                  seed, 1u)
                : ep.request_short(to, s, seed, 1u);
        asked.fetch_add(1);
        if (threads == 1)
          JOB_CHECK(ep.wait_until([&] {
            return me.answers.load(std::memory_order_acquire) >=
                   asked.load(std::memory_order_relaxed);
          }) == status::ok);
      } else if ((x & 1) != 0) {
        r = ep.request_short(to, s, seed, want);
        asked.fetch_add(want);
      } else {
        test::fill({payload.data(), bytes}, seed);
        r = ep.request_medium(to, m, std::span(payload).first(bytes), seed, want);
        asked.fetch_add(want);
      }
      JOB_CHECK(r == status::ok);
      sent[to].fetch_add(1, std::memory_order_relaxed);
      sent_sum.fetch_add(seed, std::memory_order_relaxed);
    }
  };
  std::vector<std::thread> others;
  for (unsigned t = 1; t < threads; ++t) others.emplace_back(work, t);
  work(0);
  // The main thread polls on: others may wait for it to take their messages.
  std::atomic<bool> joined{others.empty()};
  std::thread joiner([&] {
    for (auto& t : others) t.join();
    joined.store(true, std::memory_order_release);
  });
  JOB_CHECK(ep.wait_until([&] { return joined.load(std::memory_order_acquire); }) == status::ok);
  joiner.join();

  // What each sent to each, and the sums, through the launcher.
  std::vector<std::uint64_t> mine(ep.size() + 1);
  for (rank_id r = 0; r < ep.size(); ++r) mine[r] = sent[r].load();
  mine[ep.size()] = sent_sum.load();
  JOB_CHECK(ep.barrier() == status::ok);
  auto all = w->exchange(std::as_bytes(std::span(mine)));
  JOB_CHECK(all);
  const auto at = [&](rank_id r, std::size_t i) {
    std::uint64_t v;
    std::memcpy(&v, (*all)[r].data() + i * 8, 8);
    return v;
  };
  for (rank_id r = 0; r < ep.size(); ++r)
    JOB_CHECK(ep.wait_until([&] { return me.from[r].load() >= at(r, ep.rank()); }) == status::ok);
  JOB_CHECK(ep.wait_until([&] { return me.answers.load() >= asked.load(); }) == status::ok);
  for (int i = 0; i < 2000; ++i) (void)ep.poll();
  for (rank_id r = 0; r < ep.size(); ++r) JOB_CHECK(me.from[r].load() == at(r, ep.rank()));
  JOB_CHECK(me.answers.load() == asked.load());
  JOB_CHECK(ep.barrier() == status::ok);
  return 0;
}
