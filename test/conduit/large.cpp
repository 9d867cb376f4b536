// Job program: Mediums above the eager limit, as requests, replies and reservations.
//   large ROUNDS THREADS   all to all, more at a time than there are buffers, every byte checked
//   large FILE THREADS     the same until there is such a file (an absolute path)
//   large distant MS       round trips take MS, messages of a stream less than half as long
//   large mixed            an incast of sizes from 0 to the largest
//   large away [ASKED]     a requester that does not poll keeps no other rank waiting
//   large left             buffers of a rank that has left come back
//   large fled             a rank leaves before its payloads were fetched: others go on
//   large dies             a rank is killed while others hold its buffers, and it holds theirs
//   large owned            threads reserve and give up: no two threads get the same place
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "lib/base/build_mode.hpp"
#include "lib/base/clock.hpp"
#include "lib/conduit/engine.hpp"
#include "penstock/penstock.hpp"
#include "penstock/reserve.hpp"
#include "test/conduit/job_check.hpp"

using namespace penstock;

namespace penstock::conduit::PENSTOCK_ABI {

struct test_access {
  static std::uint32_t cost(engine& e, rank_id to, std::size_t bytes) {
    return e.pending_.cost_of(e.core_.begun(e.core_.peers_[to]),
                              {.kind = wire::kind::medium, .bytes = bytes});
  }
};

}  // namespace penstock::conduit::PENSTOCK_ABI

namespace {

enum answer : std::uint32_t { nothing, little, as_much, whole };

struct party {
  std::atomic<std::uint64_t> handled{0}, of_rank_1{0}, answers{0};
  payload_handler<std::uint32_t, std::uint32_t> request;
  payload_handler<std::uint32_t> reply;

