// Job program: after quiet() and a barrier every request of every rank has been handled, though
// none is answered and none is counted.
//   quiet ROUNDS   all to all, by Shorts, Mediums of any size and Longs, in PAR from two threads
//   quiet left     the last rank leaves early: quiet() of a rank that sent to it fails, and none
//   hangs
#include <atomic>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <vector>

#include "lib/base/build_mode.hpp"
#include "test/conduit/job_check.hpp"

using namespace penstock;

namespace {

constexpr unsigned senders = concurrent(build_mode) ? 2 : 1;
constexpr std::size_t longest = 3000;

std::atomic<unsigned> handled{0};

void on_short(token&, std::uint32_t) { handled.fetch_add(1, std::memory_order_relaxed); }
void on_payload(token&, std::span<std::byte> payload, std::uint32_t seed) {
  JOB_CHECK(test::holds(payload, seed));
  if (senders > 1 && seed % 64 == 0) std::this_thread::yield();  // others poll meanwhile
  handled.fetch_add(1, std::memory_order_relaxed);
}

struct table {
  short_handler<std::uint32_t> brief;
  payload_handler<std::uint32_t> full;
};

// What a thread sends to each rank in a round.
constexpr unsigned messages_of(rank_id from, unsigned round) { return (from * 7 + round * 5) % 40; }

void send_all(endpoint& ep, const table& t, unsigned round, unsigned thread) {
  std::vector<std::byte> payload(longest);
  for (unsigned i = 0; i < messages_of(ep.rank(), round); ++i)
    for (rank_id r = 0; r < ep.size(); ++r) {
      const std::uint32_t seed = (round * 40 + i) * 2 + thread;
      const auto some = std::span(payload).first(seed * 131 % longest);
      status s = status::ok;
      if (i % 3 == 0) {
        s = ep.request_short(r, t.brief, seed);
      } else if (i % 3 == 1) {
        test::fill(some, seed);
        s = ep.request_medium(r, t.full, some, seed);
      } else {
        test::fill(some, seed);
        // A place for each message of a round: no handler sees another's bytes.
        auto* const there =
            ep.segment_of(r).data() + ((ep.rank() * senders + thread) * 40 + i) * longest;
        s = ep.request_long(r, t.full, some, there, seed);
      }
      JOB_CHECK(s == status::ok);
    }
}

void run(endpoint& ep, const table& t, unsigned rounds) {
  unsigned expected = 0;
  for (unsigned round = 0; round < rounds; ++round) {
    std::vector<std::thread> others;
    for (unsigned i = 1; i < senders; ++i)
      others.emplace_back([&, i] { send_all(ep, t, round, i); });
    send_all(ep, t, round, 0);
    for (std::thread& o : others) o.join();
    JOB_CHECK(ep.quiet() == status::ok);
    JOB_CHECK(ep.barrier() == status::ok);
    for (rank_id r = 0; r < ep.size(); ++r) expected += messages_of(r, round) * senders;
    // Nothing is polled here: all has been handled.
    JOB_CHECK(handled.load(std::memory_order_relaxed) == expected);
    JOB_CHECK(ep.barrier() == status::ok);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view what = argc > 1 ? argv[1] : "3";
  auto w = world::join();
  if (!w) fatal(3, "%s", w.error().message().c_str());
  endpoint ep = test::open_endpoint(*w);
  const table t{ep.add<&on_short>(), ep.add<&on_payload>()};
  const std::size_t room = ep.size() * senders * 40 * longest;
  if (const auto started = ep.start(room); !started)
    fatal(3, "%s", started.error().message().c_str());
  JOB_CHECK(ep.quiet() == status::ok);  // nothing was sent
  if (what != "left") {
    run(ep, t, static_cast<unsigned>(std::atoi(argv[1])));
    return 0;
  }
  const rank_id last = ep.size() - 1;
  JOB_CHECK(ep.request_short(last, t.brief, 0) == status::ok);
  JOB_CHECK(ep.quiet() == status::ok);
  JOB_CHECK(ep.barrier() == status::ok);
  if (ep.rank() == last) return 0;
  status s = status::ok;
  while (!is_failure(s)) s = ep.quiet();
  JOB_CHECK(s == status::peer_dead);
  return 0;
}
