// Job program: with PENSTOCK_MAX_CONNECTIONS connections that are idle are taken down and made
// again while all ranks go on, and nothing is lost, doubled or answered wrongly.
//   connection_limit SECONDS [THREADS] [stopped|computes]
// Each thread of each rank sends a burst of messages of every kind, puts, gets and atomics to a
// rank that it draws, and then only polls for about as long as a connection may be idle. After half
// of the time, and at the end, each rank falls to its limit while all poll. `stopped`: rank 1 is
// stopped for a second in the middle. `computes`: no rank polls meanwhile but by its progress
// thread.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "lib/base/clock.hpp"
#include "lib/conduit/engine.hpp"
#include "penstock/atomic.hpp"
#include "penstock/penstock.hpp"
#include "penstock/rma.hpp"
#include "test/conduit/job_check.hpp"
#include "test/conduit/rnr_count.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

struct test_access {
  static std::uint32_t limit(const engine& e) { return e.core_.settings_.max_connections; }
  static std::uint32_t connections(const engine& e) { return e.connections_.count().now; }
  static std::uint64_t made(const engine& e) { return e.connections_.count().made; }
  static std::uint64_t parted(const engine& e) { return e.connections_.count().parted; }
};

}  // namespace penstock::conduit::PENSTOCK_ABI

using namespace penstock;
using look = conduit::test_access;

namespace {

constexpr std::uint32_t most_threads = 8, largest = 40'000;
constexpr std::uint64_t settle_ns = 60'000'000'000;

// What travels between two ranks, counted at both ends.
struct tally {
  std::uint64_t requests = 0, sum = 0;  // messages, and the values that they carry
};

struct counted {
  std::atomic<std::uint64_t> requests{0}, sum{0};
  void add(std::uint32_t value) {
    requests.fetch_add(1, std::memory_order_relaxed);
    sum.fetch_add(value, std::memory_order_relaxed);
  }
  [[nodiscard]] tally read() const { return {requests.load(), sum.load()}; }
};

struct rank_state {
  std::vector<counted> sent, came, answered, due;  // by the other rank
  short_handler<std::uint32_t> answer{};
  payload_handler<std::uint32_t> large_answer{};

  void on_answered(token& t, std::uint32_t value) { answered[t.source()].add(value); }
  void on_large_answer(token& t, std::span<std::byte> payload, std::uint32_t value) {
    JOB_CHECK(test::holds(payload, value));
    answered[t.source()].add(value);
  }
  void on_quiet(token& t, std::uint32_t value) { came[t.source()].add(value); }
  void on_short(token& t, std::uint32_t value) {
    came[t.source()].add(value);
    JOB_CHECK(t.reply_short(answer, value) == status::ok);
  }
  void on_payload(token& t, std::span<std::byte> payload, std::uint32_t value) {
    JOB_CHECK(test::holds(payload, value));
    came[t.source()].add(value);
    if (value % 3 == 0)
      JOB_CHECK(t.reply_medium(large_answer, payload, value) == status::ok);
    else
      JOB_CHECK(t.reply_short(answer, value) == status::ok);
  }
};

// A counter that all ranks see, and that takes no message.
std::atomic<std::uint32_t>& shared_word(world& w) {
  struct where {
    pid_t pid;
    int fd;
  } mine{::getpid(), ::memfd_create("word", 0)};
  JOB_CHECK(mine.fd >= 0 && ::ftruncate(mine.fd, 4096) == 0);
  const auto all = w.exchange(std::as_bytes(std::span(&mine, 1)));
  JOB_CHECK(all);
  where first{};
  std::memcpy(&first, (*all)[0].data(), sizeof first);
  const std::string path = "/proc/" + std::to_string(first.pid) + "/fd/" + std::to_string(first.fd);
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  JOB_CHECK(fd >= 0);
  void* const at = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  JOB_CHECK(at != MAP_FAILED);
  return *static_cast<std::atomic<std::uint32_t>*>(at);
}

struct traffic {
  endpoint& ep;
  remote_memory& memory;
  atomic_domain<std::uint64_t>& words;
  rank_state& here;
  short_handler<std::uint32_t> quiet, plain;
  payload_handler<std::uint32_t> payload;
  std::atomic<std::uint64_t> added{0};

