// A process of a job that does what its first argument says, and prints what it saw. Run by
// job_test under penrun, and by launcher tests under PMIx launchers. The caller bounds its waits.
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <thread>

#include "lib/job/job.hpp"

using penstock::job::job;

namespace {

std::vector<std::byte> blob(std::uint32_t rank, std::uint32_t round, std::size_t size) {
  std::vector<std::byte> out(size);
  for (std::size_t i = 0; i < size; ++i)
    out[i] = static_cast<std::byte>((i * 7 + rank * 31 + round * 13) & 255);
  return out;
}

// Every rank contributes bytes of its own length; all must arrive everywhere, in rank order.
int exchange(job& j, std::size_t unit) {
  for (std::uint32_t round = 0; round < 5; ++round) {
    const auto all = j.exchange(blob(j.rank(), round, unit * j.rank() + round));
    if (!all) {
      std::fprintf(stderr, "exchange: %s\n", all.error().message().c_str());
      return 1;
    }
    for (std::uint32_t r = 0; r < j.size(); ++r)
      if ((*all)[r] != blob(r, round, unit * r + round)) return 2;
    if (!j.fence()) return 3;
  }
  std::printf("exchanged %u of %u host %u of %u name %s\n", j.rank(), j.size(), j.host_rank(),
              j.host_size(), j.name().c_str());
  j.finalize(0);
  return 0;
}

// Sleeps until the launcher says that the job is over, and says who ended it.
int watch(job& j) {
  std::printf("watching pid %d\n", getpid());
  std::fflush(stdout);
  pollfd p{j.ended_fd(), POLLIN, 0};
  while (!j.ended()) poll(&p, 1, -1);
  std::printf("saw: %s\n", j.ended_by()->text().c_str());
  j.finalize(0);
  return 0;
}

int fork_a_daemon(job& j) {
  if (fork() == 0) {
    setsid();
    if (fork() != 0) _exit(0);
    std::printf("daemon pid %d\n", getpid());
    std::fflush(stdout);
    for (;;) pause();
  }
  return watch(j);
}

// What the launcher shares must not be writable; what it did not ask for must not harm it.
int misbehave(job& j, const char* ticket) {
  int socket = -1, board = -1;
  if (std::sscanf(ticket, "%d:%d:", &socket, &board) != 2) return 1;
  const char rubbish[] = "this is no frame of the protocol, and far too long a one";
  if (j.rank() == 1 && write(socket, rubbish, sizeof rubbish) < 0) return 1;
  return watch(j);
}

int board_is_writable(const char* ticket) {
  int socket = -1, board = -1;
  if (std::sscanf(ticket, "%d:%d:", &socket, &board) != 2) return 1;
  void* at = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, board, 0);
  const bool by_map = at != MAP_FAILED;
  const bool by_write = pwrite(board, "x", 1, 0) == 1;
  const bool by_size = ftruncate(board, 0) == 0;
  std::printf("writable: %d %d %d\n", by_map, by_write, by_size);
  return 0;
}

// Waits, and has no handler: ThreadSanitizer's runtime calls those later, and now and then never.
int tell_signal(job& j) {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int sig : {SIGUSR1, SIGTERM}) sigaddset(&signals, sig);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  std::printf("ready\n");
  std::fflush(stdout);
  int caught = 0;
  sigwait(&signals, &caught);
  std::printf("caught %d\n", caught);
  j.finalize(0);
  return 0;
}

// Says of each pair of SIGCONT and SIGUSR1 which came first, as far as it can be seen.
int tell_order(job& j) {
  sigset_t signals[2];
  for (const int i : {0, 1}) {
    sigemptyset(&signals[i]);
    sigaddset(&signals[i], i == 0 ? SIGCONT : SIGUSR1);
    sigprocmask(SIG_BLOCK, &signals[i], nullptr);
  }
  for (int i = 0; i < 100; ++i) {
    std::printf("ready\n");
    std::fflush(stdout);
    sigset_t now;
    do {
      sigpending(&now);
    } while (sigismember(&now, SIGCONT) == 0 && sigismember(&now, SIGUSR1) == 0);
    if (sigismember(&now, SIGCONT) == 0) std::printf("out of order\n");
    for (const sigset_t& each : signals) {
      int sig = 0;
      sigwait(&each, &sig);
    }
  }
  j.finalize(0);
  return 0;
}

