// See launch.hpp.
#include "perf/penperf/launch.hpp"

#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace penstock::penperf {

std::string own_folder() {
  std::error_code e;
  return std::filesystem::read_symlink("/proc/self/exe", e).parent_path().string();
}

std::string become(const std::vector<std::string>& candidates,
                   const std::vector<std::string>& args) {
  std::vector<char*> argv;
  for (const std::string& a : args) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  for (const std::string& c : candidates) {
    argv[0] = const_cast<char*>(c.c_str());
    if (::access(c.c_str(), X_OK) == 0 || &c == &candidates.back()) execvp(c.c_str(), argv.data());
  }
  return candidates.front() + ": " + std::strerror(errno);
}

bool pin_to_cpu(unsigned cpu) noexcept {
  if (cpu >= CPU_SETSIZE) return false;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  return sched_setaffinity(0, sizeof one, &one) == 0;
}

void pin_to_core(unsigned n) noexcept {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  const int cores = CPU_COUNT(&allowed);
  if (cores <= 1) return;
  unsigned nth = n % static_cast<unsigned>(cores);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed) || nth-- != 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
    return;
  }
}

}  // namespace penstock::penperf
