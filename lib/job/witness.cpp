// See witness.hpp.
#include "lib/job/witness.hpp"

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "lib/base/descriptors.hpp"
#include "lib/base/page.hpp"

namespace penstock::job {
namespace {

void close_all_in(int first, int last) noexcept {
  if (first > last || ::syscall(SYS_close_range, first, last, 0) == 0) return;
  for (int fd = first; fd <= std::min(last, 4096); ++fd) ::close(fd);  // a kernel before 5.9
}

enum class ending { none, by_code, by_signal, reaped };

// How a process ends that is ending now, or is a zombie (proc(5), /proc/PID/stat); code: if by one.
ending ending_of(pid_t process, int& code) {
  constexpr unsigned long exiting = 4;  // PF_EXITING
  constexpr int flags_field = 9, code_field = 52;
  const std::string stat = text_of("/proc/" + std::to_string(process) + "/stat");
  const auto name_end = stat.rfind(')');
  if (name_end == stat.npos) return ::kill(process, 0) == 0 ? ending::none : ending::reaped;
  const char* at = stat.c_str() + name_end + 1;
  for (int field = 3; field <= code_field; ++field) {
    at += *at == ' ' ? 1 : 0;
    const unsigned long value = std::strtoul(at, nullptr, 10);
    if (field == flags_field && (value & exiting) == 0) return ending::none;
    if (field == code_field) {
      const int status = static_cast<int>(value);
      code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
      return WIFEXITED(status) ? ending::by_code : ending::by_signal;
    }
    at += std::strcspn(at, " ");
  }
  return ending::none;
}

[[noreturn]] void see(int line, int kept, pid_t process, witness::ended call, void* context) {
  // It ends when that process does, and no earlier.
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  ::prctl(PR_SET_NAME, "penstock-witnes", 0, 0, 0);
  close_all_in(STDIN_FILENO, STDIN_FILENO);
  close_all_in(STDERR_FILENO + 1, std::min(line, kept) - 1);
  close_all_in(std::min(line, kept) + 1, std::max(line, kept) - 1);
  close_all_in(std::max(line, kept) + 1, INT_MAX);
  char word = 0;
  ssize_t n = 0;
  while ((n = ::recv(line, &word, 1, 0)) < 0 && errno == EINTR) {
  }
  int code = -1;
  const ending how = n == 0 ? ending_of(process, code) : ending::none;
  if (how == ending::by_code || how == ending::reaped) call(context, code);
  ::_exit(0);
}

}  // namespace

void witness::watch(int kept_open, ended call, void* context) noexcept {
  constexpr unsigned long most_bytes = 64ul << 20;
  unsigned long resident = 0, shared = 0;  // in pages
  if (std::sscanf(text_of("/proc/self/statm").c_str(), "%*u %lu %lu", &resident, &shared) != 2 ||
      (resident - shared) * page_bytes() > most_bytes)
    return;
  int pair[2];
  if (!opened("socketpair", ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), pair))
    return;
  const pid_t self = ::getpid();
  const pid_t first = ::fork();
  if (first == 0) {
    // Its parent ends at once, so that the program has no child for which it would wait.
    if (::fork() == 0) see(pair[1], kept_open, self, call, context);
    ::_exit(0);
  }
  ::close(pair[1]);
  if (first < 0) {
    ::close(pair[0]);
    return;
  }
  while (::waitpid(first, nullptr, 0) < 0 && errno == EINTR) {
  }
  line_ = kept(pair[0]);
}

void witness::dismiss() noexcept {
  // The program may have closed it, and opened another file by that number: that is no socket.
  if (line_ >= 0) (void)::send(line_, "", 1, MSG_NOSIGNAL);
  close_kept(line_);
}

}  // namespace penstock::job
