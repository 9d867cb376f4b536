// See descendants.hpp. Reads /proc once per sweep.
#include "tools/penrun/descendants.hpp"

#include <dirent.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <map>
#include <string>

#include "lib/base/clock.hpp"
#include "lib/base/descriptors.hpp"

namespace penrun {
namespace {

struct facts {
  pid_t parent = 0;
  char state = 0;
  unsigned flags = 0;
};
constexpr unsigned exiting = 4;  // PF_EXITING of the kernel's sched.h

// From /proc/PID/stat; the name in it may hold blanks and parentheses.
bool read_stat(pid_t pid, facts& f) {
  char text[512];
  std::snprintf(text, sizeof text, "/proc/%d/stat", pid);
  const penstock::stdio_file file = penstock::open_file(text, "r");
  if (file == nullptr) return false;
  const std::size_t n = std::fread(text, 1, sizeof text - 1, file.get());
  text[n] = '\0';
  const char* after = std::strrchr(text, ')');
  return after != nullptr &&
         std::sscanf(after + 1, " %c %d %*d %*d %*d %*d %u", &f.state, &f.parent, &f.flags) == 3;
}

// From /proc/PID/status: the signals for which the process has handlers, a bit each.
bool catches(pid_t pid, int sig) {
  char text[64];
  std::snprintf(text, sizeof text, "/proc/%d/status", pid);
  const penstock::stdio_file file = penstock::open_file(text, "r");
  if (file == nullptr) return false;
  unsigned long long caught = 0;
  for (char line[256]; std::fgets(line, sizeof line, file.get()) != nullptr;)
    if (std::sscanf(line, "SigCgt: %llx", &caught) == 1) break;
  return (caught >> (sig - 1) & 1) != 0;
}

}  // namespace

void tell_to_quit() {
  for (const pid_t pid : descendants())
    if (catches(pid, SIGQUIT)) ::kill(pid, SIGQUIT);
}

bool is_ending(pid_t pid) {
  facts f;
  return read_stat(pid, f) && (f.state == 'Z' || f.state == 'X' || (f.flags & exiting) != 0);
}

std::vector<pid_t> descendants() {
  std::multimap<pid_t, pid_t> children;
  DIR* proc = penstock::open_folder("/proc");
  if (proc == nullptr) return {};
  while (const dirent* entry = ::readdir(proc)) {
    pid_t pid = 0;
    facts f;
    const char* end = entry->d_name + std::strlen(entry->d_name);
    if (std::from_chars(entry->d_name, end, pid).ptr != end) continue;
    if (read_stat(pid, f) && f.state != 'Z' && f.state != 'X')
      children.emplace(f.parent, pid);
    else if (f.state == 'Z')
      children.emplace(f.parent, -pid);  // it cannot be killed, but its children have to be visited
  }
  ::closedir(proc);
  std::vector<pid_t> out, walk{::getpid()};
  while (!walk.empty()) {
    const pid_t at = walk.back();
    walk.pop_back();
    const auto [first, last] = children.equal_range(at);
    for (auto it = first; it != last; ++it) {
      walk.push_back(std::abs(it->second));
      if (it->second > 0) out.push_back(it->second);
    }
  }
  return out;
}

void kill_descendants() {
  const auto limit = penstock::now_ns() + 5'000'000'000;
  while (penstock::now_ns() < limit) {
    for (const pid_t pid : descendants()) ::kill(pid, SIGKILL);
    pid_t reaped = 0;
    while ((reaped = ::waitpid(-1, nullptr, WNOHANG)) > 0) {
    }
    if (reaped < 0 && errno == ECHILD) return;
    const timespec pause{0, 2'000'000};
    ::nanosleep(&pause, nullptr);
  }
}

}  // namespace penrun
