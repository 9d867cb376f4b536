// Job program for two processes whose threads are spread over domains: rank 0 has a thread in each
// domain and rank 1 only one thread, which must therefore take the messages of all domains; then
// the other way round. With puts and gets of each thread.
//   domains [MESSAGES]
#include <atomic>
#include <cstdlib>
#include <thread>
#include <vector>

#include "penstock/penstock.hpp"
#include "penstock/rma.hpp"
#include "test/conduit/job_check.hpp"

using namespace penstock;

namespace {

constexpr unsigned threads = 4;
constexpr std::size_t share = 20'000;  // bytes of the segment that each thread writes

struct party {
  std::atomic<std::uint64_t> handled{0};
  std::atomic<std::uint64_t> answers[threads] = {};
  short_handler<std::uint32_t> answer;
  void on_request(token& t, std::uint32_t who) {
    handled.fetch_add(1, std::memory_order_relaxed);
    JOB_CHECK(t.reply_short(answer, who) == status::ok);
  }
  void on_medium(token& t, std::span<std::byte> payload, std::uint32_t who) {
    JOB_CHECK(test::holds(payload, who));
    on_request(t, who);
  }
  void on_answer(token&, std::uint32_t who) {
    answers[who].fetch_add(1, std::memory_order_relaxed);
  }
};

}  // namespace

int main(int argc, char** argv) {
  const auto messages = static_cast<std::uint32_t>(argc > 1 ? std::atoi(argv[1]) : 2000);
  auto w = world::join();
  JOB_CHECK(w);
  party me;
  endpoint ep = test::open_endpoint(*w);
  const auto on_short = ep.add<&party::on_request>(&me);
  const auto on_medium = ep.add<&party::on_medium>(&me);
  me.answer = ep.add<&party::on_answer>(&me);
  if (auto r = ep.start(threads * share); !r) fatal(3, "%s", r.error().message().c_str());
  remote_memory mem(ep);

  const auto work = [&](unsigned who) {
    std::vector<std::byte> payload(ep.max_medium()), written(share), read(share);
    test::fill(payload, who);
    for (std::uint32_t i = 0; i < messages; ++i)
      JOB_CHECK((i % 8 != 7 ? ep.request_short(1 - ep.rank(), on_short, who)
                            : ep.request_medium(1 - ep.rank(), on_medium, std::span(payload),
                                                who)) == status::ok);
    JOB_CHECK(ep.wait_until([&] {
      return me.answers[who].load(std::memory_order_relaxed) == messages;
    }) == status::ok);
    test::fill(written, who + 100);
    std::byte* const there = ep.segment_of(1 - ep.rank()).data() + who * share;
    JOB_CHECK(mem.put(1 - ep.rank(), there, written) == status::ok);
    JOB_CHECK(mem.get(read, 1 - ep.rank(), there) == status::ok);
    JOB_CHECK(test::holds(read, who + 100));
  };

  for (const rank_id sender : {0u, 1u}) {
    for (auto& a : me.answers) a = 0;
    me.handled = 0;
    JOB_CHECK(ep.barrier() == status::ok);
    // The sender of the second turn is alone too: its peer's threads have ended.
    const unsigned senders = sender == 0 ? threads : 1;
    if (ep.rank() == sender) {
      std::vector<std::thread> others;
      for (unsigned t = 1; t < senders; ++t) others.emplace_back(work, t);
      work(0);
      for (auto& t : others) t.join();
    } else {
      JOB_CHECK(ep.wait_until([&] {
        return me.handled.load(std::memory_order_relaxed) == std::uint64_t{senders} * messages;
      }) == status::ok);
    }
    JOB_CHECK(ep.barrier() == status::ok);
  }
  return 0;
}
