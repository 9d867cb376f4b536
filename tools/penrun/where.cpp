// See where.hpp.
#include "tools/penrun/where.hpp"

#include <dirent.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "lib/base/clock.hpp"
#include "lib/base/descriptors.hpp"

namespace penrun {
namespace {

constexpr std::uint64_t report_ns = 5'000'000'000, shortest_ns = 500'000'000;

std::string first_line(const std::string& path) {
  const std::string text = penstock::text_of(path);
  return text.empty() ? "?" : text.substr(0, text.find('\n'));
}

// "R", "S", "D", "T" … of /proc/…/stat
std::string state_of(const std::string& task) {
  const std::string stat = first_line(task + "/stat");
  const auto after = stat.rfind(')');
  return after == stat.npos || after + 2 >= stat.size() ? "?" : stat.substr(after + 2, 1);
}

bool have_gdb() { return std::system("command -v gdb >/dev/null 2>&1") == 0; }

void print_threads(pid_t pid) {
  const std::string folder = "/proc/" + std::to_string(pid) + "/task";
  DIR* const tasks = penstock::open_folder(folder.c_str());
  if (tasks == nullptr) return;
  while (const dirent* entry = ::readdir(tasks)) {
    if (entry->d_name[0] == '.') continue;
    const std::string task = folder + "/" + entry->d_name;
    std::fprintf(stderr, "    thread %s (%s): state %s, kernel wait %s, system call %s\n",
                 entry->d_name, first_line(task + "/comm").c_str(), state_of(task).c_str(),
                 first_line(task + "/wchan").c_str(), first_line(task + "/syscall").c_str());
  }
  ::closedir(tasks);
}

// In seconds; gdb needs at least this long.
void print_stacks(std::uint32_t rank, pid_t pid, double seconds) {
  const std::string command = "timeout -k 0.2 " + std::to_string(seconds) +
                              " gdb -nx -q -batch -p " + std::to_string(pid) +
                              " -ex 'thread apply all backtrace 16' 2>/dev/null </dev/null";
  std::FILE* gdb = ::popen(command.c_str(), "re");
  if (gdb == nullptr) return;
  char line[1024];
  bool any = false;
  while (std::fgets(line, sizeof line, gdb) != nullptr) {
    if (line[0] != '#' && std::strncmp(line, "Thread", 6) != 0) continue;
    if (!std::exchange(any, true)) std::fprintf(stderr, "penrun: stacks of rank %u:\n", rank);
    std::fprintf(stderr, "    %s", line);
  }
  ::pclose(gdb);
}

}  // namespace

void print_where(const std::vector<std::pair<std::uint32_t, pid_t>>& processes) {
  const std::uint64_t end = penstock::now_ns() + report_ns;
  for (const auto& [rank, pid] : processes) {
    std::fprintf(stderr, "penrun: rank %u (pid %d) was in:\n", rank, pid);
    print_threads(pid);
  }
  if (!have_gdb()) return;
  for (const auto& [rank, pid] : processes) {
    const std::uint64_t now = penstock::now_ns();
    if (now + shortest_ns > end) {
      std::fprintf(stderr, "penrun: no time for the stacks of the others\n");
      return;
    }
    print_stacks(rank, pid, static_cast<double>(end - now) / 1e9);
  }
}

}  // namespace penrun
