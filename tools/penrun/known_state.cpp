// See known_state.hpp.
#include "tools/penrun/known_state.hpp"

#include <sys/signalfd.h>
#include <unistd.h>

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

std::vector<int> taken(int signals) {
  signalfd_siginfo infos[16];  // more than there are kinds, so one read takes all that is pending
  const auto bytes = ::read(signals, infos, sizeof infos);
  std::vector<int> out;
  std::size_t continued = 0;  // where a SIGCONT goes: behind the stop that it may undo
  for (std::size_t i = 0; bytes > 0 && i < static_cast<std::size_t>(bytes) / sizeof infos[0]; ++i) {
    const int sig = static_cast<int>(infos[i].ssi_signo);
    if (sig == SIGCONT)
      out.insert(out.begin() + static_cast<std::ptrdiff_t>(continued), sig);
    else
      out.push_back(sig);
    if (sig == SIGTSTP) continued = out.size();
  }
  return out;
}

}  // namespace penrun
