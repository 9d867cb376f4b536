// The whole job in one process, by a seed (README.md).
//   whole --seed S                one run, in this process
//   whole --from S --seeds N      N runs from that seed on, each in a process of its own
//   whole --from S --seconds T    as many as fit in that time
//   whole --replay S              a run twice, which must be the same
// Options: --ranks R (8), --jobs J (1): runs at a time, --trace 1: a line for each change of turn.
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "lib/base/log.hpp"
#include "test/whole/interpose.hpp"
#include "test/whole/scheduler.hpp"
#include "test/whole/workload.hpp"

using namespace penstock;
using namespace penstock::whole;

namespace {

struct options {
  std::uint64_t seed = 0, from = 1, seeds = 0, seconds = 0, replay = 0;
  std::uint32_t ranks = 8, jobs = 1;
  bool trace = false;
};

/// Where the processor refuses to read its counter, as it was told to, this reads the run's clock.
void on_fault(int, siginfo_t*, void* machine) {
#if defined(__x86_64__)
  auto& at = static_cast<ucontext_t*>(machine)->uc_mcontext.gregs;
  const auto* code = reinterpret_cast<const unsigned char*>(at[REG_RIP]);
  if (code[0] == 0x0f && code[1] == 0x31 && is_scheduled()) {
    const std::uint64_t now = virtual_ns();
    at[REG_RAX] = static_cast<greg_t>(now & 0xffffffff);
    at[REG_RDX] = static_cast<greg_t>(now >> 32);
    at[REG_RIP] += 2;
    return;
  }
#else
  (void)machine;
#endif
  fail("FAULT", "an access to memory that is not there");
}
void on_alarm(int) {
  static std::uint64_t before = 0;
  if (turns() == before) fail("SPINS", "a thread has kept the turn for half a minute");
  before = turns();
  ::alarm(30);
}

void catch_signal(int signal, void (*run)(int, siginfo_t*, void*)) {
  struct sigaction a {};
  a.sa_sigaction = run;
  a.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
  sigaction(signal, &a, nullptr);
}

const plan* running = nullptr;
record* seen = nullptr;
void on_fatal(int code) noexcept {
  if (code <= 0 || code >= 124) fail("EXIT CODE", std::to_string(code));
  set_fatal_hook(on_fatal);  // other ranks may come to it, too
  end_by(*running, *seen, "FATAL", last_line());
}

int run_one(const options& o) {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  // The kernel's table grows at once while there is one thread; with more each time takes 10 ms.
  ::close(::fcntl(STDOUT_FILENO, F_DUPFD, 2000));
  catch_signal(SIGSEGV, on_fault);
  ::signal(SIGALRM, on_alarm);
  ::alarm(30);
  prctl(PR_SET_TSC, PR_TSC_SIGSEGV);
  const plan p = plan_of(o.seed, o.ranks);
  running = &p;
  set_fatal_hook(on_fatal);
  if (o.trace) {
    for (const auto* of : {&p.settings, &p.faults})
      for (const auto& [name, value] : *of)
        std::fprintf(stderr, "%s=%s\n", name.c_str(), value.c_str());
    if (p.failing_allocation != 0)
      std::fprintf(stderr, "allocation %llu of rank %u fails\n",
                   static_cast<unsigned long long>(p.failing_allocation), p.faulty_rank);
    if (p.dying_rank != no_rank)
      std::fprintf(stderr, "rank %u dies at turn %llu\n", p.dying_rank,
                   static_cast<unsigned long long>(p.dies_at_turn));
    if (p.wedged_rank != no_rank) std::fprintf(stderr, "rank %u is wedged\n", p.wedged_rank);
    std::fprintf(stderr, "%u messages of each of %u threads\n", p.messages, p.threads);
  }
  set_chance(o.seed);
  set_processors(p.processors);
  begin({o.seed, o.ranks, o.trace, p.dying_rank, p.dies_at_turn});
  {
    launcher l(p.ranks, p.seed);
    record r(p.ranks);
    r.engines.resize(p.ranks);
    seen = &r;
    std::thread launching;
    if (p.dying_rank != no_rank) launching = std::thread([&] { attend_death(p, l, r); });
    std::vector<std::unique_ptr<party>> parties;
    std::vector<std::thread> ranks;
    for (std::uint32_t i = 0; i < p.ranks; ++i)
      parties.push_back(std::make_unique<party>(p, l, r, i));
    is_doing("waiting for the ranks");
    for (auto& one : parties) ranks.emplace_back([&one] { one->run(); });
    for (auto& t : ranks) t.join();
    if (l.finished() != p.ranks) fail("EXIT", "a rank has not told that it leaves");
    for (rank_id from = 0; from < p.ranks; ++from)
      for (rank_id to = 0; to < p.ranks; ++to)
        if (!p.breaks && !r.all_handled(from, to))
          fail("LOST", "what rank " + std::to_string(from) + " sent to rank " + std::to_string(to) +
                           " before both left was not handled");
    if (launching.joinable()) end_well(p, "ok, before its death");
  }
  if (p.differs) fail("DIFFERS", "a setting differs, and nobody says so");
  end_well(p, "ok");
}

/// The command of a run. The environment is empty, and the arguments are as long whatever is asked
/// for, since addresses depend on them.
struct command {
  command(const options& o, std::uint64_t seed)
      : seed_(std::to_string(seed)), ranks_(std::to_string(o.ranks)), trace_(o.trace ? "1" : "0") {}
  std::string seed_, ranks_, trace_;
  char name_[6] = "whole", by_seed_[7] = "--seed", of_ranks_[8] = "--ranks",
       by_trace_[8] = "--trace";
  char* arguments[8] = {name_,         by_seed_,  seed_.data(),  of_ranks_,
                        ranks_.data(), by_trace_, trace_.data(), nullptr};
  char* environment[1] = {nullptr};
};
void start_over(const options& o) {
  command run(o, o.seed);
  ::execve("/proc/self/exe", run.arguments, run.environment);
}

/// A run in a process of its own.
struct child {
  pid_t pid = -1;
  int out = -1;
  std::uint64_t seed = 0;
};

child start(const options& o, std::uint64_t seed) {
  child c;
  c.seed = seed;
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) std::exit(2);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, ends[1], 1);
  command run(o, seed);
  if (posix_spawn(&c.pid, "/proc/self/exe", &files, nullptr, run.arguments, run.environment) != 0)
    std::exit(2);
  posix_spawn_file_actions_destroy(&files);
  ::close(ends[1]);
  c.out = ends[0];
  return c;
}

