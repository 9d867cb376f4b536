// See known_state.hpp.
#include "tools/penrun/known_state.hpp"

#include <algorithm>
#include <iterator>

namespace penrun {
namespace {

constexpr int of_terminal[] = {SIGHUP, SIGINT, SIGQUIT, SIGTSTP, SIGTTIN, SIGTTOU};

bool is_ignored(int sig) {
  struct sigaction now {};
  return ::sigaction(sig, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

}  // namespace

// A parent that ignores SIGCHLD would make the kernel reap the processes of the job, and programs
// that wait for children of their own would fail as well.
void start_from_a_known_state() {
  for (int sig = 1; sig <= SIGRTMAX; ++sig)
    if (is_ignored(sig) &&
        std::find(std::begin(of_terminal), std::end(of_terminal), sig) == std::end(of_terminal))
      std::signal(sig, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

sigset_t heeded(std::initializer_list<int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int sig : signals)
    if (!is_ignored(sig)) sigaddset(&set, sig);
  return set;
}

}  // namespace penrun
