// The kernel's other names for a device: the PCI address and the network interfaces; and the
// processors near it. They are read from sysfs, below the folder in which libibverbs found the
// device.
#include <dirent.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>

#include "lib/base/descriptors.hpp"
#include "nic/choice.hpp"

namespace penstock::nic {
namespace {

// The file's first line; empty if it cannot be read.
std::string first_line(const std::string& path) {
  const std::string text = text_of(path);
  return text.substr(0, text.find('\n'));
}

std::vector<std::string> entries(const std::string& folder) {
  std::vector<std::string> names;
  DIR* const dir = open_folder(folder.c_str());
  if (dir == nullptr) return names;
  while (const dirent* e = ::readdir(dir))
    if (e->d_name[0] != '.') names.emplace_back(e->d_name);
  ::closedir(dir);
  return names;
}

std::string pci_address(const std::string& device) {
  char to[512];
  const ssize_t n = ::readlink((device + "/device").c_str(), to, sizeof to);
  if (n <= 0) return "";
  const std::string_view path(to, static_cast<std::size_t>(n));
  return std::string(path.substr(path.rfind('/') + 1));
}

// True if "0-3,8" has a processor of the set.
bool has_any(std::string_view list, const cpu_set_t& set) {
  while (!list.empty()) {
    unsigned first = 0;
    auto [at, error] = std::from_chars(list.data(), list.data() + list.size(), first);
    if (error != std::errc{}) return false;
    unsigned last = first;
    if (at != list.data() + list.size() && *at == '-')
      at = std::from_chars(at + 1, list.data() + list.size(), last).ptr;
    for (unsigned cpu = first; cpu <= last && cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &set)) return true;
    list.remove_prefix(static_cast<std::size_t>(at - list.data()));
    if (!list.empty()) list.remove_prefix(1);
  }
  return false;
}

}  // namespace

known_as also_known_as(const ibv_device& d, const std::string& name) {
  const std::string folder = d.ibdev_path;
  if (folder.empty() || name.empty() || name.find('/') != name.npos) return {};
  if (is_pci_address(name)) {
    const std::string address = pci_address(folder);
    return {.matches = address == name || address == "0000:" + name};
  }
  known_as found;
  for (const std::string& port : entries(folder + "/ports")) {
    std::uint32_t number = 0;
    std::from_chars(port.data(), port.data() + port.size(), number);
    const std::string rows = joined({folder, "/ports/", port, "/gid_attrs/ndevs"});
    for (const std::string& row : entries(rows))
      if (first_line(joined({rows, "/", row})) == name)
        found = {.matches = true, .by_gid = true, .port = number};
  }
  if (found.matches) return found;
  // A GID of InfiniBand belongs to no interface, but the interface of IP over InfiniBand tells its
  // port.
  for (const std::string& interface : entries(folder + "/device/net"))
    if (interface == name) {
      const std::string text = first_line(joined({folder, "/device/net/", name, "/dev_port"}));
      std::uint32_t port = 0;
      const bool said =
          std::from_chars(text.data(), text.data() + text.size(), port).ec == std::errc{};
      return {.matches = true, .by_gid = false, .port = said ? port + 1 : 0};
    }
  return {};
}

bool has_interface(const ibv_device& d, std::uint8_t port, int index, const std::string& name) {
  return first_line(joined({d.ibdev_path, "/ports/", std::to_string(port), "/gid_attrs/ndevs/",
                            std::to_string(index)})) == name;
}

bool is_near(const ibv_device& d) {
  const std::string list = first_line(joined({d.ibdev_path, "/device/local_cpulist"}));
  cpu_set_t mine;
  if (d.ibdev_path[0] == '\0' || list.empty() || sched_getaffinity(0, sizeof mine, &mine) != 0)
    return true;  // a device whose place is unknown counts as near
  return has_any(list, mine);
}

void near_first(std::vector<ibv_device*>& devices) {
  std::stable_partition(devices.begin(), devices.end(),
                        [](const ibv_device* d) { return is_near(*d); });
}

}  // namespace penstock::nic
