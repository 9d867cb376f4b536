// See where.hpp.
#include "tools/penrun/where.hpp"

#include <dirent.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>

namespace penrun {
namespace {

std::string first_line(const std::string& path) {
  std::FILE* f = std::fopen(path.c_str(), "re");
  if (f == nullptr) return "?";
  char text[512];
  const bool got = std::fgets(text, sizeof text, f) != nullptr;
  std::fclose(f);
  if (!got) return "";
  text[std::strcspn(text, "\n")] = '\0';
  return text;
}

// "R", "S", "D", "T" … of /proc/…/stat
std::string state_of(const std::string& task) {
  const std::string stat = first_line(task + "/stat");
  const auto after = stat.rfind(')');
  return after == stat.npos || after + 2 >= stat.size() ? "?" : stat.substr(after + 2, 1);
}

bool have_gdb() { return std::system("command -v gdb >/dev/null 2>&1") == 0; }

void print_stacks(pid_t pid) {
  const std::string command = "timeout -k 1 10 gdb -nx -q -batch -p " + std::to_string(pid) +
                              " -ex 'thread apply all backtrace 16' 2>/dev/null </dev/null";
  std::FILE* gdb = ::popen(command.c_str(), "re");
  if (gdb == nullptr) return;
  char line[1024];
  while (std::fgets(line, sizeof line, gdb) != nullptr)
    if (line[0] == '#' || std::strncmp(line, "Thread", 6) == 0)
      std::fprintf(stderr, "    %s", line);
  ::pclose(gdb);
}

}  // namespace

void print_where(std::uint32_t rank, pid_t pid) {
  const std::string base = "/proc/" + std::to_string(pid);
  std::fprintf(stderr, "penrun: rank %u (pid %d) was in:\n", rank, pid);
  if (DIR* tasks = ::opendir((base + "/task").c_str())) {
    while (const dirent* entry = ::readdir(tasks)) {
      if (entry->d_name[0] == '.') continue;
      const std::string task = base + "/task/" + entry->d_name;
      std::fprintf(stderr, "    thread %s (%s): state %s, kernel wait %s, system call %s\n",
                   entry->d_name, first_line(task + "/comm").c_str(), state_of(task).c_str(),
                   first_line(task + "/wchan").c_str(), first_line(task + "/syscall").c_str());
    }
    ::closedir(tasks);
  }
  if (have_gdb()) print_stacks(pid);
}

}  // namespace penrun
