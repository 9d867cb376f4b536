// See guard.hpp.
#include "tools/penrun/guard.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "lib/base/descriptors.hpp"
#include "lib/base/result.hpp"
#include "lib/base/shortage.hpp"
#include "tools/penrun/descendants.hpp"
#include "tools/penrun/ended.hpp"
#include "tools/penrun/known_state.hpp"
#include "tools/penrun/permitted.hpp"

namespace penrun {
namespace {

// Moves the terminal's input to the keeper's standard input. The keeper and the job are in process
// groups of their own, where reading the terminal would stop them.
class terminal {
 public:
  explicit terminal(int to) : to_(to) {}
  [[nodiscard]] int fd() const { return to_ >= 0 ? STDIN_FILENO : -1; }
  void pump() {
    char buffer[4096];
    const auto n = ::read(STDIN_FILENO, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) return;
    // The pipe holds far more than a line; a job that does not read loses the rest, and we do not
    // hang.
    if (n <= 0 || ::write(to_, buffer, static_cast<std::size_t>(n)) < 0) {
      ::close(to_);
      to_ = -1;
    }
  }

 private:
  int to_;
};

sigset_t stop_only() { return heeded({SIGTSTP}); }

// SIGTSTP is pending: the kernel stops this process as it does any other. So a SIGCONT cancels the
// stop at any moment, even before it; it would not undo a stop of our own.
void stop(pid_t keeper) {
  const sigset_t set = stop_only();
  ::kill(keeper, SIGTSTP);
  sigprocmask(SIG_UNBLOCK, &set, nullptr);
  sigprocmask(SIG_BLOCK, &set, nullptr);
}

int failed(const char* call) {
  const penstock::failure why{call, errno, penstock::what_to_raise(errno)};
  std::fprintf(stderr, "penrun: %s\n", why.message().c_str());
  return 1;
}

// stops: readable when SIGTSTP is pending; the signal must not be read from it.
int watch(pid_t keeper, int signals, int stops, terminal input) {
  for (;;) {
    pollfd fds[] = {{signals, POLLIN, 0}, {input.fd(), POLLIN, 0}, {stops, POLLIN, 0}};
    if (::poll(fds, 3, -1) < 0 && errno != EINTR) return failed("poll");
    if (fds[1].revents != 0) input.pump();
    if (fds[2].revents != 0) stop(keeper);
    if (fds[0].revents == 0) continue;
    bool ended = false;
    for (const int sig : taken(signals)) {
      if (sig == SIGCHLD)
        ended = true;
      else
        ::kill(keeper, sig);
    }
    if (!ended) continue;
    // Reaps the orphans of a keeper that was killed, too.
    int status = 0;
    pid_t pid = 0;
    while ((pid = next_ended(status)) > 0) {
      if (pid != keeper) continue;
      if (WIFEXITED(status)) return WEXITSTATUS(status);
      std::fprintf(stderr, "penrun: the keeper was killed by signal %d (%s)\n", WTERMSIG(status),
                   ::strsignal(WTERMSIG(status)));
      return 128 + WTERMSIG(status);
    }
    if (pid < 0) return failed("waitpid");
  }
}

}  // namespace

int guard(const std::function<int(int)>& keep) {
  if (const char* const call = refused_call()) return failed(call);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  const sigset_t stop_set = stop_only();
  const sigset_t set =
      heeded({SIGCHLD, SIGINT, SIGTERM, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2, SIGCONT});
  sigprocmask(SIG_BLOCK, &set, nullptr);
  sigprocmask(SIG_BLOCK, &stop_set, nullptr);
  // A limit's end is the failure of a call, which names it (ulimit -f).
  for (const int sig : {SIGPIPE, SIGXFSZ}) std::signal(sig, SIG_IGN);

  int life[2], input[2] = {-1, -1};
  const bool at_terminal = ::isatty(STDIN_FILENO) == 1;
  if (!penstock::opened("pipe2", ::pipe2(life, O_CLOEXEC), life) ||
      (at_terminal && !penstock::opened("pipe2", ::pipe2(input, O_CLOEXEC), input)))
    return failed("pipe2");
  const int signals =
      penstock::opened("signalfd", ::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  const int stops = penstock::opened("signalfd", ::signalfd(-1, &stop_set, SFD_CLOEXEC));
  if (signals < 0 || stops < 0) return failed("signalfd");
  const pid_t keeper = ::fork();
  if (penstock::asked("clone", keeper) < 0) return failed("fork");
  if (keeper == 0) {
    for (const int fd : {life[1], signals, stops}) ::close(fd);
    ::setpgid(0, 0);
    if (at_terminal) {
      ::dup2(input[0], STDIN_FILENO);
      ::close(input[0]);
      ::close(input[1]);
    }
    std::exit(keep(life[0]));
  }
  ::close(life[0]);
  if (at_terminal) {
    ::close(input[0]);
    ::fcntl(input[1], F_SETFL, O_NONBLOCK);
  }
  const int code = watch(keeper, signals, stops, terminal(input[1]));
  kill_descendants();
  return code;
}

}  // namespace penrun
