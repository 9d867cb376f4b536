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

#include "lib/base/result.hpp"
#include "lib/base/shortage.hpp"
#include "tools/penrun/descendants.hpp"

namespace penrun {
namespace {

// Moves what the terminal gives to the keeper's standard input. The keeper and the job are in
// process groups of their own, where reading the terminal would stop them.
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

int watch(pid_t keeper, int signals, terminal input) {
  for (;;) {
    pollfd fds[] = {{signals, POLLIN, 0}, {input.fd(), POLLIN, 0}};
    if (::poll(fds, 2, -1) < 0 && errno != EINTR) return 1;
    if (fds[1].revents != 0) input.pump();
    if (fds[0].revents == 0) continue;
    signalfd_siginfo info;
    if (::read(signals, &info, sizeof info) != static_cast<ssize_t>(sizeof info)) continue;
    if (info.ssi_signo != SIGCHLD) {
      const int sig = static_cast<int>(info.ssi_signo);
      ::kill(keeper, sig);
      if (sig == SIGTSTP) ::raise(SIGSTOP);
      continue;
    }
    // Reaps the orphans of a keeper that was killed, too.
    int status = 0;
    for (pid_t pid; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
      if (pid != keeper) continue;
      if (WIFEXITED(status)) return WEXITSTATUS(status);
      std::fprintf(stderr, "penrun: the keeper was killed by signal %d\n", WTERMSIG(status));
      return 128 + WTERMSIG(status);
    }
  }
}

int failed(const char* call) {
  const penstock::failure why{call, errno, penstock::what_to_raise(errno)};
  std::fprintf(stderr, "penrun: %s\n", why.message().c_str());
  return 1;
}

}  // namespace

int guard(const std::function<int(int)>& keep) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  sigset_t set, old;
  sigemptyset(&set);
  for (const int s :
       {SIGCHLD, SIGINT, SIGTERM, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT})
    sigaddset(&set, s);
  sigprocmask(SIG_BLOCK, &set, &old);
  std::signal(SIGPIPE, SIG_IGN);

  int life[2], input[2] = {-1, -1};
  const bool at_terminal = ::isatty(STDIN_FILENO) == 1;
  if (::pipe2(life, O_CLOEXEC) != 0 || (at_terminal && ::pipe2(input, O_CLOEXEC) != 0)) {
    return failed("pipe");
  }
  const pid_t keeper = ::fork();
  if (keeper < 0) {
    return failed("fork");
  }
  if (keeper == 0) {
    ::close(life[1]);
    ::setpgid(0, 0);
    if (at_terminal) {
      ::dup2(input[0], STDIN_FILENO);
      ::close(input[0]);
      ::close(input[1]);
    }
    sigprocmask(SIG_SETMASK, &old, nullptr);
    std::exit(keep(life[0]));
  }
  ::close(life[0]);
  if (at_terminal) {
    ::close(input[0]);
    ::fcntl(input[1], F_SETFL, O_NONBLOCK);
  }
  const int signals = ::signalfd(-1, &set, SFD_CLOEXEC);
  const int code = watch(keeper, signals, terminal(input[1]));
  kill_descendants();
  return code;
}

}  // namespace penrun
