// Job program: the figures of endpoint::counters() are those that the program itself has counted,
// message by message. All ranks send all ranks, themselves included, requests of every kind, which
// are answered by replies of every kind or not at all. And each rank is reached by the path that
// the settings give it.
//   counted MESSAGES [puts] [hosts=N]
// puts: also puts and gets, all of which go to the device (by verbs). hosts: that many have been
// started on, with equal parts of the ranks.
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string_view>
#include <vector>

#include "lib/base/limits.hpp"
#include "lib/conduit/engine.hpp"
#include "penstock/rma.hpp"
#include "test/conduit/job_check.hpp"

using namespace penstock;

namespace {

constexpr std::uint32_t room = 1 << 20;  // of the segment, for each rank
enum kind : std::uint32_t { shorts, mediums, longs, kinds };

struct sums {
  message_counters sent, handled, replied, answered;
  std::uint64_t rendezvous = 0;
};

void note(message_counters& c, std::uint32_t k, std::size_t bytes) {
  if (k == shorts) ++c.shorts;
  if (k == mediums) ++c.mediums, c.medium_bytes += bytes;
  if (k == longs) ++c.longs, c.long_bytes += bytes;
}

struct side {
  endpoint* ep = nullptr;
  std::vector<sums> with;
  std::vector<std::byte> payload;
  std::uint64_t outstanding = 0;
  std::vector<std::uint64_t> expected;
  std::vector<std::uint32_t> used;  // of its room in each rank's segment
  short_handler<std::uint32_t> short_answer;
  payload_handler<std::uint32_t> payload_answer;

  void note_rendezvous(rank_id to, std::uint32_t k, std::size_t bytes) {
    if (k == mediums && bytes > limits::max_eager && to != ep->rank()) ++with[to].rendezvous;
  }
  // Two Longs on their way never write to one place: that would be this program's own race.
  std::byte* place(rank_id to, std::size_t bytes) {
    if (used[to] + bytes > room) used[to] = 0;
    const std::uint32_t at = used[to];
    used[to] += static_cast<std::uint32_t>(bytes);
    return ep->segment_of(to).data() + std::size_t{room} * ep->rank() + at;
  }
  // wanted: the kind of the answer; kinds: none.
  void answer(token& t, std::uint32_t wanted) {
    const std::size_t some_bytes = (wanted * 977 + with[t.source()].handled.shorts) % 4000;
    const bool large = wanted == mediums && with[t.source()].replied.mediums % 16 == 5;
    const std::size_t bytes = wanted == shorts ? 0 : large ? 20000 + some_bytes : some_bytes;
    const auto some = std::span<const std::byte>(payload).first(bytes);
    status s = status::ok;
    if (wanted == shorts) s = t.reply_short(short_answer, wanted);
    if (wanted == mediums) s = t.reply_medium(payload_answer, some, wanted);
    if (wanted == longs) s = t.reply_long(payload_answer, some, place(t.source(), bytes), wanted);
    JOB_CHECK(s == status::ok);
    note(with[t.source()].replied, wanted, bytes);
    note_rendezvous(t.source(), wanted, bytes);
  }
  void on_short(token& t, std::uint32_t wanted) {
    note(with[t.source()].handled, shorts, 0);
    answer(t, wanted);
  }
  void on_payload(token& t, std::span<std::byte> p, std::uint32_t k, std::uint32_t wanted) {
    note(with[t.source()].handled, k, p.size());
    answer(t, wanted);
  }
  void on_total(token& t, std::uint64_t n) {
    note(with[t.source()].handled, shorts, 0);
    expected[t.source()] = n;
  }
  void on_short_answer(token& t, std::uint32_t) {
    note(with[t.source()].answered, shorts, 0);
    --outstanding;
  }
  void on_payload_answer(token& t, std::span<std::byte> p, std::uint32_t k) {
    note(with[t.source()].answered, k, p.size());
    --outstanding;
  }
};

void check_same(const char* what, rank_id r, const message_counters& said,
                const message_counters& mine) {
  for (const auto& row : message_counter_rows) {
    if (row.field == &message_counters::own || said.*row.field == mine.*row.field) continue;
    fatal(9, "%s, rank %u, %s: counted %llu, the program %llu", what, r, row.name,
          static_cast<unsigned long long>(said.*row.field),
          static_cast<unsigned long long>(mine.*row.field));
  }
}

// By which way messages to r should go: `most` ranks of a host share memory.
std::string_view way_to(endpoint& ep, rank_id r, rank_id most) {
  if (r == ep.rank()) return "self";
  const settings& s = ep.internals().options();
  const bool near = most == 0 || r / most == ep.rank() / most;
  return s.direct && near ? "rings" : "verbs";
}

// Each goes to the device: to the segment of the next rank, by verbs.
void move_bytes(endpoint& ep) {
  remote_memory r(ep);
  const rank_id to = (ep.rank() + 1) % ep.size();
  std::vector<std::byte> mine(5000);
  std::byte* const there = ep.segment_of(to).data() + room * ep.rank();
  for (const std::size_t n : {std::size_t{8}, std::size_t{1000}, mine.size()}) {
    JOB_CHECK(r.put(to, there, std::span(mine).first(n)) == status::ok);
    JOB_CHECK(r.get(std::span(mine).first(n), to, there) == status::ok);
  }
  for (const peer_counters& p : ep.counters().peers) {
    if (p.rank != to) continue;
    JOB_CHECK(p.puts == 3 && p.put_bytes == 6008);
    JOB_CHECK(p.gets == 3 && p.get_bytes == 6008);
    JOB_CHECK(p.transfers_most != 0 && p.transfers_most <= 3);
    return;
  }
  JOB_CHECK(!"counted");
}

}  // namespace