  void on_request(token& t, std::span<std::byte> p, std::uint32_t seed, std::uint32_t want) {
    JOB_CHECK(test::holds(p, seed));
    JOB_CHECK(reinterpret_cast<std::uintptr_t>(p.data()) % 8 == 0);
    if (want == whole) {
      thread_local std::vector<std::byte> most(65536);
      test::fill(most, seed + 1);
      JOB_CHECK(t.reply_medium(reply, std::span(most), seed + 1) == status::ok);
    } else if (want != nothing) {
      // The payload is the handler's: it may write there.
      const auto part = p.first(want == little ? std::min<std::size_t>(p.size(), 5) : p.size());
      test::fill(part, seed + 1);
      JOB_CHECK(t.reply_medium(reply, part, seed + 1) == status::ok);
    }
    if (t.source() == 1) of_rank_1.fetch_add(1, std::memory_order_relaxed);
    handled.fetch_add(1, std::memory_order_release);
  }
  void on_reply(token&, std::span<std::byte> p, std::uint32_t seed) {
    JOB_CHECK(test::holds(p, seed));
    answers.fetch_add(1, std::memory_order_release);
  }
};

std::size_t size_of(const endpoint& ep, std::uint32_t i) {
  const std::size_t edges[] = {
      ep.max_medium(), 4031, 4032, 4033, ep.max_medium() - 1, 0, 65, 8192, 4096, 20000};
  return i % 2 == 0 ? edges[i / 2 % std::size(edges)] : i * 7919u % (ep.max_medium() + 1);
}

void wait_for(endpoint& ep, const std::atomic<std::uint64_t>& n, std::uint64_t all) {
  JOB_CHECK(ep.wait_until([&] { return n.load(std::memory_order_acquire) >= all; }) == status::ok);
}

// As many rounds as `rounds`, or as begin before there is a file `until`.
void all_to_all(world& w, endpoint& ep, party& me, std::uint32_t rounds, unsigned threads,
                const char* until) {
  for (rank_id r = 0; r < ep.size(); ++r)
    if (r != ep.rank())
      JOB_CHECK(conduit::test_access::cost(ep.internals(), r, ep.max_medium()) == 1);
  if (ep.rank() == 0) std::puts("flooding");
  std::fflush(stdout);
  std::atomic<std::uint64_t> wanted{0}, done{0};  // answers; rounds of all threads
  std::atomic<unsigned> working{threads};
  const auto work = [&](unsigned id) {
    std::vector<std::byte> payload(ep.max_medium());
    for (std::uint32_t i = 0; i < rounds && (until == nullptr || access(until, F_OK) != 0); ++i) {
      for (rank_id r = 0; r < ep.size(); ++r) {
        const std::uint32_t seed = (i * 64 + r) * 16 + id, want = (i + r) % 3;
        const std::size_t n = size_of(ep, i + id);
        if (want != nothing) wanted.fetch_add(1, std::memory_order_relaxed);
        if (i % 4 == 3) {  // written in place
          auto d = reserve_medium(ep, r, me.request, n, i % 8 == 3 ? ep.max_medium() : n);
          JOB_CHECK(d && d.payload().size() >= n);
          test::fill(d.payload().first(n), seed);
          if (i % 16 == 7) {  // and given up
            d.cancel();
            d = reserve_medium(ep, r, me.request, n, n);
            test::fill(d.payload(), seed);
          }
          JOB_CHECK(d.commit(n, seed, want) == status::ok);
        } else {
          test::fill({payload.data(), n}, seed);
          JOB_CHECK(ep.request_medium(r, me.request, std::span(payload).first(n), seed, want) ==
                    status::ok);
          std::memset(payload.data(), 0, n);  // it is the sender's again
        }
      }
      done.fetch_add(1, std::memory_order_relaxed);
    }
    working.fetch_sub(1, std::memory_order_release);
  };
  std::vector<std::thread> others;
  for (unsigned t = 1; t < threads; ++t) others.emplace_back(work, t);
  work(0);
  JOB_CHECK(ep.wait_until([&] { return working.load(std::memory_order_acquire) == 0; }) ==
            status::ok);
  for (auto& t : others) t.join();
  // Each round has one message to each rank. Who asks for large answers has to poll until they are
  // here: those that nobody takes hold up the requests behind, and exchange() does not poll.
  wait_for(ep, me.answers, wanted.load());
  JOB_CHECK(ep.barrier() == status::ok);
  const std::uint64_t mine = done.load();
  const auto all = w.exchange(std::as_bytes(std::span(&mine, 1)));
  JOB_CHECK(all);
  std::uint64_t expected = 0;
  for (const auto& of_rank : *all) {
    std::uint64_t its;
    std::memcpy(&its, of_rank.data(), sizeof its);
    expected += its;
  }
  wait_for(ep, me.handled, expected);
  JOB_CHECK(me.handled == expected);
  JOB_CHECK(me.answers == wanted);
}

void distant(endpoint& ep, party& me, std::uint64_t round_trip_ms) {
  constexpr std::uint32_t messages = 64;
  std::vector<std::byte> payload(ep.max_medium());
  const auto ask = [&](std::uint32_t seed) {
    test::fill(payload, seed);
    JOB_CHECK(ep.request_medium(1, me.request, std::span(payload), seed, std::uint32_t{little}) ==
              status::ok);
  };
  if (ep.rank() != 0) return wait_for(ep, me.handled, messages + 1);
  ask(0);  // connects
  wait_for(ep, me.answers, 1);
  const std::uint64_t begin = now_ns();
  for (std::uint32_t i = 1; i <= messages; ++i) ask(i);
  wait_for(ep, me.answers, messages + 1);
  const std::uint64_t ms = (now_ns() - begin) / 1'000'000;
  std::printf("%u large Mediums: %llu ms\n", messages, static_cast<unsigned long long>(ms));
  std::fflush(stdout);
  JOB_CHECK(ms < messages * round_trip_ms / 2);
}

void mixed(endpoint& ep, party& me) {
  constexpr std::uint32_t each = 600;
  if (ep.rank() == 0) return wait_for(ep, me.handled, std::uint64_t{each} * (ep.size() - 1));
  std::vector<std::byte> payload(ep.max_medium());
  for (std::uint32_t i = 0; i < each; ++i) {
    const std::size_t n = i % 3 == 0 ? i * 104729u % (ep.max_medium() + 1) : i * 31u % 300;
    test::fill({payload.data(), n}, i);
    JOB_CHECK(ep.request_medium(0, me.request, std::span(payload).first(n), i,
                                std::uint32_t{nothing}) == status::ok);
  }
}

// Rank 1 asks for large answers, and then speaks to nobody for a while.
void away(world& w, endpoint& ep, party& me, std::uint32_t asked) {
  constexpr std::uint32_t rounds = 100;
  std::vector<std::byte> payload(ep.max_medium());
  const auto ask = [&](rank_id to, std::uint32_t seed, std::uint32_t want) {
    test::fill(payload, seed);
    JOB_CHECK(ep.request_medium(to, me.request, std::span(payload), seed, want) == status::ok);
  };
  if (ep.rank() == 1) {
    if (asked <= 6)  // large requests, for which there are buffers
      for (std::uint32_t i = 0; i < asked; ++i) ask(0, i, as_much);
    else
      for (std::uint32_t i = 0; i < asked; ++i) {
        test::fill({payload.data(), 8}, i);
        JOB_CHECK(ep.request_medium(0, me.request, std::span(payload).first(8), i,
                                    std::uint32_t{whole}) == status::ok);
      }
  } else {
    const rank_id other = 2 - ep.rank();
    for (std::uint32_t i = 1; i <= rounds; ++i) {
      ask(other, i, as_much);
      wait_for(ep, me.answers, i);
    }
    JOB_CHECK(ep.wait_until([&] { return me.handled - me.of_rank_1 == rounds; }) == status::ok);
  }
  JOB_CHECK(w.exchange({}));  // rank 1 waits here
  if (ep.rank() == 1) wait_for(ep, me.answers, asked);
  if (ep.rank() == 0) wait_for(ep, me.handled, rounds + asked);
}

void owned(endpoint& ep, party& me) {
  // Beside other programs each yield may cost a slice of theirs: then it ends after 15 seconds.
  const std::uint64_t until = now_ns() + 15'000'000'000;
  const auto work = [&](std::uint32_t id) {
    for (std::uint32_t i = 0; i < 1'000'000 && (i % 64 != 0 || now_ns() < until); ++i) {
      auto d = reserve_medium(ep, 1 - ep.rank(), me.request, ep.max_medium(), ep.max_medium());
      JOB_CHECK(d);
      std::atomic_ref word(*reinterpret_cast<std::uint32_t*>(d.payload().data()));
      word.store(id, std::memory_order_relaxed);
      if (i % 64 == 0) std::this_thread::yield();
      JOB_CHECK(word.load(std::memory_order_relaxed) == id);
      d.cancel();
    }
  };
  std::vector<std::thread> others;
  for (std::uint32_t t = 1; t < (concurrent(build_mode) ? 4 : 1); ++t) others.emplace_back(work, t);
  work(0);
  for (auto& t : others) t.join();
}

void left(endpoint& ep, party& me) {
  std::vector<std::byte> payload(ep.max_medium());
  const auto ask = [&](rank_id to, std::uint32_t seed) {
    test::fill(payload, seed);
    return ep.request_medium(to, me.request, std::span(payload), seed, std::uint32_t{nothing});
  };
  constexpr std::uint32_t many = 40;
  if (ep.rank() == 0) {
    status s = status::ok;
    while (s == status::ok) s = ask(1, 1);  // until it has left, with buffers full
    JOB_CHECK(s == status::peer_dead);
    for (std::uint32_t i = 0; i < many; ++i) JOB_CHECK(ask(2, i) == status::ok);
  } else {
    wait_for(ep, me.handled, many);
  }
}

// Rank 1 sends as many as it has buffers for, and leaves at once or is killed; the others do not
// look at them until then, and use all of their own buffers with each other afterwards.
void fled(world& w, endpoint& ep, party& me, bool dies) {
  std::vector<std::byte> payload(ep.max_medium());
  constexpr std::uint32_t many = 40;
  const auto ask = [&](rank_id to, std::uint32_t seed, std::uint32_t want) {
    test::fill(payload, seed);
    return ep.request_medium(to, me.request, std::span(payload), seed, want);
  };
  const pid_t pid = getpid();
  const auto pids = w.exchange(std::as_bytes(std::span(&pid, 1)));
  JOB_CHECK(pids);
  if (ep.rank() == 1) {
    for (std::uint32_t i = 0; i < 8; ++i) JOB_CHECK(ask(2 * (i % 2), i, as_much) == status::ok);
    for (std::uint32_t i = 0; i < 80; ++i) {
      test::fill({payload.data(), 10}, i);
      JOB_CHECK(ep.request_medium(2 * (i % 2), me.request, std::span(payload).first(10), i,
                                  std::uint32_t{nothing}) == status::ok);
    }
    if (dies) {
      ::usleep(100'000);  // the others' messages come meanwhile
      ::raise(SIGKILL);
    }
    return;
  }
  if (dies) {
    for (std::uint32_t i = 0;; ++i)
      JOB_CHECK(ask(i % 2 == 0 ? 1 : 2 - ep.rank(), i, as_much) == status::ok);
  }
  pid_t its;
  std::memcpy(&its, (*pids)[1].data(), sizeof its);
  while (::kill(its, 0) == 0) ::usleep(10'000);
  // What came behind them is here.
  JOB_CHECK(ep.wait_until([&] { return me.of_rank_1 >= 40; }) == status::ok);
  for (std::uint32_t i = 0; i < many; ++i) {
    JOB_CHECK(ask(2 - ep.rank(), i, as_much) == status::ok);
  }
  wait_for(ep, me.answers, many);
  JOB_CHECK(ep.wait_until([&] { return me.handled - me.of_rank_1 >= many; }) == status::ok);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "20";
  const unsigned threads = argc > 2 ? static_cast<unsigned>(std::atoi(argv[2])) : 1;
  auto w = world::join();
  JOB_CHECK(w);
  party me;  // outlives the endpoint, whose end runs handlers of others' requests
  endpoint ep = test::open_endpoint(*w);
  me.request = ep.add<&party::on_request>(&me);
  me.reply = ep.add<&party::on_reply>(&me);
  if (auto r = ep.start(4096); !r) fatal(3, "%s", r.error().message().c_str());
  JOB_CHECK(ep.max_medium() == 65536);
  JOB_CHECK(ep.barrier() == status::ok);
  if (what == "mixed") {
    mixed(ep, me);
  } else if (what == "distant") {
    distant(ep, me, std::strtoull(argv[2], nullptr, 10));
  } else if (what == "away") {
    away(*w, ep, me, argc > 2 ? static_cast<std::uint32_t>(std::atoi(argv[2])) : 6);
  } else if (what == "owned") {
    owned(ep, me);
  } else if (what == "fled" || what == "dies") {
    fled(*w, ep, me, what == "dies");
    return 0;
  } else if (what == "left") {
    if (ep.rank() == 1) {
      wait_for(ep, me.handled, 3);
      return 0;
    }
    left(ep, me);
    return 0;
  } else {
    const bool file = what[0] == '/';
    const auto rounds = file ? UINT32_MAX : static_cast<std::uint32_t>(std::stoul(what));
    all_to_all(*w, ep, me, rounds, threads, file ? what.c_str() : nullptr);
  }
  JOB_CHECK(ep.barrier() == status::ok);
  return 0;
}
