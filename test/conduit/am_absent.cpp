// Job program: a rank that has sent all it may and does not poll holds up no other: its requests
// are taken, and its replies wait for it. Both ranks communicate through the launcher meanwhile,
// which does not poll.
//   am_absent ROUNDS
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "lib/conduit/engine.hpp"
#include "penstock/penstock.hpp"
#include "test/conduit/job_check.hpp"

using namespace penstock;

namespace {

struct party {
  std::uint64_t handled = 0, answers = 0;
  short_handler<std::uint32_t> request, answer;
  void on_request(token& t, std::uint32_t x) {
    ++handled;
    JOB_CHECK(t.reply_short(answer, x) == status::ok);
  }
  void on_answer(token&, std::uint32_t) { ++answers; }
};

std::uint64_t told(world& w, std::uint64_t mine, rank_id from) {
  const auto all = w.exchange(std::as_bytes(std::span(&mine, 1)));
  JOB_CHECK(all);
  std::uint64_t v = 0;
  std::memcpy(&v, (*all)[from].data(), sizeof v);
  return v;
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 20;
  auto w = world::join();
  if (!w) fatal(3, "%s", w.error().message().c_str());
  JOB_CHECK(w->size() == 2);
  endpoint ep = test::open_endpoint(*w);
  party me;
  me.request = ep.add<&party::on_request>(&me);
  me.answer = ep.add<&party::on_answer>(&me);
  if (auto r = ep.start(); !r) fatal(3, "%s", r.error().message().c_str());
  JOB_CHECK(ep.barrier() == status::ok);

  std::uint64_t sent = 0, fewest = ~0ull;
  for (int round = 0; round < rounds; ++round) {
    if (ep.rank() == 0) {
      const std::uint64_t before = sent;
      const std::uint32_t x[2] = {static_cast<std::uint32_t>(round), 0};
      while (ep.internals().try_request(1, {.handler = me.request.index, .nargs = 1, .args = x}) ==
             status::ok)
        ++sent;
      fewest = std::min(fewest, sent - before);
    }
    const std::uint64_t all = told(*w, sent, 0);
    if (ep.rank() == 1) JOB_CHECK(ep.wait_until([&] { return me.handled >= all; }) == status::ok);
    (void)told(*w, 0, 1);  // rank 0 waits here
    if (ep.rank() == 0) {
      JOB_CHECK(ep.wait_until([&] { return me.answers == sent; }) == status::ok);
      for (int i = 0; i < round; ++i) {  // the next round begins elsewhere in the queues
        JOB_CHECK(ep.request_short(1, me.request, 0) == status::ok);
        ++sent;
      }
    }
    const std::uint64_t more = told(*w, sent, 0);
    if (ep.rank() == 1) JOB_CHECK(ep.wait_until([&] { return me.handled >= more; }) == status::ok);
  }
  if (ep.rank() == 0) {
    JOB_CHECK(ep.wait_until([&] { return me.answers == sent; }) == status::ok);
    const bool rings = ep.device() == "shm0" && ep.internals().options().direct;
    JOB_CHECK(fewest >= (rings ? 100 : 1));
  }
  JOB_CHECK(ep.barrier() == status::ok);
  return 0;
}
