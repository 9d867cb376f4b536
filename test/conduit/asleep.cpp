// Job program whose ranks sleep in epoll_wait on event_fd(), and never poll without being woken.
// asleep CASE [ARGUMENTS]
//
//   server COUNT   ranks 1 and up ask rank 0 COUNT times, all asleep; then nothing comes, and
//                  nobody takes time. How soon answers came is printed, beside the same exchange
//                  by two bare futexes; with the word `near` it may not be twice as long
//   requests       requests of every kind and size to ranks that sleep long in between: nothing is
//                  lost, and the requests that found no room are sent when the sender is woken
//   rma            puts, gets and atomics with a handle
//   collectives    barriers and quiet(), whose ranks come at different times
//   limits         what a time_limit does where nobody sleeps
//   refused        event_fd() after start() and in a job where it was not asked for
//   dies           rank 1 is killed while the others sleep: they are woken
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <new>
#include <string_view>
#include <vector>

#include "lib/base/clock.hpp"
#include "penstock/atomic.hpp"
#include "penstock/reserve.hpp"
#include "penstock/rma.hpp"
#include "test/conduit/job_check.hpp"

using namespace penstock;
using namespace std::chrono_literals;

namespace {

constexpr int longest_sleep_ms = 20'000;  // a rank that sleeps so long was not woken

struct side {
  endpoint ep;
  short_handler<std::uint32_t> ask, answer, note;
  payload_handler<std::uint32_t> load;
  std::uint32_t answered = 0, noted = 0, loaded = 0;
  int epoll = -1;
  std::uint64_t sleeps = 0;

  explicit side(world& w) : ep(test::open_endpoint(w)) {
    ask = ep.add<&side::on_ask>(this);
    answer = ep.add<&side::on_answer>(this);
    note = ep.add<&side::on_note>(this);
    load = ep.add<&side::on_load>(this);
    const auto fd = ep.event_fd();
    if (!fd) fatal(3, "%s", fd.error().message().c_str());
    if (auto r = ep.start(1 << 20); !r) fatal(3, "%s", r.error().message().c_str());
    const auto again = ep.event_fd();
    JOB_CHECK(again && *again == *fd);
    epoll = ::epoll_create1(EPOLL_CLOEXEC);
    epoll_event e{};
    e.events = EPOLLIN;
    JOB_CHECK(epoll >= 0 && ::epoll_ctl(epoll, EPOLL_CTL_ADD, *fd, &e) == 0);
  }

  void on_ask(token& t, std::uint32_t x) { JOB_CHECK(t.reply_short(answer, x) == status::ok); }
  void on_answer(token&, std::uint32_t x) { answered = x; }
  void on_note(token&, std::uint32_t) { ++noted; }
  void on_load(token&, std::span<std::byte> p, std::uint32_t x) {
    JOB_CHECK(test::holds(p, x));
    ++loaded;
  }