  // One operation to a rank; its value is different each time.
  void one(rank_id to, std::uint32_t kind, std::uint32_t value, unsigned thread,
           std::vector<std::byte>& bytes) {
    auto* const there = reinterpret_cast<std::uint64_t*>(ep.segment_of(to).data());
    switch (kind) {
      case 0:
        JOB_CHECK(ep.request_short(to, quiet, value) == status::ok);
        return here.sent[to].add(value);
      case 1:
        here.due[to].add(value);
        JOB_CHECK(ep.request_short(to, plain, value) == status::ok);
        return here.sent[to].add(value);
      case 2: {
        const auto part = std::span(bytes).first(value % (value % 7 == 0 ? largest : 3000));
        test::fill(part, value);
        here.due[to].add(value);
        JOB_CHECK(ep.request_medium(to, payload, part, value) == status::ok);
        return here.sent[to].add(value);
      }
      case 3: {
        std::uint64_t* const word = there + 1 + ep.rank() * most_threads + thread;
        const std::uint64_t written = value;
        std::uint64_t read = 0;
        JOB_CHECK(memory.put(to, word, std::as_bytes(std::span(&written, 1))) == status::ok);
        JOB_CHECK(memory.get(std::as_writable_bytes(std::span(&read, 1)), to, word) == status::ok);
        JOB_CHECK(read == written);
        return;
      }
      default: {
        std::uint64_t old = 0;
        JOB_CHECK(words.fetch_add(to, there, std::uint64_t{1}, old) == status::ok);
        added.fetch_add(1, std::memory_order_relaxed);
      }
    }
  }

