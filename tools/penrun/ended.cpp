// See ended.hpp.
#include "tools/penrun/ended.hpp"

#include <sys/resource.h>
#include <sys/wait.h>

#include <csignal>
#include <cstdio>
#include <ctime>

namespace penrun {

pid_t next_ended(int& status) {
  siginfo_t info{};
  rlimit cpu{RLIM_INFINITY, RLIM_INFINITY};
  const bool told = ::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid > 0;
  timespec had{};  // by itself: wait4() would add what its children had
  clockid_t clock{};
  if (told) {  // both are known until it is reaped
    ::prlimit(info.si_pid, RLIMIT_CPU, nullptr, &cpu);
    if (::clock_getcpuclockid(info.si_pid, &clock) == 0) ::clock_gettime(clock, &had);
  }
  const pid_t pid = ::waitpid(-1, &status, WNOHANG);
  // The limit counts by the timer's ticks, which on a busy machine are more than what it has had:
  // so the line says what that was.
  const double seconds = static_cast<double>(had.tv_sec) + static_cast<double>(had.tv_nsec) * 1e-9;
  if (pid > 0 && told && pid == info.si_pid && WIFSIGNALED(status) &&
      (WTERMSIG(status) == SIGKILL || WTERMSIG(status) == SIGXCPU) &&
      seconds > 0.5 * static_cast<double>(cpu.rlim_cur))
    std::fprintf(
        stderr,
        "penrun: process %d has had %.1f of the %llu s of processor time that ulimit -t allows\n",
        pid, seconds, static_cast<unsigned long long>(cpu.rlim_cur));
  return pid;
}

bool without_processor_time() {
  rlimit cpu{};
  return ::getrlimit(RLIMIT_CPU, &cpu) == 0 && cpu.rlim_cur == 0;
}

}  // namespace penrun
