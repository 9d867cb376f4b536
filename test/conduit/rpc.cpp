// Job program of three ranks or more: calls by penstock/rpc.hpp, as its documentation promises
// them.
//   rpc values     values of every size there and back, gather lists, codes, several at a time
//   rpc later      answers that come later, forwarded calls, dropped requests, a full server
//   rpc limits     calls that time out or are given up, and responses that come after that
//   rpc leaves     the last rank leaves early: calls to it fail
//   rpc global     typed global pointers (penstock/global.hpp)
//   rpc cost ROUNDS  rank 0 calls rank 1 with 64 bytes, beside a Medium that is answered by one
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>
#include <vector>

#include "lib/base/clock.hpp"
#include "lib/base/cross_process.hpp"
#include "penstock/global.hpp"
#include "penstock/rpc.hpp"
#include "test/conduit/job_check.hpp"

using namespace penstock;
using namespace std::chrono_literals;

// Of this thread. ThreadSanitizer's allocator has no stand-in, and nothing is counted there.
static thread_local unsigned allocations = 0;
#ifndef PENSTOCK_TSAN
void* operator new(std::size_t n) {
  ++allocations;
  if (void* const at = std::malloc(n)) return at;
  throw std::bad_alloc();
}
void* operator new(std::size_t n, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(n);
}
[[gnu::noinline]] void operator delete(void* at) noexcept { std::free(at); }
[[gnu::noinline]] void operator delete(void* at, std::size_t) noexcept { std::free(at); }
#endif

namespace {

constexpr std::size_t segment_bytes = 8 << 20;
constexpr std::size_t longest = 1 << 20;

struct side {
  // Functions use these, also in the endpoint's destructor.
  std::vector<rpc_responder> kept, kept_few;
  bool leaving = false;
  unsigned to_keep = 0;
  endpoint ep;
  rpc &calls, &few;
  rpc_method echo, count, keep, pass, drop, twice, keep_few;
  rank_id seen_source = 99;
  payload_handler<> plain, plain_answer;
  bool answered = false;

  explicit side(world& w, rpc::limits l = {})
      : ep(test::open_endpoint(w)),
        calls(rpc::on(ep, l)),
        few(rpc::on(ep, {.calls = 2, .kept = 2})) {
    keep_few = few.add([this](rpc_request& r) { kept_few.push_back(r.later()); });
    echo = calls.add([](rpc_request& r) { JOB_CHECK(r.answer(r.body()) == status::ok); });
    count = calls.add([this](rpc_request& r) {
      seen_source = r.source();
      const auto code = static_cast<std::uint32_t>(r.body().size());
      JOB_CHECK(r.answer({}, code) == status::ok);
      JOB_CHECK(r.answer({}, 1) == status::replied_twice);
    });
    keep = calls.add([this](rpc_request& r) {
      if (leaving) return (void)r.later();  // dropped, and nobody sends that any more
      ++to_keep;
      if (rpc_responder later = r.later()) kept.push_back(std::move(later));
    });
    // Has the next rank count, or echo a value that begins with a zero byte.
    pass = calls.add([this](rpc_request& r) {
      const bool zero = !r.body().empty() && r.body()[0] == std::byte{0};
      const status s = r.forward((ep.rank() + 1) % ep.size(), zero ? echo : count);
      JOB_CHECK(s == (r.body().size() > ep.max_medium() ? status::too_long : status::ok));
    });
    drop = calls.add([](rpc_request& r) { (void)r.later(); });
    twice = calls.add([](rpc_request& r) {
      std::vector<std::byte> both(r.body().begin(), r.body().end());
      both.insert(both.end(), r.body().begin(), r.body().end());
      (void)r.answer(both, 2);
    });
    plain = ep.add<&side::on_plain>(this);
    plain_answer = ep.add<&side::on_plain_answer>(this);
    if (auto r = ep.start(segment_bytes); !r) fatal(3, "%s", r.error().message().c_str());
    calls.open(ep.segment());
    JOB_CHECK(ep.barrier() == status::ok);
  }
  ~side() {
    leaving = true;
    kept.clear(), kept_few.clear();  // responders go before the endpoint
  }
  void on_plain(token& t, std::span<std::byte> p) {
    JOB_CHECK(t.reply_medium(plain_answer, p) == status::ok);
  }
  void on_plain_answer(token&, std::span<std::byte>) { answered = true; }