  void run(unsigned thread, std::uint64_t until) {
    std::minstd_rand draw(ep.rank() * 100 + thread + 1);
    std::vector<std::byte> bytes(largest);
    std::uint32_t value = thread;
    while (now_ns() < until) {
      const rank_id to = (ep.rank() + 1 + draw() % (ep.size() - 1)) % ep.size();
      for (auto n = draw() % 20; n-- != 0;)
        one(to, draw() % 5, value += most_threads, thread, bytes);
      const std::uint64_t quiet_until = now_ns() + (1 + draw() % 80) * 1'000'000;
      while (now_ns() < quiet_until) {
        (void)ep.poll();
        ::usleep(200);
      }
    }
  }
};

void stop_for_a_second() {
  const pid_t self = ::getpid();
  if (::fork() != 0) return;
  ::usleep(100'000);
  ::kill(self, SIGSTOP);
  ::usleep(1'000'000);
  ::kill(self, SIGCONT);
  ::_exit(0);
}

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 2;
  const unsigned threads = argc > 2 ? static_cast<unsigned>(std::atoi(argv[2])) : 1;
  const std::string_view how = argc > 3 ? argv[3] : "";
  JOB_CHECK(threads >= 1 && threads <= most_threads);
  ::signal(SIGCHLD, SIG_IGN);
  auto w = world::join();
  JOB_CHECK(w);
  auto& settled = shared_word(*w);
  rank_state here;
  endpoint ep = test::open_endpoint(*w);
  const rank_id n = ep.size();
  for (auto* of : {&here.sent, &here.came, &here.answered, &here.due})
    *of = std::vector<counted>(n);
  here.answer = ep.add<&rank_state::on_answered>(&here);
  here.large_answer = ep.add<&rank_state::on_large_answer>(&here);
  const auto quiet = ep.add<&rank_state::on_quiet>(&here);
  const auto plain = ep.add<&rank_state::on_short>(&here);
  const auto payload = ep.add<&rank_state::on_payload>(&here);
  if (auto r = ep.start(4096); !r) fatal(3, "%s", r.error().message().c_str());
  remote_memory memory(ep);
  atomic_domain<std::uint64_t> words(memory, atomic_ops::add | atomic_ops::get);
  const conduit::engine& engine = ep.internals();
  const std::uint32_t limit = look::limit(engine);
  const std::uint64_t rnr_before = test::rnr_count(ep.internals().device());
  JOB_CHECK(ep.barrier() == status::ok);

  if (how == "stopped" && ep.rank() == 1) stop_for_a_second();
  traffic all{ep, memory, words, here, quiet, plain, payload};
  std::uint64_t made_first = 0;
  for (std::uint32_t round = 0; round < 2; ++round) {
    for (rank_id i = 1; i < n; ++i) {
      const rank_id to = (ep.rank() + i) % n;
      JOB_CHECK(ep.request_short(to, quiet, i) == status::ok);
      here.sent[to].add(i);
    }
    const std::uint64_t until = now_ns() + static_cast<std::uint64_t>(seconds / 2 * 1e9);
    std::vector<std::thread> others;
    for (unsigned t = 1; t < threads; ++t) others.emplace_back([&, t] { all.run(t, until); });
    all.run(0, until);
    for (auto& t : others) t.join();
    JOB_CHECK(ep.barrier() == status::ok);
    for (rank_id r = 0; r < n; ++r)
      JOB_CHECK(ep.wait_until([&] {
        return here.answered[r].read().requests == here.due[r].read().requests;
      }) == status::ok);
    JOB_CHECK(ep.quiet() == status::ok);
    JOB_CHECK(ep.barrier() == status::ok);

    // Nobody needs a connection now.
    bool counted_in = false;
    for (const std::uint64_t end = now_ns() + settle_ns; settled.load() < n * (round + 1);) {
      if (how != "computes") (void)ep.poll();
      ::usleep(200);
      if (!counted_in && look::connections(engine) <= limit) counted_in = true, ++settled;
      if (now_ns() > end)
        fatal(9, "%u connections, with a limit of %u", look::connections(engine), limit);
    }
    if (round == 0) made_first = look::made(engine);
  }
  std::printf("rank %u: %llu connections made, %llu taken down, %u left\n", ep.rank(),
              static_cast<unsigned long long>(look::made(engine)),
              static_cast<unsigned long long>(look::parted(engine)), look::connections(engine));
  std::fflush(stdout);

  std::vector<tally> sent(n);
  for (rank_id r = 0; r < n; ++r) {
    sent[r] = here.sent[r].read();
    JOB_CHECK(here.answered[r].read().sum == here.due[r].read().sum);
  }
  const auto senders = w->exchange(std::as_bytes(std::span(sent)));
  JOB_CHECK(senders);
  for (rank_id r = 0; r < n; ++r) {
    tally there;
    std::memcpy(&there, (*senders)[r].data() + ep.rank() * sizeof there, sizeof there);
    const tally came = here.came[r].read();
    JOB_CHECK(came.requests == there.requests && came.sum == there.sum);
  }
  const std::uint64_t mine[] = {all.added.load(),
                                *reinterpret_cast<std::uint64_t*>(ep.segment().data()),
                                look::parted(engine), look::made(engine) - made_first};
  const auto sums = w->exchange(std::as_bytes(std::span(mine)));
  JOB_CHECK(sums);
  std::uint64_t added = 0, found = 0, parted = 0, made_again = 0;
  for (const auto& blob : *sums) {
    std::uint64_t of[4];
    std::memcpy(of, blob.data(), sizeof of);
    added += of[0], found += of[1], parted += of[2], made_again += of[3];
  }
  JOB_CHECK(added == found);
  JOB_CHECK(parted != 0 && made_again != 0);
  JOB_CHECK(test::rnr_count(ep.internals().device()) == rnr_before);
  JOB_CHECK(ep.barrier() == status::ok);
  return 0;
}
