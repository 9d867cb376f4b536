// Job program: every kind of message, with every number of arguments, at sizes around every
// boundary, requests and replies, to every rank and to itself; each byte checked at both ends.
#include <algorithm>
#include <atomic>
#include <vector>

#include "lib/conduit/engine.hpp"
#include "penstock/penstock.hpp"
#include "test/conduit/job_check.hpp"

using namespace penstock;
using conduit::outgoing;
using conduit::wire::kind;
using test::fill;
using test::holds;

namespace {

// Each sender has its place in every segment: its requests' Longs in the first half, its replies'
// behind.
constexpr std::size_t half = 1 << 17;
std::size_t place_of(rank_id sender, bool reply) { return (2 * sender + (reply ? 1 : 0)) * half; }
std::atomic<int> replies{0};
std::uint8_t request_index, reply_index;

struct shape {
  std::uint32_t kind, nargs, bytes, seed;
};

// Arguments carry the shape when there are four or more; the rest follow from the seed.
void arguments(std::uint32_t* a, const shape& s) {
  const std::uint32_t head[] = {s.kind, s.nargs, s.bytes, s.seed};
  for (unsigned i = 0; i < max_args; ++i) a[i] = i < 4 ? head[i] : s.seed * 31 + i;
}

shape current;  // what this process has sent last; one exchange at a time

outgoing message(const shape& s, std::uint8_t handler, const std::uint32_t* args,
                 const std::byte* payload, std::byte* dest) {
  outgoing m;
  m.kind = static_cast<kind>(s.kind & 3);
  m.handler = handler;
  m.nargs = static_cast<std::uint8_t>(s.nargs);
  m.args = args;
  m.payload = m.kind == kind::short_ ? nullptr : payload;
  m.bytes = m.kind == kind::short_ ? 0 : s.bytes;
  m.dest = dest;
  m.async = s.kind == 7;  // LongAsync: kind long_ with a mark
  if (s.kind == 7) m.kind = kind::long_;
  return m;
}

void check_arguments(const conduit::token_state& t, const std::uint32_t* args, const shape& s) {
  JOB_CHECK(t.nargs() == s.nargs);
  std::uint32_t expected[max_args];
  arguments(expected, s);
  JOB_CHECK(std::equal(args, args + s.nargs, expected));
}

void on_request(void* e, token&, const std::uint32_t* args, std::byte* payload, std::size_t bytes) {
  auto& t = *conduit::running;
  auto& engine = *static_cast<conduit::engine*>(e);
  shape s{args[0], t.nargs(), args[2], args[3]};
  check_arguments(t, args, s);
  JOB_CHECK(bytes == (s.kind == 0 ? 0 : s.bytes));
  JOB_CHECK(holds({payload, bytes}, s.seed));
  if (s.kind == 2 || s.kind == 7)
    JOB_CHECK(bytes == 0 ||
              payload == engine.segment().data() + place_of(t.source(), false) + s.seed % 64);
  if (s.kind == 1) std::fill_n(payload, bytes, std::byte{0});  // a Medium's buffer is the handler's
  static thread_local std::vector<std::byte> answer;
  answer.resize(bytes);
  fill(answer, s.seed + 1);
  std::uint32_t back[max_args];
  shape r = s;
  r.seed = s.seed + 1;
  if (r.kind == 7) r.kind = 2;
  arguments(back, r);
  const auto m =
      message(r, reply_index, back, answer.data(),
              engine.segment_of(t.source()).data() + place_of(engine.rank(), true) + s.seed % 64);
  JOB_CHECK(engine.reply(t, m) == status::ok);
  JOB_CHECK(engine.reply(t, m) == status::replied_twice);
}

void on_reply(void* e, token&, const std::uint32_t* args, std::byte* payload, std::size_t bytes) {
  auto& t = *conduit::running;
  auto& engine = *static_cast<conduit::engine*>(e);
  shape r = current;
  r.seed = current.seed + 1;
  if (r.kind == 7) r.kind = 2;
  check_arguments(t, args, r);
  JOB_CHECK(bytes == (r.kind == 0 ? 0 : r.bytes));
  JOB_CHECK(holds({payload, bytes}, r.seed));
  if (r.kind == 2)
    JOB_CHECK(bytes == 0 ||
              payload == engine.segment().data() + place_of(t.source(), true) + current.seed % 64);
  JOB_CHECK(engine.reply(t, {.handler = request_index}) == status::replied_twice);
  JOB_CHECK(engine.request(0, {.handler = request_index}) == status::in_handler);
  replies.fetch_add(1, std::memory_order_release);
}

}  // namespace

int main() {
  auto w = world::join();
  JOB_CHECK(w);
  endpoint ep = test::open_endpoint(*w);
  auto& e = ep.internals();
  request_index = e.next_handler();
  JOB_CHECK(e.add_handler(request_index, {on_request, &e, conduit::any_args, {}}));
  reply_index = e.next_handler();
  JOB_CHECK(e.add_handler(reply_index, {on_reply, &e, conduit::any_args, {}}));
  if (auto r = ep.start(place_of(ep.size(), false)); !r)
    fatal(3, "%s", r.error().message().c_str());

  const std::uint32_t sizes[] = {
      0,   1,   7,   8,    31,   32,   33,   47,   48,   49,   63,   64,   65,    239,   240,   241,
      255, 256, 257, 1000, 2047, 2048, 3000, 4000, 4031, 4032, 4033, 5000, 65535, 65536, 100000};
  std::vector<std::byte> payload(half);
  std::uint32_t seed = 1, sent = 0;
  for (rank_id to = 0; to < ep.size(); ++to)
    for (const std::uint32_t k : {0u, 1u, 2u, 7u})
      for (std::uint32_t nargs = 4; nargs <= max_args; ++nargs)
        for (const std::uint32_t bytes : sizes) {
          if (k == 0 && bytes != 0) continue;
          if (k == 1 && bytes > ep.max_medium()) continue;
          if (bytes > 4032 && nargs % 6 != 4) continue;  // large ones cost time, not coverage
          current = {k, nargs, bytes, seed += 3};
          fill({payload.data(), bytes}, current.seed);
          std::uint32_t args[max_args];
          arguments(args, current);
          const auto m =
              message(current, request_index, args, payload.data(),
                      ep.segment_of(to).data() + place_of(ep.rank(), false) + current.seed % 64);
          const int before = replies.load(std::memory_order_relaxed);
          const status sent_as = e.request(to, m);
          if (sent_as != status::ok)
            fatal(9, "kind %u, %u arguments, %u bytes to %u: %s", k, nargs, bytes, to,
                  describe(sent_as));
          JOB_CHECK(ep.wait_until([&] {
            return replies.load(std::memory_order_acquire) != before;
          }) == status::ok);
          ++sent;
        }
  JOB_CHECK(replies.load() == static_cast<int>(sent));
  JOB_CHECK(ep.barrier() == status::ok);
  return 0;
}