int main(int argc, char** argv) {
  const auto each = static_cast<std::uint32_t>(argc > 1 ? std::atoll(argv[1]) : 1000);
  auto w = world::join();
  JOB_CHECK(w);
  side here;
  endpoint ep = test::open_endpoint(*w);
  here.ep = &ep;
  here.with.resize(ep.size());
  here.payload.resize(limits::max_medium);
  const auto on_short = ep.add<&side::on_short>(&here);
  const auto on_payload = ep.add<&side::on_payload>(&here);
  here.expected.resize(ep.size());
  here.used.resize(ep.size());
  const auto on_total = ep.add<&side::on_total>(&here);
  here.short_answer = ep.add<&side::on_short_answer>(&here);
  here.payload_answer = ep.add<&side::on_payload_answer>(&here);
  if (auto r = ep.start(std::size_t{room} * ep.size()); !r)
    fatal(3, "%s", r.error().message().c_str());
  JOB_CHECK(ep.barrier() == status::ok);

  std::minstd_rand dice(7 + ep.rank());
  const auto throw_dice = [&](std::uint32_t n) { return static_cast<std::uint32_t>(dice() % n); };
  for (std::uint32_t i = 0; i < each; ++i) {
    const rank_id to = throw_dice(ep.size());
    const std::uint32_t k = throw_dice(kinds), wanted = throw_dice(kinds + 1);
    // Small ones mostly: these go the shortest way.
    const std::uint32_t most = throw_dice(3) != 0   ? 100
                               : k == longs         ? 8192
                               : throw_dice(5) == 0 ? limits::max_medium + 1
                                                    : 4000;
    const std::size_t bytes = k == shorts ? 0 : throw_dice(most);
    const auto some = std::span<const std::byte>(here.payload).first(bytes);
    if (wanted != kinds) ++here.outstanding;
    status s = status::ok;
    if (k == shorts) s = ep.request_short(to, on_short, wanted);
    if (k == mediums) s = ep.request_medium(to, on_payload, some, k, wanted);
    if (k == longs) s = ep.request_long(to, on_payload, some, here.place(to, bytes), k, wanted);
    JOB_CHECK(s == status::ok);
    note(here.with[to].sent, k, bytes);
    here.note_rendezvous(to, k, bytes);
  }
  // Each tells each other how many came from it, this message included.
  const auto total = [](const message_counters& c) { return c.shorts + c.mediums + c.longs; };
  for (rank_id r = 0; r < ep.size(); ++r) {
    note(here.with[r].sent, shorts, 0);
    JOB_CHECK(ep.request_short(r, on_total, total(here.with[r].sent)) == status::ok);
  }
  JOB_CHECK(ep.wait_until([&] {
    for (rank_id r = 0; r < ep.size(); ++r)
      if (here.expected[r] == 0 || total(here.with[r].handled) < here.expected[r]) return false;
    return here.outstanding == 0;
  }) == status::ok);

  const endpoint_counters said = ep.counters();
  JOB_CHECK(said.polls != 0 || ep.size() == 1);
  rank_id near = ep.internals().options().supernode_size;
  unsigned hosts = 0;
  if (std::sscanf(argv[argc - 1], "hosts=%u", &hosts) == 1) near = ep.size() / hosts;
  std::size_t met = 0;
  for (const peer_counters& p : said.peers) {
    const sums& mine = here.with[p.rank];
    JOB_CHECK(p.path == way_to(ep, p.rank, near));
    check_same("requests sent", p.rank, p.requests_sent, mine.sent);
    check_same("requests handled", p.rank, p.requests_handled, mine.handled);
    check_same("replies sent", p.rank, p.replies_sent, mine.replied);
    check_same("replies handled", p.rank, p.replies_handled, mine.answered);
    JOB_CHECK(p.rendezvous == mine.rendezvous);
    ++met;
  }
  JOB_CHECK(met == ep.size());
  // Floods fill rings, and queues of sends: some have been seen full of something.
  std::uint64_t most = said.sends_most;
  for (const peer_counters& p : said.peers) most += p.ring_most;
  JOB_CHECK(ep.size() == 1 || each < 10000 || most != 0);
  JOB_CHECK(said.sends_most <= said.sends_room);
  if (argc > 2 && std::string_view(argv[2]) == "puts") move_bytes(ep);
  JOB_CHECK(ep.barrier() == status::ok);
  if (ep.rank() == 0) std::puts("counted");
  return 0;
}