  // Sleeps, once nothing more has come; false: something has.
  bool sleep(int at_most_ms = longest_sleep_ms) {
    const status s = ep.arm();
    JOB_CHECK(!is_failure(s));
    if (s == status::pending) return false;
    ++sleeps;
    epoll_event e{};
    JOB_CHECK(::epoll_wait(epoll, &e, 1, at_most_ms) == 1 || at_most_ms != longest_sleep_ms);
    return true;
  }
  // Calls attempt, which waits for nothing, until it answers something else than timed_out.
  template <class Try>
  status asleep(Try&& attempt) {
    for (;;) {
      {
        const time_limit none(0ns);
        if (const status s = attempt(); s != status::timed_out) return s;
      }
      (void)sleep();
    }
  }
  template <class Done>
  void until(Done&& done) {
    JOB_CHECK(asleep([&] { return ep.wait_until(done); }) == status::ok);
  }
};

std::uint64_t cpu_ns() {
  timespec t{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(t.tv_nsec);
}

std::uint64_t median(std::vector<std::uint64_t>& times) {
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

// Two words, on which two processes sleep in turn: the least that a round trip of sleepers takes.
struct futexes {
  alignas(64) std::atomic<std::uint32_t> there, back;
};
void await(std::atomic<std::uint32_t>& word, std::uint32_t value) {
  for (std::uint32_t seen; (seen = word.load(std::memory_order_acquire)) != value;)
    ::syscall(SYS_futex, &word, FUTEX_WAIT, seen, nullptr, nullptr, 0);
}
void tell(std::atomic<std::uint32_t>& word, std::uint32_t value) {
  word.store(value, std::memory_order_release);
  ::syscall(SYS_futex, &word, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}
// Sleepers that share a core wake each other faster than those that do not: here no two do.
void pin(unsigned core) {
  cpu_set_t mine;
  CPU_ZERO(&mine);
  CPU_SET(core % static_cast<unsigned>(::sysconf(_SC_NPROCESSORS_ONLN)), &mine);
  (void)::sched_setaffinity(0, sizeof mine, &mine);
}
std::uint64_t futex_round_trip(std::uint32_t count) {
  auto* const f =
      new (::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))
          futexes{};
  const pid_t child = ::fork();
  if (child == 0) {
    pin(0);
    for (std::uint32_t i = 1; i <= count; ++i) await(f->there, i), tell(f->back, i);
    ::_exit(0);
  }
  JOB_CHECK(child > 0);
  std::vector<std::uint64_t> times;
  for (std::uint32_t i = 1; i <= count; ++i) {
    const std::uint64_t begin = now_ns();
    tell(f->there, i), await(f->back, i);
    times.push_back(now_ns() - begin);
  }
  int code = 1;
  JOB_CHECK(::waitpid(child, &code, 0) == child && code == 0);
  ::munmap(f, 4096);
  return median(times);
}

void server(world& w, std::uint32_t count, bool is_near) {
  if (is_near) pin(w.rank());
  const std::uint64_t bare = w.rank() == 1 && is_near ? futex_round_trip(count) : 0;
  (void)w.exchange({});
  side me(w);
  std::vector<std::uint64_t> times;
  if (me.ep.rank() == 0) {
    me.until([&] { return me.noted == me.ep.size() - 1; });
    for (rank_id r = 1; r < me.ep.size(); ++r)
      JOB_CHECK(me.ep.request_short(r, me.note, 0) == status::ok);
  } else {
    // With `near`, the other ranks sleep while rank 1 asks.
    for (std::uint32_t i = 1; i <= (is_near && me.ep.rank() != 1 ? 1 : count); ++i) {
      const std::uint64_t begin = now_ns();
      JOB_CHECK(me.asleep([&] { return me.ep.request_short(0, me.ask, i); }) == status::ok);
      me.until([&] { return me.answered == i; });
      times.push_back(now_ns() - begin);
    }
    JOB_CHECK(me.asleep([&] { return me.ep.request_short(0, me.note, 0); }) == status::ok);
    me.until([&] { return me.noted == 1; });
  }
  JOB_CHECK(me.sleeps != 0);
  // The quietest of some whiles: what one process did late, on a machine that is shared, is not
  // taken for a poller.
  double idle = 1000;  // thousandths of a processor
  for (int i = 0; i < 4; ++i) {
    const std::uint64_t before = cpu_ns();
    for (const std::uint64_t end = now_ns() + 200'000'000; now_ns() < end;)
      (void)me.sleep(static_cast<int>((end - std::min(now_ns(), end)) / 1'000'000 + 1));
    idle = std::min(idle, static_cast<double>(cpu_ns() - before) / 200'000);
  }
  std::printf("rank %u: %.2f %% of a processor while nothing came\n", me.ep.rank(), idle / 10);
  JOB_CHECK(idle < 10);
  if (!times.empty())
    std::printf("rank %u: answered in %llu us\n", me.ep.rank(), median(times) / 1000ull);
  if (bare != 0) {
    const double ratio = static_cast<double>(median(times)) / static_cast<double>(bare);
    std::printf("a round trip of two futexes takes %.1f us; ratio %.2f\n",
                static_cast<double>(bare) / 1000, ratio);
    std::fflush(stdout);
    JOB_CHECK(ratio <= 2);
  }
  JOB_CHECK(me.asleep([&] { return me.ep.barrier(); }) == status::ok);
}

// Every rank sends to every other, and those with odd numbers stay away for a while.
void requests(world& w) {
  side me(w);
  constexpr std::uint32_t rounds = 3, each = 400;
  static constexpr std::size_t sizes[] = {0, 40, 300, 4000, 4032, 20'000, 65'536};
  const rank_id others = me.ep.size() - 1;
  std::vector<std::byte> bytes(65'536);
  for (std::uint32_t round = 1; round <= rounds; ++round) {
    if (me.ep.rank() % 2 == 1) ::usleep(30'000);
    for (std::uint32_t i = 0; i < each; ++i) {
      const rank_id to = (me.ep.rank() + 1 + i % others) % me.ep.size();
      const std::uint32_t seed = me.ep.rank() * 1000 + i;
      const std::span<std::byte> some(bytes.data(), sizes[i / others % std::size(sizes)]);
      test::fill(some, seed);
      const auto send = [&] {
        if (i % 5 == 0) return me.ep.request_short(to, me.note, seed);
        return me.ep.request_medium(to, me.load, some, seed);
      };
      JOB_CHECK(me.asleep(send) == status::ok);
    }
    me.until([&] {
      return me.noted + me.loaded >= round * each && me.noted + me.loaded <= (round + 1) * each;
    });
  }
  JOB_CHECK(me.asleep([&] { return me.ep.barrier(); }) == status::ok);
  JOB_CHECK(me.noted + me.loaded == rounds * each);
}

void rma(world& w) {
  side me(w);
  remote_memory mem(me.ep);
  const rank_id to = (me.ep.rank() + 1) % me.ep.size();
  JOB_CHECK(me.asleep([&] { return me.ep.barrier(); }) == status::ok);
  std::vector<std::byte> out(200'000), in(200'000);
  std::byte* const there = me.ep.segment_of(to).data() + 4096;
  for (std::uint32_t i = 1; i <= 30; ++i) {
    const std::size_t n = i % 3 == 0 ? out.size() : i * 100;
    test::fill(std::span(out).first(n), i);
    operation put = mem.put_nb(to, there, std::span(out).first(n), source_reuse::on_completion);
    JOB_CHECK(me.asleep([&] { return put.wait(); }) == status::ok);
    operation get = mem.get_nb(std::span(in).first(n), to, there);
    JOB_CHECK(me.asleep([&] { return wait_all(std::span(&get, 1)); }) == status::ok);
    JOB_CHECK(test::holds(std::span(in).first(n), i));
  }
  atomic_domain<std::uint64_t> words(mem, atomic_ops::add | atomic_ops::get);
  auto* const word = reinterpret_cast<std::uint64_t*>(me.ep.segment_of(0).data());
  std::uint64_t old = 0;
  for (int i = 0; i < 10; ++i) {
    operation add = words.start<atomic_ops::add>(0, word, 1, 0, &old);
    JOB_CHECK(me.asleep([&] { return add.wait(); }) == status::ok);
  }
  JOB_CHECK(me.asleep([&] { return me.ep.barrier(); }) == status::ok);
  operation get = words.start<atomic_ops::get>(0, word, 0, 0, &old);
  JOB_CHECK(me.asleep([&] { return wait_some(std::span(&get, 1)); }) == status::ok);
  JOB_CHECK(old == 10 * me.ep.size());
  // An operation that a limit has left in flight is complete when it has been destroyed.
  {
    const time_limit none(0ns);
    operation last = mem.put_nb(to, there, out, source_reuse::on_completion);
    (void)last.wait();
  }
  JOB_CHECK(me.asleep([&] { return me.ep.barrier(); }) == status::ok);
}

void collectives(world& w) {
  side me(w);
  for (std::uint32_t i = 1; i <= 40; ++i) {
    if ((me.ep.rank() + i) % 8 == 0) ::usleep(3000);
    for (rank_id r = 0; r < me.ep.size(); ++r)
      JOB_CHECK(me.asleep([&] { return me.ep.request_short(r, me.note, i); }) == status::ok);
    // Every rank's requests have been handled, and nobody has begun the next round.
    JOB_CHECK(me.asleep([&] { return me.ep.quiet(); }) == status::ok);
    JOB_CHECK(me.asleep([&] { return me.ep.barrier(); }) == status::ok);
    JOB_CHECK(me.noted == i * me.ep.size());
    JOB_CHECK(me.asleep([&] { return me.ep.barrier(); }) == status::ok);
  }
  JOB_CHECK(me.sleeps != 0);
}

// Rank 0 does everything with a limit; rank 1 stays away until it is told.
void limits(world& w) {
  side me(w);
  const auto late = [](std::uint64_t begin, std::uint64_t ns) { return now_ns() - begin >= ns; };
  if (me.ep.rank() != 0) {
    JOB_CHECK(w.exchange({}));  // rank 0 is done with its limits; until then it does not poll
    me.until([&] { return me.noted == 2; });
    JOB_CHECK(me.ep.barrier() == status::ok);
    return;
  }
  const std::uint64_t begin = now_ns();
  {
    const time_limit limit(20ms);
    JOB_CHECK(me.ep.wait_until([] { return false; }) == status::timed_out);
    JOB_CHECK(late(begin, 20'000'000));
    // It is over for the next calls, too, which look once.
    JOB_CHECK(me.ep.wait_until([] { return true; }) == status::ok);
    JOB_CHECK(me.ep.wait_until([] { return false; }) == status::timed_out);
    const time_limit later(std::chrono::steady_clock::now() + 1h);
    JOB_CHECK(me.ep.wait_until([] { return false; }) == status::timed_out);
  }
  const std::uint64_t second = now_ns();
  {
    const time_limit longer(1h);
    {
      const time_limit shorter(10ms);
      JOB_CHECK(me.ep.wait_until([] { return false; }) == status::timed_out);
      JOB_CHECK(late(second, 10'000'000));
    }
    // A message to this rank itself, where nothing is short.
    JOB_CHECK(me.ep.request_short(0, me.note, 0) == status::ok && me.noted == 1);
  }
  // More than rank 1 has lent, while it stays away.
  std::vector<std::byte> bytes(65'536);
  test::fill(bytes, 7);
  for (status s = me.ep.request_medium(1, me.load, bytes, 7); s == status::ok;) {
    const time_limit limit(5ms);
    s = me.ep.request_medium(1, me.load, bytes, 7);
    JOB_CHECK(s == status::ok || s == status::timed_out);
  }
  {
    const time_limit limit(5ms);
    // Its requests have not been handled. To rank 0 nothing is lost by that.
    JOB_CHECK(me.ep.quiet() == status::timed_out);
    JOB_CHECK(me.ep.barrier() == status::timed_out);
    JOB_CHECK(me.ep.barrier() == status::timed_out);
  }
  JOB_CHECK(w.exchange({}));
  JOB_CHECK(is_short(status::timed_out) && !is_failure(status::timed_out));
  JOB_CHECK(std::string_view(describe(status::timed_out)) == "the time limit is over");
  JOB_CHECK(me.ep.request_short(1, me.note, 0) == status::ok);
  JOB_CHECK(me.ep.request_short(1, me.note, 0) == status::ok);
  JOB_CHECK(me.ep.quiet() == status::ok);
  JOB_CHECK(me.ep.barrier() == status::ok);
}

void refused(world& w) {
  endpoint ep = test::open_endpoint(w);
  if (auto r = ep.start(); !r) fatal(3, "%s", r.error().message().c_str());
  const auto fd = ep.event_fd();
  JOB_CHECK(!fd && fd.error().message().find("before start()") != std::string::npos);
  JOB_CHECK(ep.arm() == status::unsupported);
}

void dies(world& w) {
  side me(w);
  JOB_CHECK(me.asleep([&] { return me.ep.barrier(); }) == status::ok);
  if (me.ep.rank() == 1) ::kill(::getpid(), SIGKILL);
  for (;;) (void)me.sleep();
}

}  // namespace

int main(int argc, char** argv) {
  auto job = world::join();
  if (!job) fatal(3, "%s", job.error().message().c_str());
  const std::string_view what = argc > 1 ? argv[1] : "";
  if (what == "server" && argc > 2)
    server(*job, static_cast<std::uint32_t>(std::atoi(argv[2])), argc > 3);
  else if (what == "requests")
    requests(*job);
  else if (what == "rma")
    rma(*job);
  else if (what == "collectives")
    collectives(*job);
  else if (what == "limits")
    limits(*job);
  else if (what == "refused")
    refused(*job);
  else if (what == "dies")
    dies(*job);
  else
    return 2;
}