int act(job& j, std::string_view what, std::uint32_t who, int code, const std::string& ticket) {
  const bool me = j.rank() == who;
  if (what == "exchange") return exchange(j, 100);
  if (what == "exchange-big") return exchange(j, 300'000);
  if (what == "watch") return watch(j);
  if (what == "daemon") return fork_a_daemon(j);
  if (what == "rubbish") return misbehave(j, ticket.c_str());
  if (what == "signal") return tell_signal(j);
  if (what == "order") return tell_order(j);
  if (what == "kill") {
    if (me) raise(SIGKILL);
    return watch(j);
  }
  if (what == "exit") {  // leaves without a word
    if (me) return code;
    return watch(j);
  }
  if (what == "stray") {  // as a library's exit(3) under a program that knows nothing of it
    if (me) std::exit(code);
    return watch(j);
  }
  if (what == "stray-at-once") {
    if (me) ::_exit(code);
    return watch(j);
  }
  if (what == "vanish") _exit(0);  // all do, or they notice that one has
  if (what == "abort") {
    if (me) j.abort(code, "told to abort");
    return watch(j);
  }
  if (what == "end") {
    if (me) j.end(code);
    return watch(j);
  }
  if (what == "heed") {
    std::signal(SIGINT, SIG_IGN);
    std::printf("heeding\n");
    std::fflush(stdout);
    for (;;) pause();
  }
  if (what == "fatal") {
    if (me) penstock::fatal(code, "told to fail");
    return watch(j);
  }
  if (what == "finalize") {
    j.finalize(me ? code : 0);
    return 0;
  }
  if (what == "finalize-and-return") {
    j.finalize(0);
    return me ? code : 0;
  }
  if (what == "leave-and-die") {  // the others still have something to do
    j.finalize(0);
    if (me) {
      std::signal(code, SIG_DFL);  // a sanitizer has its own handler
      raise(code != 0 ? code : SIGKILL);
    }
    usleep(300'000);
    std::printf("ended: %d\n", j.ended());
    return 0;
  }
  if (what == "miss") {  // the others wait for a process that does not come
    if (me) return 0;
    const auto all = j.exchange({});
    std::printf("exchange failed: %d\n", !all);
    return 0;
  }
  if (what == "mismatch") {
    const bool ok = me ? j.fence().has_value() : j.exchange({}).has_value();
    std::printf("collective failed: %d\n", !ok);
    return 0;
  }
  if (what == "wedge") {  // survivors that do not care
    std::signal(SIGTERM, SIG_IGN);
    std::printf("wedged pid %d\n", getpid());
    std::fflush(stdout);
    if (me) raise(SIGKILL);
    for (;;) pause();
  }
  if (what == "stop") {
    if (me) raise(SIGSTOP);
    return exchange(j, 10);
  }
  if (what == "say") {  // all the same, and each its own
    std::fprintf(stderr, "penstock[%u/%u]: error: so say all\nso says rank %u\nso said all\n",
                 j.rank(), j.size(), j.rank());
    if (code == 0) j.finalize(0);
    return code;
  }
  if (what == "early") {  // one is about to end, see end_after()
    for (;;) {
      if (const auto all = j.exchange(blob(j.rank(), 0, 1000)); !all) {
        std::fprintf(stderr, "exchange: %s\n", all.error().message().c_str());
        return 3;
      }
    }
  }
  std::fprintf(stderr, "unknown: %.*s\n", static_cast<int>(what.size()), what.data());
  return 99;
}

// Ends this process in a moment, wherever it is then: with a code, or by a signal if negative.
void end_after(int ms, int how) {
  std::thread([=] {
    std::this_thread::sleep_for(std::chrono::milliseconds(ms));
    if (how < 0) raise(-how);
    _exit(how);
  }).detach();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "exchange";
  const auto who = static_cast<std::uint32_t>(argc > 2 ? std::atoi(argv[2]) : 0);
  const int code = argc > 3 ? std::atoi(argv[3]) : 0;
  const auto s = penstock::read_settings();
  if (!s) {
    std::fprintf(stderr, "%s\n", s.error().message().c_str());
    return 90;
  }
  const char* const rank = std::getenv("PENRUN_RANK");
  if (what == "early" && rank != nullptr && std::strtoul(rank, nullptr, 10) == who)
    end_after(argc > 4 ? std::atoi(argv[4]) : 0, code);
  if (what == "board") return board_is_writable(s->launch.c_str());
  auto j = job::join(*s);
  if (!j) {
    std::fprintf(stderr, "join: %s\n", j.error().message().c_str());
    return 91;
  }
  if (what == "stop") {
    std::printf("joined pid %d rank %u\n", getpid(), (*j)->rank());
    std::fflush(stdout);
  }
  return act(**j, what, who, code, s->launch);
}
