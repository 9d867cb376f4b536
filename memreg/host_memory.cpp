// The kernel's files behind host_memory.hpp: /proc/meminfo and the control groups, versions 1
// and 2.
#include "memreg/host_memory.hpp"

#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <sstream>

#include "lib/base/descriptors.hpp"

namespace penstock::memreg {
namespace {

// Value of "Key:  123 kB" in /proc/meminfo in bytes, or 0.
std::uint64_t meminfo(const char* key) {
  std::istringstream in(text_of("/proc/meminfo"));
  std::string name;
  std::uint64_t kb = 0;
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    if (words >> name >> kb && name == key) return kb * 1024;
  }
  return 0;
}

// A number in a file of a control group; "max" and unreadable files mean no limit.
std::uint64_t group_value(const std::string& path) {
  std::istringstream in(text_of(path));
  std::uint64_t v = 0;
  return in >> v ? v : unlimited;
}

// Narrows m by the limits of the group `path` under `root` and of all its parents.
void apply_groups(host_memory& m, const std::string& root, std::string path, const char* limit_file,
                  const char* use_file) {
  for (;;) {
    const std::string dir = root + path + "/";
    const std::uint64_t limit = group_value(dir + limit_file);
    if (limit < m.physical) {
      m.physical = limit;
      m.group_limited = true;
    }
    if (limit != unlimited) {
      const std::uint64_t used = group_value(dir + use_file);
      m.available = std::min(m.available, used < limit ? limit - used : 0);
    }
    if (path.empty()) return;
    path.resize(path.find_last_of('/'));
  }
}

}  // namespace

std::size_t huge_page_bytes() noexcept {
  static const auto bytes = static_cast<std::size_t>(meminfo("Hugepagesize:"));
  return bytes;
}

host_memory probe_host_memory() {
  host_memory m;
  m.physical = meminfo("MemTotal:");
  m.available = meminfo("MemAvailable:");
  if (m.physical == 0) {  // no /proc, or no descriptor left to read it: unknown is not zero
    struct sysinfo known {};
    if (::sysinfo(&known) == 0) m.physical = std::uint64_t{known.totalram} * known.mem_unit;
    m.available = unlimited;
  }
  std::istringstream in(text_of("/proc/self/cgroup"));
  for (std::string line; std::getline(in, line);) {  // "0::/a/b" or "7:memory:/a/b"
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    std::string path = line.substr(second + 1);
    if (path.empty() || path[0] != '/' || path == "/") path.clear();
    if (controllers.empty())
      apply_groups(m, "/sys/fs/cgroup", path, "memory.max", "memory.current");
    else if (controllers.find("memory") != std::string::npos)
      apply_groups(m, "/sys/fs/cgroup/memory", path, "memory.limit_in_bytes",
                   "memory.usage_in_bytes");
  }
  return m;
}

std::string human_bytes(std::uint64_t bytes) {
  if (bytes == unlimited) return "unlimited";
  static constexpr const char* units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  double v = static_cast<double>(bytes);
  unsigned u = 0;
  while (v >= 1024 && u < 4) {
    v /= 1024;
    ++u;
  }
  char text[32];
  std::snprintf(text, sizeof text, u == 0 ? "%.0f %s" : "%.1f %s", v, units[u]);
  return text;
}

}  // namespace penstock::memreg
