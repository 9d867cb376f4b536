// The wait for a debugger: a process writes a line and stops where it is. It goes on when a
// debugger sets the flag that the line names to 0, or when it gets SIGCONT. GASNET_FREEZE asks for
// this at start, GASNET_FREEZE_ON_ERROR before a fatal end, and GASNET_FREEZE_SIGNAL at any moment.
#include <gasnet_tools.h>

#include <signal.h>
#include <strings.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include "lib/base/log.hpp"
#include "lib/gasnet/tools_hooks.hpp"

extern "C" volatile int gasnet_frozen;
volatile int gasnet_frozen = 0;  // debuggers find it by this name

namespace {

std::atomic<unsigned> continued{0};  // how often SIGCONT has come to a frozen process
static_assert(decltype(continued)::is_always_lock_free);

void on_continue(int) { continued.fetch_add(1, std::memory_order_relaxed); }

// Signal handlers call it, too, so it makes no allocation and uses no stdio.
void freeze(volatile int* flag, const char* name) {
  struct sigaction act {
  }, before{};
  act.sa_handler = on_continue;
  ::sigaction(SIGCONT, &act, &before);
  const unsigned seen = continued.load(std::memory_order_relaxed);
  *flag = 1;
  dprintf(STDERR_FILENO,
          "*** Process %d on %s is frozen for a debugger. It goes on when %s is set to 0, or when "
          "it is sent SIGCONT.\n",
          static_cast<int>(::getpid()), gasnett_gethostname(), name);
  while (*flag != 0 && continued.load(std::memory_order_relaxed) == seen) ::sleep(1);
  *flag = 0;
  ::sigaction(SIGCONT, &before, nullptr);
}

// The signal of a number, or of a name as in "SIGUSR1" or "usr1"; 0: there is no such signal.
int signal_of(const char* name) {
  if (strncasecmp(name, "SIG", 3) == 0) name += 3;
  for (int sig = 1; sig < NSIG; ++sig) {
    const char* const abbreviation = ::sigabbrev_np(sig);
    if (name == std::to_string(sig) ||
        (abbreviation != nullptr && strcasecmp(name, abbreviation) == 0))
      return sig;
  }
  return 0;
}

void freeze_on_demand(int) {
  const int error = errno;
  freeze(&gasnet_frozen, "gasnet_frozen");
  errno = error;
}

bool on_error = false;

}  // namespace

void penstock::gasnet::watch_signal(const char* setting, void (*handler)(int)) noexcept {
  const char* const name = gasnett_getenv(setting);
  if (name == nullptr || *name == 0) return;
  const int sig = signal_of(name);
  struct sigaction before {};
  if (sig == 0 || ::sigaction(sig, nullptr, &before) != 0 || before.sa_handler != SIG_DFL) {
    penstock::log(penstock::log_level::warning, "%s=%s: %s", setting, name,
                  sig == 0 ? "there is no such signal" : "another handler has this signal already");
    return;
  }
  struct sigaction act {};
  act.sa_handler = handler;
  act.sa_flags = SA_RESTART;
  ::sigaction(sig, &act, nullptr);
}

void penstock::gasnet::prepare_freezing() noexcept {
  (void)gasnett_gethostname();  // looked up here, not in a signal handler
  on_error = gasnett_getenv_yesno_withdefault("GASNET_FREEZE_ON_ERROR", 0) != 0;
  watch_signal("GASNET_FREEZE_SIGNAL", &freeze_on_demand);
  if (gasnett_getenv_yesno_withdefault("GASNET_FREEZE", 0)) freeze(&gasnet_frozen, "gasnet_frozen");
}

bool penstock::gasnet::freezes_on_error() noexcept { return on_error; }

void penstock::gasnet::freeze_on_error() noexcept {
  if (on_error) freeze(&gasnet_frozen, "gasnet_frozen");
}

extern "C" {

void gasnett_freezeForDebuggerNow(volatile int* flag, const char* flagsymname) {
  freeze(flag, flagsymname);
}

// Programs that use the tools alone have not called prepare_freezing().
void gasnett_freezeForDebuggerErr(void) {
  if (on_error || gasnett_getenv_yesno_withdefault("GASNET_FREEZE_ON_ERROR", 0))
    freeze(&gasnet_frozen, "gasnet_frozen");
}

}  // extern "C"
