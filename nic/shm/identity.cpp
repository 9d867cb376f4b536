#include "nic/shm/identity.hpp"

#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "lib/base/descriptors.hpp"
#include "lib/base/mix.hpp"
#include "nic/choice.hpp"

namespace penstock::nic::shm {
namespace {

int fabric_fd = -1;
struct stat fabric_place {};

/// Mixes a word into a sum.
std::uint64_t mixed(std::uint64_t sum, std::uint64_t word) noexcept {
  return mix(sum + 0x9e3779b97f4a7c15 + word);
}

/// What is the same for all processes that can meet, and different for others.
std::uint64_t place() noexcept {
  if (fabric_fd >= 0) return mixed(mixed(1, fabric_place.st_dev), fabric_place.st_ino);
  std::uint64_t sum = 0;
  for (const char c : text_of("/proc/sys/kernel/random/boot_id"))
    sum = mixed(sum, static_cast<unsigned char>(c));
  struct stat net {};
  return ::stat("/proc/self/ns/net", &net) == 0 ? mixed(sum, net.st_ino) : sum;
}

struct all_devices {
  identity list[most_devices];
  all_devices() noexcept {
    const std::uint64_t here = place();
    for (unsigned i = 0; i < most_devices; ++i) {
      list[i].index = i;
      list[i].seed = {mixed(here, 2 * i), mixed(here, 2 * i + 1)};
      list[i].lid = static_cast<std::uint16_t>(1 + here % 0xb000 + i);  // a unicast LID
    }
  }
};

}  // namespace

ibv_gid identity::gid(int row) const noexcept {
  ibv_gid g{};
  const auto byte = [](std::uint64_t word, int i) {
    return static_cast<std::uint8_t>(word >> 8 * i);
  };
  if (row < 2) {
    g.raw[0] = 0xfe, g.raw[1] = 0x80;
    for (int i = 0; i < 8; ++i) g.raw[8 + i] = byte(seed.low, i);
    g.raw[8] = static_cast<std::uint8_t>((g.raw[8] & 0xfc) | 2);  // locally administered
  } else {
    g.raw[10] = g.raw[11] = 0xff, g.raw[12] = IN_LOOPBACKNET;
    for (int i = 0; i < 3; ++i) g.raw[13 + i] = byte(seed.high, i);
    // 127.0.0.0/16 is left to the programs of the host, and the last address is a broadcast.
    g.raw[13] = static_cast<std::uint8_t>((g.raw[13] & 0x7f) | 1);
  }
  return g;
}

std::uint64_t identity::guid() const noexcept {
  const ibv_gid g = gid(0);
  std::uint64_t word;
  std::memcpy(&word, g.raw + 8, sizeof word);
  return word;
}

bool identity::has(const ibv_gid& g) const noexcept {
  for (const int row : {0, 2}) {
    const ibv_gid own = gid(row);
    if (std::memcmp(own.raw, g.raw, sizeof g.raw) == 0) return true;
  }
  return false;
}

const identity& device_identity(unsigned index) noexcept {
  static const all_devices all;
  return all.list[index];
}

std::string gid_text(const ibv_gid& g) {
  char text[48] = {};
  for (int i = 0; i < 8; ++i)
    std::snprintf(text + 5 * i, sizeof text - 5u * static_cast<unsigned>(i),
                  "%02x%02x:", g.raw[2 * i], g.raw[2 * i + 1]);
  return std::string(text, 39);
}

std::string netdev_of(const ibv_gid& g) {
  std::string found = "lo";
  ifaddrs* all = nullptr;
  if (!is_ipv4_mapped(g) || ::getifaddrs(&all) != 0) return found;
  for (const ifaddrs* i = all; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr || i->ifa_addr->sa_family != AF_INET) continue;
    const in_addr& own = reinterpret_cast<const sockaddr_in*>(i->ifa_addr)->sin_addr;
    if (std::memcmp(&own, g.raw + 12, sizeof own) == 0) found = i->ifa_name;
  }
  ::freeifaddrs(all);
  return found.substr(0, found.find(':'));  // an address may have a name of its own, "eth0:1"
}

std::string guid_text(const identity& d) { return gid_text(d.gid(0)).substr(20); }

nonce context_name(const nonce& device, std::uint32_t qpn) noexcept {
  return {device.high, mixed(device.low, qpn >> own_bits)};
}

int use_fabric(const char* folder) noexcept {
  const int fd = opened("open", ::open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (fd < 0) return errno;
  if (::faccessat(fd, ".", W_OK | X_OK, 0) != 0 || ::fstat(fd, &fabric_place) != 0) {
    const int e = errno;
    ::close(fd);
    return e;
  }
  fabric_fd = fd;
  return 0;
}

int fabric() noexcept { return fabric_fd; }

}  // namespace penstock::nic::shm
