// IP addresses: which of them lead to a device, and sockets that are named after them.
//
// A socket's name is "penstock-cm-<port space>-<port>-<address>", with the address as 32 hex digits
// (IPv4-mapped for IPv4), or "any4", "any6" (IPv6 alone), "any" (both).
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

#include "lib/base/descriptors.hpp"
#include "nic/cm/cm.hpp"

namespace penstock::nic::cm {
namespace {

const sockaddr_in& v4(const sockaddr* a) noexcept {
  return *reinterpret_cast<const sockaddr_in*>(a);
}
const sockaddr_in6& v6(const sockaddr* a) noexcept {
  return *reinterpret_cast<const sockaddr_in6*>(a);
}

/// As IPv6 has it.
in6_addr mapped(const sockaddr* a) noexcept {
  if (a->sa_family == AF_INET6) return v6(a).sin6_addr;
  in6_addr m{};
  m.s6_addr[10] = m.s6_addr[11] = 0xff;
  std::memcpy(m.s6_addr + 12, &v4(a).sin_addr, 4);
  return m;
}
/// The IPv4 address, in host order; 0: it is none.
std::uint32_t v4_of(const sockaddr* a) noexcept {
  const in6_addr m = mapped(a);
  if (!IN6_IS_ADDR_V4MAPPED(&m)) return 0;
  std::uint32_t word;
  std::memcpy(&word, m.s6_addr + 12, sizeof word);
  return ntohl(word);
}

/// The device that has this address in its GID table.
const device* owner_of(const sockaddr* a) {
  const in6_addr m = mapped(a);
  for (const device* d : open_devices())
    for (int row = 0; row < d->port.gid_tbl_len; ++row) {
      ibv_gid g;
      if (ibv_query_gid(d->context, 1, row, &g) == 0 && std::memcmp(g.raw, &m, sizeof m) == 0)
        return d;
    }
  return nullptr;
}

/// The folder in which the sockets are files; -1: there is none, they have abstract names.
int fabric() noexcept {
  static const int fd = [] {
    const char* folder = std::getenv("PENVERBS_FABRIC");
    return folder == nullptr || *folder == '\0'
               ? -1
               : opened("open", ::open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC));
  }();
  return fd;
}

std::string name_of(rdma_port_space ps, std::uint16_t port, const char* host) {
  char text[96];
  std::snprintf(text, sizeof text, "penstock-cm-%04x-%u-%s", static_cast<unsigned>(ps), port, host);
  if (fabric() < 0) return text;
  return "/proc/self/fd/" + std::to_string(fabric()) + "/" + text;
}
std::string hex_of(const sockaddr* a) {
  const in6_addr m = mapped(a);
  std::string text;
  char two[3];
  for (const unsigned char byte : m.s6_addr) {
    std::snprintf(two, sizeof two, "%02x", byte);
    text += two;
  }
  return text;
}
/// The name of a socket that listens at this address.
std::string own_name(const identifier& i) {
  const sockaddr* a = &i.pub.route.addr.src_addr;
  const std::string host = !is_any(a)                ? hex_of(a)
                           : a->sa_family == AF_INET ? "any4"
                           : i.v6_only               ? "any6"
                                                     : "any";
  return name_of(i.pub.ps, port_of(a), host.c_str());
}

struct socket_address {
  sockaddr_un a{};
  socklen_t bytes = 0;
};
socket_address address_of(const std::string& name) noexcept {
  socket_address s;
  s.a.sun_family = AF_UNIX;
  const std::size_t from = name[0] == '/' ? 0 : 1;  // a first 0 makes it an abstract name
  std::memcpy(s.a.sun_path + from, name.data(), std::min(name.size(), sizeof s.a.sun_path - 2));
  s.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + from + name.size());
  return s;
}

/// Takes the file's lock, so that a file of a process that has died is told from one in use. -1
/// with errno (EWOULDBLOCK: it is in use).
int lock_of(const std::string& name) {
  for (;;) {
    const std::string file = name + ".lock";
    const int fd = opened("open", ::open(file.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
    if (fd < 0) return -1;
    if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
      const int e = errno;
      ::close(fd);
      return errno = e, -1;
    }
    struct stat held {
    }, named{};
    if (::fstat(fd, &held) == 0 && ::stat(file.c_str(), &named) == 0 && held.st_ino == named.st_ino)
      return fd;
    ::close(fd);  // its last user has just removed it
  }
}

/// Gives the socket this name. 0 or an errno; EADDRINUSE: somebody has it.
int name_socket(identifier& i, const std::string& name) {
  int lock = -1;
  if (name[0] == '/') {
    lock = lock_of(name);
    if (lock < 0) return errno == EWOULDBLOCK || errno == EACCES ? EADDRINUSE : errno;
    ::unlink(name.c_str());
  }
  const socket_address at = address_of(name);
  if (::bind(i.socket, reinterpret_cast<const sockaddr*>(&at.a), at.bytes) != 0) {
    const int e = errno;
    if (lock >= 0) ::unlink((name + ".lock").c_str()), ::close(lock);
    return e;
  }
  i.file = {name, lock};
  return 0;
}

std::uint16_t random_port() {
  thread_local std::minstd_rand draw{std::random_device{}()};
  return static_cast<std::uint16_t>(std::uniform_int_distribution(32768, 60999)(draw));
}

}  // namespace

socklen_t length_of(const sockaddr* a) noexcept {
  return a->sa_family == AF_INET    ? sizeof(sockaddr_in)
         : a->sa_family == AF_INET6 ? sizeof(sockaddr_in6)
                                    : 0;
}

