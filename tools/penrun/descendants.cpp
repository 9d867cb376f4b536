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

namespace penrun {
namespace {

// Parent and state from /proc/PID/stat; the name in it may hold blanks and parentheses.
bool read_stat(pid_t pid, pid_t& parent, char& state) {
  char text[512];
  std::snprintf(text, sizeof text, "/proc/%d/stat", pid);
  std::FILE* f = std::fopen(text, "re");
  if (f == nullptr) return false;
  const std::size_t n = std::fread(text, 1, sizeof text - 1, f);
  std::fclose(f);
  text[n] = '\0';
  const char* after = std::strrchr(text, ')');
  return after != nullptr && std::sscanf(after + 1, " %c %d", &state, &parent) == 2;
}

}  // namespace

std::vector<pid_t> descendants() {
  std::multimap<pid_t, pid_t> children;
  DIR* proc = ::opendir("/proc");
  if (proc == nullptr) return {};
  while (const dirent* entry = ::readdir(proc)) {
    pid_t pid = 0, parent = 0;
    char state = 0;
    const char* end = entry->d_name + std::strlen(entry->d_name);
    if (std::from_chars(entry->d_name, end, pid).ptr != end) continue;
    if (read_stat(pid, parent, state) && state != 'Z' && state != 'X')
      children.emplace(parent, pid);
    else if (state == 'Z')
      children.emplace(parent, -pid);  // cannot be killed, but has to be walked through
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
