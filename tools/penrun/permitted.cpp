// See permitted.hpp.
#include "tools/penrun/permitted.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "lib/base/descriptors.hpp"

namespace penrun {

const char* refused_call() {
  using penstock::asked;
  sigset_t mask;
  struct sigaction action {};
  // A refusal of getpid() comes as a negative errno.
  if (const pid_t pid = ::getpid(); pid < 0) return errno = -pid, asked("getpid", -1), "getpid";
  if (asked("rt_sigprocmask", ::sigprocmask(SIG_BLOCK, nullptr, &mask)) != 0)
    return "rt_sigprocmask";
  if (asked("rt_sigaction", ::sigaction(SIGCHLD, nullptr, &action)) != 0) return "rt_sigaction";
  if (asked("poll", ::poll(nullptr, 0, 0)) != 0) return "poll";
  if (asked("kill", ::kill(::getpid(), 0)) != 0) return "kill";
  if (::fcntl(STDIN_FILENO, F_GETFD) < 0 && errno != EBADF) return asked("fcntl", -1), "fcntl";
  // There is no child yet.
  if (asked("wait4", ::waitpid(-1, nullptr, WNOHANG)) < 0 && errno != ECHILD) return "wait4";
  return nullptr;
}

}  // namespace penrun