bool is_any(const sockaddr* a) noexcept {
  return a->sa_family == AF_INET ? v4(a).sin_addr.s_addr == INADDR_ANY
                                 : IN6_IS_ADDR_UNSPECIFIED(&v6(a).sin6_addr);
}

bool is_multicast(const sockaddr* a) noexcept {
  const in6_addr m = mapped(a);
  return IN6_IS_ADDR_MULTICAST(&m) || IN_MULTICAST(v4_of(a));
}

std::uint16_t port_of(const sockaddr* a) noexcept {
  return a->sa_family == AF_INET    ? ntohs(v4(a).sin_port)
         : a->sa_family == AF_INET6 ? ntohs(v6(a).sin6_port)
                                    : 0;
}

void set_port(sockaddr* a, std::uint16_t port) noexcept {
  (a->sa_family == AF_INET ? reinterpret_cast<sockaddr_in*>(a)->sin_port
                           : reinterpret_cast<sockaddr_in6*>(a)->sin6_port) = htons(port);
}

std::string text_of_address(const sockaddr* a) {
  char text[INET6_ADDRSTRLEN] = "an address that is not IP";
  if (a->sa_family == AF_INET) ::inet_ntop(AF_INET, &v4(a).sin_addr, text, sizeof text);
  if (a->sa_family == AF_INET6) ::inet_ntop(AF_INET6, &v6(a).sin6_addr, text, sizeof text);
  return text;
}

bool is_local(const sockaddr* a) noexcept {
  const int s = opened("socket", ::socket(a->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (s < 0) return false;
  sockaddr_storage any_port{};
  std::memcpy(&any_port, a, length_of(a));
  set_port(reinterpret_cast<sockaddr*>(&any_port), 0);
  const bool ours = ::bind(s, reinterpret_cast<const sockaddr*>(&any_port), length_of(a)) == 0;
  ::close(s);
  return ours || owner_of(a) != nullptr;
}

bool is_reachable(const sockaddr* a) noexcept {
  return is_multicast(a) || fabric() >= 0 || is_local(a);
}

unsigned device_of(const sockaddr* a) {
  constexpr std::uint32_t first = 0x7f000001;  // 127.0.0.1 is shm0's, 127.0.0.2 shm1's
  if (const std::uint32_t w = v4_of(a); w >= first && w < first + 16) return w - first;
  const device* d = owner_of(a);
  return d != nullptr ? d->index : 0;
}

sockaddr_storage source_for(const sockaddr* to) {
  sockaddr_storage source{};
  std::memcpy(&source, to, length_of(to));
  auto* from = reinterpret_cast<sockaddr*>(&source);
  if (is_multicast(to) || !is_local(to)) {  // the kernel's routes tell
    const int s = opened("socket", ::socket(to->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    socklen_t bytes = sizeof source;
    const bool found =
        s >= 0 && ::connect(s, to, length_of(to)) == 0 && ::getsockname(s, from, &bytes) == 0;
    if (s >= 0) ::close(s);
    if (!found) {  // a namespace without a network
      if (to->sa_family == AF_INET)
        reinterpret_cast<sockaddr_in*>(from)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      else
        reinterpret_cast<sockaddr_in6*>(from)->sin6_addr = in6addr_loopback;
    }
  }
  set_port(from, 0);
  return source;
}

int bind_socket(identifier& i, bool may_listen) {
  i.socket = opened("socket", ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (i.socket < 0) return errno;
  sockaddr* a = &i.pub.route.addr.src_addr;
  const bool free_choice = port_of(a) == 0;
  if (free_choice && !may_listen && fabric() >= 0) {  // two files for every client are too many
    set_port(a, random_port());
    return 0;
  }
  int e = EADDRINUSE;
  for (int tries = 0; e == EADDRINUSE && tries < (free_choice ? 1000 : 1); ++tries) {
    if (free_choice) set_port(a, random_port());
    e = name_socket(i, own_name(i));
  }
  if (e == EADDRINUSE && i.reuse) return 0;  // without a name it can connect, and not listen
  if (e != 0) {
    close_socket(i);
    if (free_choice) set_port(a, 0);
  }
  return e;
}

void close_socket(identifier& i) noexcept {
  if (i.socket >= 0) {
    ::shutdown(i.socket, SHUT_RDWR);  // a child of fork(2) may have it, too
    ::close(i.socket);
  }
  i.socket = -1;
  if (i.file.lock >= 0) {
    ::unlink(i.file.name.c_str());
    ::unlink((i.file.name + ".lock").c_str());
    ::close(i.file.lock);
  }
  i.file = {};
}

int dial(identifier& i) {
  const sockaddr* to = &i.pub.route.addr.dst_addr;
  const std::uint16_t port = port_of(to);
  for (const std::string& host :
       {hex_of(to), std::string(v4_of(to) != 0 ? "any4" : "any6"), std::string("any")}) {
    const socket_address at = address_of(name_of(i.pub.ps, port, host.c_str()));
    if (::connect(i.socket, reinterpret_cast<const sockaddr*>(&at.a), at.bytes) == 0)
      return same_user(i.socket) ? 0 : EACCES;
    if (errno != ECONNREFUSED && errno != ENOENT) return errno;
  }
  return ECONNREFUSED;
}

bool same_user(int socket) noexcept {
  ucred who{};
  socklen_t bytes = sizeof who;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &bytes) == 0 && who.uid == ::geteuid();
}

}  // namespace penstock::nic::cm