/// What a run has said, and its exit code.
std::string end_of(const child& c, int& code) {
  std::string said;
  char b[256];
  for (ssize_t n; (n = ::read(c.out, b, sizeof b)) > 0;)
    said.append(b, static_cast<std::size_t>(n));
  ::close(c.out);
  int status = 0;
  ::waitpid(c.pid, &status, 0);
  code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return said;
}

int replay(const options& o) {
  std::string said[2];
  for (std::string& s : said) {
    int code = 0;
    s = end_of(start(o, o.replay), code);
    if (code != 0) return code;
  }
  std::printf("%s%s", said[0].c_str(), said[1].c_str());
  if (said[0] == said[1]) return 0;
  const bool same_addresses = ::personality(ADDR_NO_RANDOMIZE) != -1;
  std::puts(same_addresses
                ? "two runs of a seed differ"
                : "two runs of a seed differ, since addresses do: personality() is refused here");
  constexpr int skipped = 77;
  return same_addresses ? 1 : skipped;
}

int search(const options& o) {
  using clock = std::chrono::steady_clock;
  const auto begun = clock::now();
  const auto lasted = [&] { return std::chrono::duration<double>(clock::now() - begun).count(); };
  std::vector<child> under_way;
  std::uint64_t next = o.from, done = 0, failed = 0;
  const auto more = [&] {
    return failed == 0 &&
           (o.seeds != 0 ? next < o.from + o.seeds : lasted() < static_cast<double>(o.seconds));
  };
  while (more() || !under_way.empty()) {
    while (under_way.size() < o.jobs && more()) under_way.push_back(start(o, next++));
    const child c = under_way.front();
    under_way.erase(under_way.begin());
    int code = 0;
    (void)end_of(c, code);
    ++done;
    if (code == 0) continue;
    ++failed;
    std::printf("FOUND after %.1f s and %llu seeds: exit code %d of whole --seed %llu --ranks %u\n",
                lasted(), static_cast<unsigned long long>(done), code,
                static_cast<unsigned long long>(c.seed), o.ranks);
  }
  std::printf("%llu seeds of %u ranks, %llu failed, %.0f seeds an hour\n",
              static_cast<unsigned long long>(done), o.ranks,
              static_cast<unsigned long long>(failed), static_cast<double>(done) * 3600 / lasted());
  return failed != 0 ? 1 : 0;
}

options parse(int argc, char** argv) {
  options o;
  const auto is = [](const char* a, const char* b) { return std::strcmp(a, b) == 0; };
  for (int i = 1; i < argc; i += 2) {
    const std::uint64_t n = i + 1 < argc ? std::strtoull(argv[i + 1], nullptr, 0) : 0;
    if (is(argv[i], "--seed"))
      o.seed = n;
    else if (is(argv[i], "--from"))
      o.from = n;
    else if (is(argv[i], "--seeds"))
      o.seeds = n;
    else if (is(argv[i], "--seconds"))
      o.seconds = n;
    else if (is(argv[i], "--replay"))
      o.replay = n;
    else if (is(argv[i], "--ranks"))
      o.ranks = static_cast<std::uint32_t>(n);
    else if (is(argv[i], "--trace"))
      o.trace = n != 0;
    else if (is(argv[i], "--jobs"))
      o.jobs = static_cast<std::uint32_t>(n);
    else {
      std::fprintf(stderr, "whole: what is %s? See README.md\n", argv[i]);
      std::exit(2);
    }
  }
  if (o.ranks < 2 || o.ranks > 64 || o.jobs == 0) std::exit(2);
  return o;
}

}  // namespace

int main(int argc, char** argv) {
  const options o = parse(argc, argv);
  // Addresses must be the same in each run, and one processor hands the turn on fastest.
  if (o.seed != 0) {
    if ((::personality(0xffffffff) & ADDR_NO_RANDOMIZE) == 0) {
      if (::personality(ADDR_NO_RANDOMIZE) != -1) start_over(o);  // else a run may differ
    }
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<unsigned>(::sched_getcpu()), &one);
    ::sched_setaffinity(0, sizeof one, &one);
    const sched_param none{};
    ::sched_setscheduler(0, SCHED_BATCH, &none);  // a thread that is woken waits for the waker
    return run_one(o);
  }
  return o.replay != 0 ? replay(o) : search(o);
}