  // All ranks serve until all have come here.
  void finish() {
    for (status s = status::timed_out; s == status::timed_out;) {
      calls.flush();
      const time_limit soon(200us);
      s = ep.barrier();
      JOB_CHECK(s == status::ok || s == status::timed_out);
    }
  }
};

std::vector<std::byte> filled(std::size_t n, std::uint32_t seed) {
  std::vector<std::byte> v(n);
  test::fill(v, seed);
  return v;
}

void values(world& w) {
  side me(w);
  rpc_call c;
  JOB_CHECK(c.done() && c.result() == status::bad_arguments && c.response().empty());
  for (rank_id to = 0; to < me.ep.size(); ++to)
    for (const std::size_t n :
         {0ul, 1ul, 64ul, 300ul, 4032ul, 5000ul, 65'536ul, 65'537ul, longest}) {
      const auto bytes = filled(n, static_cast<std::uint32_t>(n) + to);
      status s = status::no_space;
      // The other ranks call, too, so that a rank may have no block left for a while.
      while (s == status::no_space) s = me.calls.call(c, to, me.echo, bytes, n);
      JOB_CHECK(s == status::ok && c.done() && c.result() == status::ok && c.code() == 0);
      JOB_CHECK(c.response().size() == n &&
                test::holds(c.response(), static_cast<std::uint32_t>(n) + to));
    }
  // A gather list is one value.
  const auto one = filled(10, 1), two = filled(4000, 2);
  JOB_CHECK(me.calls.call(c, 1, me.echo, {one, {}, two, one}) == status::ok);
  JOB_CHECK(c.response().size() == 4020);
  JOB_CHECK(test::holds(c.response().first(10), 1) &&
            test::holds(c.response().subspan(10, 4000), 2) &&
            test::holds(c.response().last(10), 1));
  JOB_CHECK(me.calls.call(c, 1, me.count, {one, two}) == status::ok && c.code() == 4010);
  // It is put together where it is sent from: no memory is taken for it.
  const unsigned before = allocations;
  const status begun = me.calls.begin(c, 1, me.count, {one, two});
  const unsigned after = allocations;
  JOB_CHECK(begun == status::ok && after == before);
  JOB_CHECK(me.calls.wait(c) == status::ok && c.code() == 4010);
  JOB_CHECK(me.calls.call(c, 1, 1000, one) == status::bad_handler);
  JOB_CHECK(me.calls.call(c, 1000, me.echo, one) == status::bad_rank);
  // A response for which no room was named, or too little.
  const auto half = filled(40'000, 3);
  JOB_CHECK(me.calls.call(c, 1, me.twice, half) == status::too_long);
  JOB_CHECK(me.calls.call(c, 1, me.twice, half, 79'999) == status::too_long);
  JOB_CHECK(me.calls.call(c, 1, me.twice, half, 80'000) == status::ok && c.code() == 2);
  JOB_CHECK(test::holds(c.response().first(40'000), 3) &&
            test::holds(c.response().last(40'000), 3));
  JOB_CHECK(me.calls.call(c, 1, me.twice, one, 80'000) == status::ok && c.response().size() == 20);
  // No block is that large: at this rank, or at the other one.
  JOB_CHECK(me.calls.call(c, 1, me.echo, one, segment_bytes + 1) == status::no_space);
  JOB_CHECK(me.calls.call(c, 1, me.count, filled(segment_bytes + 1, 0)) == status::no_space);
  // Many at a time, done in any order.
  std::array<rpc_call, 200> many;
  for (std::uint32_t i = 0; i < many.size(); ++i)
    JOB_CHECK(me.calls.begin(many[i], i % me.ep.size(), me.echo, filled(i * 7, i)) == status::ok);
  JOB_CHECK(!many[1].done() ? me.calls.begin(many[1], 0, me.echo, one) == status::busy : true);
  for (std::uint32_t i = 0; i < many.size(); ++i) {
    JOB_CHECK(me.calls.wait(many[i]) == status::ok);
    JOB_CHECK(many[i].response().size() == i * 7 && test::holds(many[i].response(), i));
  }
  me.finish();
}

void later(world& w) {
  side me(w, {.calls = 8, .kept = 4});
  rpc_call c;
  const auto bytes = filled(100, 5), large = filled(100'000, 6);
  const rank_id next = (me.ep.rank() + 1) % me.ep.size();
  // Forwarded: the rank behind the next one sees this rank as the source, and answers it.
  JOB_CHECK(me.calls.call(c, next, me.pass, bytes) == status::ok && c.code() == 100);
  auto zero = filled(60'000, 7);
  zero[0] = std::byte{0};
  JOB_CHECK(me.calls.call(c, next, me.pass, zero) == status::ok);
  JOB_CHECK(std::equal(c.response().begin(), c.response().end(), zero.begin(), zero.end()));
  JOB_CHECK(me.calls.call(c, next, me.pass, large) == status::too_long);
  JOB_CHECK(me.calls.call(c, next, me.drop, bytes) == status::shut_down);
  me.finish();
  JOB_CHECK(me.seen_source == (me.ep.rank() + me.ep.size() - 2) % me.ep.size());
  me.finish();
  // Rank 1 keeps four requests of rank 0, and refuses the others; a large one's bytes stay.
  if (me.ep.rank() == 1) {
    // Had it answered before all six have come, the last ones would be kept, too.
    JOB_CHECK(me.calls.serve_until([&] { return me.to_keep == 6; }) == status::ok);
    JOB_CHECK(me.kept.size() == 4);
    JOB_CHECK(me.calls.kept() == 4);
    for (std::uint32_t i = 0; i < 4; ++i) {
      rpc_responder& r = me.kept[3 - i];
      JOB_CHECK(r.source() == 0);
      JOB_CHECK(r.answer({r.body(), bytes}, i) == (i == 3 ? status::too_long : status::ok));
      JOB_CHECK(!r && r.answer({}) == status::replied_twice);
    }
    JOB_CHECK(me.calls.kept() == 4);  // they are queued
    me.calls.flush();
    JOB_CHECK(me.calls.serve_until([&] { return me.calls.kept() == 0; }) == status::ok);
  } else if (me.ep.rank() == 0) {
    std::array<rpc_call, 6> all;
    JOB_CHECK(me.calls.begin(all[0], 1, me.keep, large) == status::ok);
    // The next ones go when rank 1 has the first one's bytes.
    JOB_CHECK(me.calls.call(c, 1, me.count, large) == status::ok);
    for (std::uint32_t i = 1; i < 6; ++i)
      JOB_CHECK(me.calls.begin(all[i], 1, me.keep, filled(i, i)) == status::ok);
    unsigned full = 0;
    for (std::uint32_t i = 1; i < 6; ++i) {
      const status s = me.calls.wait(all[i]);
      JOB_CHECK(s == status::ok || s == status::no_space);
      if (s == status::no_space) ++full;
      if (s == status::ok)
        JOB_CHECK(all[i].response().size() == i + 100 &&
                  test::holds(all[i].response().first(i), i));
    }
    JOB_CHECK(full == 2);
    JOB_CHECK(me.calls.wait(all[0]) == status::too_long);
  }
  me.finish();
  // As many calls as may be under way; and a rank that drops requests answers all the same.
  if (me.ep.rank() == 0) {
    rpc_call first, second, third;
    JOB_CHECK(me.few.begin(first, 2, me.keep_few, bytes) == status::ok);
    JOB_CHECK(me.few.begin(second, 2, me.keep_few, bytes) == status::ok);
    JOB_CHECK(me.few.begin(third, 2, me.keep_few, bytes) == status::no_ticket);
    JOB_CHECK(third.result() == status::bad_arguments);
    JOB_CHECK(me.few.wait(first) == status::shut_down && me.few.wait(second) == status::shut_down);
  } else if (me.ep.rank() == 2) {
    JOB_CHECK(me.few.serve_until([&] { return me.kept_few.size() == 2; }) == status::ok);
    me.kept_few.clear();
    JOB_CHECK(me.few.serve_until([&] { return me.few.kept() == 0; }) == status::ok);
  }
  me.finish();
}

void limits(world& w) {
  side me(w);
  const auto bytes = filled(100, 5);
  if (me.ep.rank() == 0) {
    rpc_call c;
    {
      const time_limit limit(20ms);
      JOB_CHECK(me.calls.call(c, 1, me.keep, bytes) == status::timed_out);
      JOB_CHECK(c.done() && c.result() == status::timed_out && c.response().empty());
    }
    // One that is only waited for goes on.
    rpc_call other;
    {
      const time_limit limit(20ms);
      JOB_CHECK(me.calls.begin(other, 1, me.keep, bytes, 200'000) == status::ok);
      JOB_CHECK(me.calls.wait(other) == status::timed_out && !other.done());
    }
    {
      rpc_call gone;
      JOB_CHECK(me.calls.begin(gone, 1, me.keep, bytes, 200'000) == status::ok);
    }  // its block is free when the answer has come
    // The answers to all four come now; those that were given up reach no other call.
    JOB_CHECK(me.calls.call(c, 1, me.count, bytes) == status::ok && c.code() == 100);
    JOB_CHECK(me.calls.wait(other) == status::ok && other.code() == 1);
    for (int i = 0; i < 100; ++i)
      JOB_CHECK(me.calls.call(c, 1, me.echo, bytes) == status::ok && test::holds(c.response(), 5));
    me.calls.cancel(c);  // it is done
    JOB_CHECK(c.result() == status::ok);
    // A large request that is given up before the block is there: rank 1 gets the block back.
    for (int i = 0; i < 200; ++i) {
      rpc_call large;
      JOB_CHECK(me.calls.begin(large, 1, me.count, filled(longest, 1)) == status::ok);
    }
    status s = status::no_space;
    for (int i = 0; i < 10'000 && s == status::no_space; ++i)
      s = me.calls.call(c, 1, me.count, filled(segment_bytes - 4096, 1));
    JOB_CHECK(s == status::ok);
  } else if (me.ep.rank() == 1) {
    JOB_CHECK(me.calls.serve_until([&] { return me.kept.size() == 3; }) == status::ok);
    for (std::uint32_t i = 0; i < 3; ++i)
      JOB_CHECK(me.kept[i].answer(filled(i == 1 ? 100 : 150'000 * (i / 2), 2), i) == status::ok);
  }
  me.finish();
}

void leaves(world& w) {
  side me(w);
  const rank_id last = me.ep.size() - 1;
  rpc_call c;
  JOB_CHECK(me.calls.call(c, last, me.echo, filled(10, 1)) == status::ok);
  me.finish();
  if (me.ep.rank() == last) return;
  JOB_CHECK(me.calls.call(c, last, me.keep, filled(10, 1)) == status::peer_dead);
  JOB_CHECK(me.ep.has_gone(last) && !me.ep.has_gone(me.ep.rank()));
}

void global_pointers(world& w) {
  side me(w);
  remote_memory mem(me.ep);
  struct pair {
    std::int32_t a;
    double b;
  };
  const rank_id next = (me.ep.rank() + 1) % me.ep.size();
  const global<pair> there = global_in<pair>(me.ep, next, 4096);
  JOB_CHECK(there && there.rank() == next);
  JOB_CHECK(!global<pair>{} && !global_in<pair>(me.ep, next, segment_bytes - 8));
  JOB_CHECK(global_in<pair>(me.ep, next, segment_bytes - sizeof(pair)));
  JOB_CHECK((there + 3) - there == 3 && there[3] == there + 3 && (there + 3) - 3 == there);
  JOB_CHECK(put(mem, there + 2, pair{7, 0.5}) == status::ok);
  pair x{};
  JOB_CHECK(get(mem, x, there[2]) == status::ok && x.a == 7 && x.b == 0.5);
  const std::array<std::int32_t, 5> out = {1, 2, 3, 4, 5};
  std::array<std::int32_t, 5> in = {};
  const auto row = global_in<std::int32_t>(me.ep, next, 8192);
  JOB_CHECK(put(mem, row, out) == status::ok && get(mem, in, row) == status::ok && in == out);
  in = {};
  JOB_CHECK(put_nb(mem, row + 5, out).wait() == status::ok);
  JOB_CHECK(get_nb(mem, in, row + 5).wait() == status::ok && in == out);
  if (const std::int32_t* const here = row.local(mem, 10)) JOB_CHECK(here[9] == 5);
  JOB_CHECK(put(mem, global<std::int32_t>(next, nullptr), 1) == status::out_of_segment);
  me.finish();
}

void cost(world& w, unsigned rounds) {
  side me(w);
  if (me.ep.rank() == 0) {
    rpc_call c;
    const auto bytes = filled(64, 1);
    std::vector<std::uint64_t> by_rpc, by_medium;
    for (unsigned batch = 0; batch < rounds; ++batch) {
      const std::uint64_t begin = now_ns();
      for (int i = 0; i < 1000; ++i) JOB_CHECK(me.calls.call(c, 1, me.echo, bytes) == status::ok);
      const std::uint64_t middle = now_ns();
      for (int i = 0; i < 1000; ++i) {
        me.answered = false;
        JOB_CHECK(me.ep.request_medium(1, me.plain, bytes) == status::ok);
        JOB_CHECK(me.ep.wait_until([&] { return me.answered; }) == status::ok);
      }
      by_rpc.push_back(middle - begin), by_medium.push_back(now_ns() - middle);
    }
    const auto median = [](std::vector<std::uint64_t>& v) {
      std::sort(v.begin(), v.end());
      return static_cast<double>(v[v.size() / 2]) / 1000;
    };
    const double rpc_ns = median(by_rpc), medium_ns = median(by_medium);
    std::printf("a call: %.0f ns; a Medium answered by one: %.0f ns; ratio %.2f\n", rpc_ns,
                medium_ns, rpc_ns / medium_ns);
  }
  me.finish();
}

}  // namespace

int main(int argc, char** argv) {
  auto job = world::join();
  if (!job) fatal(3, "%s", job.error().message().c_str());
  const std::string_view what = argc > 1 ? argv[1] : "";
  if (what == "values")
    values(*job);
  else if (what == "later")
    later(*job);
  else if (what == "limits")
    limits(*job);
  else if (what == "leaves")
    leaves(*job);
  else if (what == "global")
    global_pointers(*job);
  else if (what == "cost" && argc > 2)
    cost(*job, static_cast<unsigned>(std::atoi(argv[2])));
  else
    return 2;
}
