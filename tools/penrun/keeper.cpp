// See keeper.hpp. One loop around poll(2). The service handles the processes' messages, a
// line_stream their output; other hosts are in keeper_remote.cpp; keeper_verdict.cpp judges which
// process's end ends the job. Here are starts, signals and clocks.
#include "tools/penrun/keeper.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <utility>

#include "lib/base/descriptors.hpp"
#include "lib/base/shortage.hpp"
#include "tools/penrun/descendants.hpp"
#include "tools/penrun/ended.hpp"
#include "tools/penrun/keeper_loop.hpp"
#include "tools/penrun/known_state.hpp"
#include "tools/penrun/where.hpp"

namespace penrun {

using penstock::now_ns;
using penstock::job::death;

namespace {

constexpr int timed_out = 124;  // as timeout(1)
// How long after the time limit penrun itself ends at the latest, even if its standard error is not
// read: 5 s for the stacks, and the time to end killed processes on this host, or on others.
constexpr std::uint64_t after_limit_ns = 16'000'000'000, after_limit_far_ns = 30'000'000'000;
// How long a host may take to say that all there has been killed.
constexpr std::uint64_t unreachable_ns = 20'000'000'000;
// How long a process may live after SIGKILL: one that waits in the kernel for a device may live for
// ever.
constexpr std::uint64_t unkillable_ns = 10'000'000'000;
constexpr std::uint64_t between_looks_ns = 20'000'000;
// How long after the job's end a process that does not notice it by itself is told by SIGQUIT.
constexpr std::uint64_t quit_after_ns = 1'000'000'000;

// The guard ends the processes that are left.
void end_late(int) { ::_exit(timed_out); }

void end_at_the_latest_in(std::uint64_t ns) {
  struct sigaction a {};
  a.sa_handler = end_late;
  ::sigaction(SIGALRM, &a, nullptr);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGALRM);
  sigprocmask(SIG_UNBLOCK, &set, nullptr);
  itimerval t{};
  t.it_value.tv_sec = static_cast<time_t>(ns / 1'000'000'000) + 1;
  ::setitimer(ITIMER_REAL, &t, nullptr);
}

// For a rank that died of a wrong address, which may be one that it gave to the library.
const char* crash_hint(const penstock::job::death& d) noexcept {
  return d.code_or_signal == -SIGSEGV || d.code_or_signal == -SIGBUS
             ? " (PENSTOCK_CHECKS=yes looks at what calls of the library are given)"
             : "";
}

}  // namespace

bool keeper::set_up() {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  const sigset_t set =
      heeded({SIGCHLD, SIGINT, SIGTERM, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT});
  sigprocmask(SIG_BLOCK, &set, nullptr);
  signals_ = penstock::opened("signalfd", ::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  board_ = shared_.make(options_.processes);
  if (signals_ < 0 || board_ == nullptr) return false;
  shared_.name = penstock::job::random_name();
  shared_.host_size = options_.processes;
  return true;
}

void keeper::add(std::uint32_t rank, const spawned& p, member m) {
  std::string prefix;
  if (options_.label) prefix.append("[").append(std::to_string(rank)).append("] ");
  const bool many = options_.processes > 1;
  pids_.push_back(p.pid);
  members_.push_back(std::move(m));
  streams_.emplace_back(p.out, STDOUT_FILENO, prefix, many);
  line_stream::taker taker;
  if (many && !options_.quiet) taker = [this, rank](auto line) { repeats_.take(rank, line); };
  streams_.emplace_back(p.err, STDERR_FILENO, prefix, many, std::move(taker));
  ++alive_;
}

bool keeper::start_all() {
  if (!options_.hosts.empty()) return start_remotes();
  if (auto bound = shared_.places.prepare(options_.bind); !bound)
    std::fprintf(stderr, "penrun: %s\n", bound.error().message().c_str());
  std::uint64_t looked_ns = now_ns();
  for (std::uint32_t rank = 0; rank < options_.processes; ++rank) {
    // Signals, clocks and ends are heeded meanwhile; a look costs time for each process.
    if (now_ns() - looked_ns > between_looks_ns) {
      turn(0);
      if (over_ || asked_to_end_) return true;
      looked_ns = now_ns();
    }
    const auto started = spawn(options_, shared_, rank);
    if (!started) {
      std::fprintf(stderr, "penrun: %s\n", started.error().message().c_str());
      code_ = code_of(started.error().code);
      return false;
    }
    add(rank, *started, member(started->socket));
  }
  return true;
}

int keeper::run() {
  if (!set_up()) {
    const penstock::failure why{"cannot set up the job", errno, penstock::what_to_raise(errno)};
    std::fprintf(stderr, "penrun: %s\n", why.message().c_str());
    return 1;
  }
  if (options_.timeout_ns != 0) {
    limit_ns_ = now_ns() + options_.timeout_ns;
    end_at_the_latest_in(options_.timeout_ns +
                         (options_.hosts.empty() ? after_limit_ns : after_limit_far_ns));
  }
  line_stream::give_up_at(limit_ns_);
  if (start_all())
    while (alive_ > 0) turn(wait_ms());
  leave_remotes();
  kill_descendants();
  for (auto& s : streams_) s.finish();
  for (std::uint32_t rank = 0; rank < members_.size(); ++rank) repeats_.release(rank);
  std::fputs(repeats_.summary().c_str(), stderr);
  if (!unsaid_.empty() && !options_.quiet) std::fprintf(stderr, "penrun: %s\n", unsaid_.c_str());
  return code_ == 0 && line_stream::lost_output() ? 1 : code_;
}

void keeper::turn(int wait) {
  std::vector<pollfd> fds;
  fds.push_back({signals_, POLLIN, 0});
  fds.push_back({lifeline_, POLLIN, 0});
  const std::size_t first_member = fds.size();
  for (const auto& m : members_)
    fds.push_back({m.fd(), static_cast<short>(m.has_output() ? POLLIN | POLLOUT : POLLIN), 0});
  const std::size_t first_stream = fds.size();
  for (const auto& s : streams_) fds.push_back({s.fd(), POLLIN, 0});
  const std::size_t first_remote = fds.size();
  for (const auto& r : remotes_) {
    fds.push_back({r.open ? r.link->in() : -1, POLLIN, 0});
    fds.push_back({r.link->out_if_waiting(), POLLOUT, 0});
  }
  fds.push_back({wants_input() ? STDIN_FILENO : -1, POLLIN, 0});
  if (::poll(fds.data(), fds.size(), wait) < 0) return;

  for (std::size_t i = 0; i < streams_.size(); ++i)
    if (fds[first_stream + i].revents != 0) streams_[i].forward();
  for (std::uint32_t rank = 0; rank < members_.size(); ++rank) {
    if (fds[first_member + rank].revents == 0) continue;
    service_.flush(rank);
    if (!service_.receive(rank)) {
      std::fprintf(stderr, "penrun: rank %u %s\n", rank, members_[rank].fault());
      end_job({static_cast<int>(rank), 1}, 1);
    }
    // Whether and why it has ended is known when it has been reaped. A process may also have become
    // another program.
    if (member& m = members_[rank]; m.hung_up && pids_[rank] > 0 && !is_ending(pids_[rank]))
      m.gone = true;
  }
  for (std::size_t i = 0; i < remotes_.size(); ++i) {
    if (fds[first_remote + 2 * i + 1].revents != 0) remotes_[i].link->flush();
    if (fds[first_remote + 2 * i].revents != 0) hear(remotes_[i]);
  }
  if (fds.back().revents != 0) pass_input();
  if (fds[0].revents != 0) on_signal();
  judge();
  if (fds[1].revents != 0) hurry();
  look_at_clocks();
}

void keeper::on_signal() {
  for (const int sig : taken(signals_)) {
    if (sig == SIGCHLD) continue;
    signal_all(sig);
    if (sig != SIGINT && sig != SIGTERM && sig != SIGQUIT && sig != SIGHUP) continue;
    // They may end in their own way; those that do not are ended when the grace is over. A second
    // signal ends the grace.
    if (asked_to_end_) kill_ns_ = now_ns();
    asked_to_end_ = true;
    sent_ = sig;
    if (kill_ns_ == 0) kill_ns_ = now_ns() + options_.grace_ns;
  }
  reap();
}

void keeper::signal_all(int sig) {
  for (const pid_t pid : pids_)
    if (pid > 0 && ::kill(-pid, sig) != 0) ::kill(pid, sig);
  for (auto& r : remotes_) r.link->send_value(relay_kind::signal, 0, std::int32_t{sig});
}

void keeper::reap() {
  int status = 0;
  pid_t pid = 0;
  while ((pid = next_ended(status)) > 0) {
    const auto it = std::find(pids_.begin(), pids_.end(), pid);
    if (it == pids_.end()) {  // a remote shell, or an orphan of the job
      for (auto& r : remotes_)
        if (r.shell == pid) {
          r.shell = 0;
          shell_ended(r);
        }
      continue;
    }
    reaped(static_cast<std::uint32_t>(it - pids_.begin()), status);
  }
  // They have ended, though nobody can say how.
  if (pid < 0) {
    const char* const why = std::strerror(errno);
    for (std::uint32_t rank = 0; rank < pids_.size(); ++rank) {
      if (pids_[rank] <= 0) continue;
      std::fprintf(stderr, "penrun: waitpid does not tell how rank %u has ended: %s\n", rank, why);
      reaped(rank, W_EXITCODE(1, 0));
    }
  }
}

void keeper::reaped(std::uint32_t rank, int status) {
  pids_[rank] = 0;
  // Its last messages count: an abort, or that it left.
  if (!service_.receive(rank)) members_[rank].finalized = false;
  ended_.push_back({rank, status});
}

void keeper::end_job(death d, int code) {
  note_code(code, d.text());
  if (over_) return;
  over_ = true;
  decided_ = d.ordered;
  if (!d.ordered && d.rank >= 0 && (alive_ > 0 || d.code_or_signal < 0)) {
    if (!options_.quiet)
      std::fprintf(stderr, "penrun: %s%s%s\n", d.text().c_str(),
                   alive_ > 0 ? "; ending the job" : "",
                   members_[static_cast<std::uint32_t>(d.rank)].joined ? crash_hint(d) : "");
    unsaid_.clear();
  }
  // J1 announce  store-release board.ended  -> J2 (lib/job/job.hpp)
  board_->ended.store(penstock::job::pack(d), std::memory_order_release);
  eventfd_write(shared_.bell, 1);
  for (auto& r : remotes_) r.link->send_value(relay_kind::over, 0, penstock::job::pack(d));
  service_.give_up();
  if (kill_ns_ == 0) kill_ns_ = now_ns() + options_.grace_ns;
  quit_ns_ = now_ns() + std::min(options_.grace_ns / 2, quit_after_ns);
}

// All processes find it on the board of their host.
void keeper::note_left(std::uint32_t rank) {
  board_->note_left(rank);
  for (auto& r : remotes_) r.link->send(relay_kind::left, rank);
}

int keeper::wait_ms() const {
  std::uint64_t next = 0;
  for (const std::uint64_t clock :
       {limit_ns_, kill_ns_, quit_ns_, verdict_ns_, repeats_.next_ns(), over_ ? 0 : ask_ns_})
    if (clock != 0 && (next == 0 || clock < next)) next = clock;
  if (next == 0) return -1;
  const std::uint64_t now = now_ns();
  return now >= next
             ? 0
             : static_cast<int>(std::min<std::uint64_t>((next - now) / 1'000'000 + 1, 60'000));
}

void keeper::look_at_clocks() {
  repeats_.release_old();
  const std::uint64_t now = now_ns();
  ask_remotes(now);
  if (quit_ns_ != 0 && now >= quit_ns_) {
    quit_ns_ = 0;
    if (remotes_.empty() && alive_ > 0) tell_to_quit();
    for (auto& r : remotes_) r.link->send(relay_kind::quit, 0);
  }
  if (limit_ns_ != 0 && now >= limit_ns_) {
    limit_ns_ = 0;
    std::fprintf(stderr, "penrun: the job's time is over; %u of %u processes had not ended\n",
                 alive_, options_.processes);
    tell_where();
    code_ = timed_out;
    unsaid_.clear();
    hurry();
  } else if (kill_ns_ != 0 && now >= kill_ns_) {
    if (!options_.quiet && alive_ > 0 && !std::exchange(killing_said_, true))
      std::fprintf(stderr, "penrun: killing %u processes that did not end by themselves\n", alive_);
    hurry();
    unsaid_.clear();
  }
}

void keeper::tell_where() {
  for (auto& r : remotes_) r.link->send(relay_kind::where, 0);
  std::vector<std::pair<std::uint32_t, pid_t>> running;
  for (std::uint32_t rank = 0; rank < pids_.size(); ++rank)
    if (pids_[rank] > 0) running.emplace_back(rank, pids_[rank]);
  print_where(running);
}

// They have not ended though killed.
void keeper::give_up() {
  std::fprintf(stderr, "penrun: %u processes do not end though killed; leaving them:", alive_);
  for (pid_t& pid : pids_)
    if (pid > 0) std::fprintf(stderr, " %d", std::exchange(pid, 0));
  std::fputs("\n", stderr);
  alive_ = 0;
}

// Ends all processes now. The loop goes on until they are reaped; a kill is repeated in case a
// process was born since.
void keeper::hurry() {
  end_job({-1, sent_ != 0 ? -sent_ : code_}, 128 + SIGKILL);
  const std::uint64_t now = now_ns();
  kill_ns_ = now + 200'000'000;
  if (hurry_ns_ == 0) hurry_ns_ = now;
  if (remotes_.empty()) {
    for (const pid_t pid : descendants()) ::kill(pid, SIGKILL);
    if (now - hurry_ns_ > unkillable_ns) give_up();
    return;
  }
  // The agents do the killing, so the shells live until the agents have reported that it is done.
  for (auto& r : remotes_) {
    r.link->send(relay_kind::kill, 0);
    if (now - hurry_ns_ > unreachable_ns) lose(r, "does not answer", 1);
  }
}

int keep(const options& o, int lifeline) { return keeper(o, lifeline).run(); }

}  // namespace penrun
