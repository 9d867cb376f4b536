// Backtraces and the wait for a debugger. Two mechanisms: glibc's backtrace(), and the client's own
// if it defines gasnett_backtrace_user. GASNET_BACKTRACE_TYPE lists those to try, in order.
#include <gasnet_tools.h>

#include <execinfo.h>
#include <strings.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>

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

bool same_word(std::string_view a, std::string_view b) {
  return a.size() == b.size() && strncasecmp(a.data(), b.data(), a.size()) == 0;
}

// Runs the mechanism of that name; false if there is none or it failed.
bool run(std::string_view name, int fd) {
  const auto& user = gasnett_backtrace_user;
  if (user.name != nullptr && user.fnp != nullptr && same_word(name, user.name))
    return user.fnp(fd) == 0;
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

}  // namespace

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
  order += "EXECINFO";
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

void gasnett_freezeForDebuggerNow(volatile int* flag, const char* flagsymname) {
  std::fprintf(
      stderr,
      "Process %d on %s is frozen for a debugger. Attach, then set %s to 0 (or not 0 if it "
      "is 0) to go on.\n",
      static_cast<int>(::getpid()), gasnett_gethostname(), flagsymname);
  std::fflush(stderr);
  const int start = *flag;
  while (*flag == start) ::sleep(1);
}

void gasnett_freezeForDebuggerErr(void) {
  static volatile int gasnet_frozen = 1;
  if (gasnett_getenv_yesno_withdefault("GASNET_FREEZE_ON_ERROR", 0))
    gasnett_freezeForDebuggerNow(&gasnet_frozen, "gasnet_frozen");
}

}  // extern "C"
