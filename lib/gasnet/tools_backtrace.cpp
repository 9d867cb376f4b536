// Backtraces, on demand and when a process comes to a fatal end. Three mechanisms: gdb, which shows
// every thread, glibc's backtrace(), which shows the calling one, and the client's own if it
// defines gasnett_backtrace_user. GASNET_BACKTRACE_TYPE lists those to try, in order.
#include <gasnet_tools.h>

#include <execinfo.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <strings.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <string_view>

#include "lib/base/log.hpp"
#include "lib/base/rank_list.hpp"
#include "lib/gasnet/tools_hooks.hpp"

extern char** environ;

namespace {

std::string& program() {
  static std::string name;
  return name;
}

int by_execinfo(int fd) {
  void* frames[128];
  const int n = ::backtrace(frames, 128);
  if (n <= 0) return 1;
  ::backtrace_symbols_fd(frames, n, fd);
  return 0;
}

// The files and arguments for a debugger. They are made beforehand for a crash, whose cause may be
// the heap.
struct errand {
  posix_spawn_file_actions_t files;
  char pid[16];
  bool good;

  explicit errand(int fd) {
    std::snprintf(pid, sizeof pid, "%d", static_cast<int>(::getpid()));
    good = posix_spawn_file_actions_init(&files) == 0 &&
           posix_spawn_file_actions_adddup2(&files, fd, STDOUT_FILENO) == 0 &&
           posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0) == 0 &&
           posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0) == 0;
  }
  ~errand() { posix_spawn_file_actions_destroy(&files); }
  errand(const errand&) = delete;
  errand& operator=(const errand&) = delete;
};
errand* for_crashes = nullptr;  // writes to stderr, about this process

// Runs gdb, and waits for as long as it needs for a large program's symbols, at most.
int by_gdb(int fd) {
  constexpr int patience_ms = 60'000, step_ms = 20;
  errand* to = for_crashes;
  char here[sizeof to->pid];
  std::snprintf(here, sizeof here, "%d", static_cast<int>(::getpid()));
  alignas(errand) char room[sizeof(errand)];
  const bool made = fd != STDERR_FILENO || to == nullptr || std::strcmp(to->pid, here) != 0;
  if (made) to = new (room) errand(fd);
  int code = 1;
  if (to->good) {
    const char* const command[] = {"gdb",
                                   "-nx",
                                   "-batch",
                                   "-ex",
                                   "set pagination off",
                                   "-ex",
                                   "thread apply all backtrace 50",
                                   "-p",
                                   to->pid,
                                   nullptr};
    // The debugger is a child of this process, and some kernels do not let it trace its parent
    // without this.
    ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    pid_t child = 0;
    if (posix_spawnp(&child, command[0], &to->files, nullptr, const_cast<char**>(command),
                     environ) == 0) {
      int status = 0;
      pid_t ended = 0;
      for (int ms = 0; ms < patience_ms && (ended = ::waitpid(child, &status, WNOHANG)) == 0;
           ms += step_ms)
        ::usleep(step_ms * 1000);
      if (ended == 0) {
        ::kill(child, SIGKILL);
        ::waitpid(child, &status, 0);
      }
      code = ended == child && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    }
  }
  if (made) to->~errand();
  return code;
}

bool same_word(std::string_view a, std::string_view b) {
  return a.size() == b.size() && strncasecmp(a.data(), b.data(), a.size()) == 0;
}

// Runs the mechanism of that name; false if there is none or it failed.
bool run(std::string_view name, int fd) {
  const auto& user = gasnett_backtrace_user;
  if (user.name != nullptr && user.fnp != nullptr && same_word(name, user.name))
    return user.fnp(fd) == 0;
  if (same_word(name, "GDB")) return by_gdb(fd) == 0;
  if (same_word(name, "EXECINFO")) return by_execinfo(fd) == 0;
  return false;
}

int print_if_enabled(int fd) {
  if (!gasnett_getenv_yesno_withdefault("GASNET_BACKTRACE", 0)) {
    static constexpr char hint[] = "(set GASNET_BACKTRACE=1 to see a backtrace here)\n";
    [[maybe_unused]] const auto n = ::write(fd, hint, sizeof hint - 1);
    return 1;
  }
  return gasnett_print_backtrace(fd);
}

