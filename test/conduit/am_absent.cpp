// Job program: a rank that has sent all it may and does not poll holds up no other: its requests
// are taken, and its replies wait for it. Both ranks communicate through the launcher meanwhile,
// which does not poll. In every second round the requests are Mediums of two credits each: by rings
// as many can be under way as have slots for their replies, not half as many.
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
  payload_handler<std::uint32_t> large;
  void on_request(token& t, std::uint32_t x) {
    ++handled;
    JOB_CHECK(t.reply_short(answer, x) == status::ok);
  }
  void on_large(token& t, std::span<std::byte>, std::uint32_t x) { on_request(t, x); }
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
  party me;
  endpoint ep = test::open_endpoint(*w);
  me.request = ep.add<&party::on_request>(&me);
  me.large = ep.add<&party::on_large>(&me);
  me.answer = ep.add<&party::on_answer>(&me);
  if (auto r = ep.start(); !r) fatal(3, "%s", r.error().message().c_str());
  JOB_CHECK(ep.barrier() == status::ok);

  constexpr std::size_t two_credits = 300;
  const std::byte payload[two_credits]{};
  std::uint64_t sent = 0, fewest[2] = {~0ull, ~0ull};
  if (ep.rank() == 0) {  // by queue pairs the first one connects
    JOB_CHECK(ep.request_medium(1, me.large, payload, 0) == status::ok);
    ++sent;
  }
  JOB_CHECK(ep.wait_until([&] { return me.answers == sent && me.handled == ep.rank(); }) ==
            status::ok);
  for (int round = 0; round < rounds; ++round) {
    if (ep.rank() == 0) {
      const std::uint64_t before = sent;
      const std::uint32_t x[2] = {static_cast<std::uint32_t>(round), 0};
      conduit::outgoing m{.handler = me.request.index, .nargs = 1, .args = x};
      if (round % 2 != 0) {
        m.kind = conduit::wire::kind::medium;
        m.handler = me.large.index;
        m.payload = payload;
        m.bytes = sizeof payload;
      }
      // One that finds no room takes completions, so only the second refusal in a row counts.
      for (int refused = 0; refused < 2;) {
        refused = ep.internals().try_request(1, m) == status::ok ? 0 : refused + 1;
        if (refused == 0) ++sent;
      }
      fewest[round % 2] = std::min(fewest[round % 2], sent - before);
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
    const auto least = [&](unsigned kind, std::uint64_t by_rings) {
      JOB_CHECK(fewest[kind] >= (rings ? by_rings : 1));
    };
    least(0, 100);
    least(1, 140);  // 400 credits are lent
  }
  JOB_CHECK(ep.barrier() == status::ok);
  return 0;
}