// ---- faults ----

constexpr int fatal_signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
unsigned my_rank = 0, all_ranks = 1;

bool shows_faults = false;

void show() noexcept { gasnett_print_backtrace(STDERR_FILENO); }

// If a debugger is wanted, it sees the process before any other code has run here.
void on_fatal_error() noexcept {
  penstock::gasnet::freeze_on_error();
  if (shows_faults) show();
}

// The handler of GASNET_BACKTRACE_SIGNAL, after which the process goes on.
void on_demand(int) {
  const int error = errno;
  show();
  errno = error;
}

// The handler of fatal signals. The signal comes again when it returns, or at once, and then has
// its usual effect.
void on_fault(int sig) {
  const char* const name = ::sigabbrev_np(sig);
  dprintf(STDERR_FILENO, "*** Caught a fatal signal: SIG%s(%d) on node %u/%u\n",
          name != nullptr ? name : "", sig, my_rank, all_ranks);
  on_fatal_error();
  ::raise(sig);
}

}  // namespace

void penstock::gasnet::watch_faults(unsigned rank, unsigned size) noexcept {
  if (program().empty()) gasnett_backtrace_init(::program_invocation_name);
  watch_signal("GASNET_BACKTRACE_SIGNAL", &on_demand);
  prepare_freezing();
  const char* const nodes = gasnett_getenv("GASNET_BACKTRACE_NODES");
  shows_faults = gasnett_getenv_yesno_withdefault("GASNET_BACKTRACE", 0) != 0 &&
                 (nodes == nullptr || penstock::lists_rank(nodes, rank));
  if (!shows_faults && !freezes_on_error()) return;
  my_rank = rank, all_ranks = size;
  static errand made(STDERR_FILENO);
  for_crashes = &made;
  // The handler has a stack of its own, since the thread's stack may have overflowed.
  static char stack[128 << 10];
  stack_t other{};
  ::sigaltstack(nullptr, &other);
  if ((other.ss_flags & SS_DISABLE) != 0) {
    other = {};
    other.ss_sp = stack;
    other.ss_size = sizeof stack;
    ::sigaltstack(&other, nullptr);
  }
  for (const int sig : fatal_signals) {
    struct sigaction before {};
    if (::sigaction(sig, nullptr, &before) != 0 || before.sa_handler != SIG_DFL) continue;
    struct sigaction act {};
    act.sa_handler = on_fault;
    act.sa_flags = static_cast<int>(SA_RESETHAND | SA_NODEFER | SA_ONSTACK);
    ::sigaction(sig, &act, nullptr);
  }
  penstock::set_fatal_witness(&on_fatal_error);
}

extern "C" {

// A client that defines its own replaces this one.
__attribute__((weak)) gasnett_backtrace_type_t gasnett_backtrace_user = {nullptr, nullptr, 0};

int (*gasnett_print_backtrace_ifenabled)(int fd) = &print_if_enabled;

void gasnett_backtrace_init(const char* exename) {
  program() = exename == nullptr ? "" : exename;
  // The first call of backtrace() loads libgcc, which must not happen inside a signal handler.
  void* frame;
  ::backtrace(&frame, 1);
}

int gasnett_print_backtrace(int fd) {
  std::string order;
  if (gasnett_backtrace_user.name != nullptr)
    order = std::string(gasnett_backtrace_user.name) + ",";
  order += "GDB,EXECINFO";
  const std::string wanted = gasnett_getenv_withdefault("GASNET_BACKTRACE_TYPE", order.c_str());
  dprintf(fd, "Backtrace of process %d (%s) on %s:\n", static_cast<int>(::getpid()),
          program().c_str(), gasnett_gethostname());
  for (size_t at = 0; at <= wanted.size();) {
    const size_t end = std::min(wanted.find(',', at), wanted.size());
    if (run(std::string_view(wanted).substr(at, end - at), fd)) return 0;
    at = end + 1;
  }
  dprintf(fd, "no backtrace: none of \"%s\" works here\n", wanted.c_str());
  return 1;
}

}  // extern "C"
