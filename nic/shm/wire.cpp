#include "nic/shm/wire.hpp"

#include <poll.h>
#include <sys/auxv.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "lib/base/descriptors.hpp"
#include "nic/shm/direct.hpp"
#include "nic/shm/identity.hpp"

namespace penstock::nic::shm {
namespace {

/// Closes descriptors that came uninvited.
void close_all(const cmsghdr* h) noexcept {
  for (std::size_t i = 0; CMSG_LEN((i + 1) * sizeof(int)) <= h->cmsg_len; ++i) {
    int fd;
    std::memcpy(&fd, CMSG_DATA(h) + i * sizeof fd, sizeof fd);
    ::close(fd);
  }
}

/// Whether nobody uses a file whose socket refuses. One that has been made just now may be about to
/// listen.
bool is_left(int type, const socket_name& at) noexcept {
  struct stat st {};
  constexpr std::time_t moment = 5;
  return type == SOCK_DGRAM ||
         (::stat(at.text, &st) == 0 && std::time(nullptr) > st.st_mtime + moment);
}

}  // namespace

meaning meaning_of(int code) noexcept {
  switch (code) {
    case EPIPE:
    case ECONNRESET:
    case ECONNREFUSED:  // of a name, which nobody has
    case ENOENT:        // of a name in a folder
    case EHOSTUNREACH:
    case ESRCH:
      return meaning::gone;
    case EAGAIN:
    case EINTR:
    case ETIMEDOUT:
    case ENOBUFS:
    case ENOMEM:
    case ENOSPC:  // of epoll's watches
    case EMFILE:
    case ENFILE:
    case ETOOMANYREFS:
      return meaning::later;
    default:
      return meaning::refused;
  }
}

bool means_gone(int code) noexcept { return meaning_of(code) == meaning::gone; }

uid_t own_user() noexcept {
  const uid_t told = ::geteuid();  // a refusal comes as a negative errno
  return told < static_cast<uid_t>(-4095) ? told : static_cast<uid_t>(::getauxval(AT_EUID));
}

sockaddr_un address_of(const socket_name& at) noexcept {
  sockaddr_un a{};
  a.sun_family = AF_UNIX;
  std::memcpy(a.sun_path, at.text, sizeof a.sun_path);
  return a;
}

socket_name name_of(const nonce& who, const char* suffix) noexcept {
  socket_name n{};
  const auto high = static_cast<unsigned long long>(who.high);
  const auto low = static_cast<unsigned long long>(who.low);
  // In a folder, which may have a long name, it is a path through the folder's descriptor.
  const int written =
      fabric() < 0 ? std::snprintf(n.text + 1, sizeof n.text - 1, "penstock-shm-%016llx%016llx%s",
                                   high, low, suffix)
                   : std::snprintf(n.text, sizeof n.text, "/proc/self/fd/%d/%016llx%016llx%s",
                                   fabric(), high, low, suffix);
  n.length = static_cast<std::uint32_t>(offsetof(sockaddr_un, sun_path)) + 1 +
             static_cast<std::uint32_t>(written);
  return n;
}

void remove_name(const socket_name& at) noexcept {
  if (at.text[0] != 0) ::unlink(at.text);
}

int send_packet(int socket, const void* head, std::size_t head_bytes, const void* payload,
                std::size_t bytes, int fd) noexcept {
  iovec v[2] = {{const_cast<void*>(head), head_bytes}, {const_cast<void*>(payload), bytes}};
  msghdr m{};
  m.msg_iov = v;
  m.msg_iovlen = bytes != 0 ? 2 : 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  if (fd >= 0) {
    m.msg_control = control;
    m.msg_controllen = sizeof control;
    cmsghdr* c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(c), &fd, sizeof fd);
  }
  ssize_t n;
  do n = asked("sendmsg", static_cast<int>(::sendmsg(socket, &m, MSG_NOSIGNAL)));
  while (n < 0 && errno == EINTR);
  return n < 0 ? errno : 0;
}

ssize_t receive_packet(int socket, void* head, std::size_t head_bytes, void* payload,
                       std::size_t room, int* fd) noexcept {
  iovec v[2] = {{head, head_bytes}, {payload, room}};
  msghdr m{};
  m.msg_iov = v;
  m.msg_iovlen = room != 0 ? 2 : 1;
  alignas(cmsghdr) char control[CMSG_SPACE(4 * sizeof(int))];
  m.msg_control = control;
  m.msg_controllen = sizeof control;
  if (fd != nullptr) *fd = -1;
  ssize_t n;
  do n = asked("recvmsg", static_cast<int>(::recvmsg(socket, &m, MSG_CMSG_CLOEXEC)));
  while (n < 0 && errno == EINTR);
  if (n < 0) return -1;
  for (cmsghdr* c = CMSG_FIRSTHDR(&m); c != nullptr; c = CMSG_NXTHDR(&m, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int got;
      std::memcpy(&got, CMSG_DATA(c) + i * sizeof got, sizeof got);
      if (fd != nullptr && *fd < 0)
        *fd = above_stdio(got);
      else
        ::close(got);
    }
  }
  if (n == 0) return errno = EPIPE, -1;
  // A descriptor was sent, but this process could not receive it.
  if (fd != nullptr && *fd < 0 && (m.msg_flags & MSG_CTRUNC) != 0) return errno = EMFILE, -1;
  if (static_cast<std::size_t>(n) < head_bytes || (m.msg_flags & MSG_TRUNC) != 0) {
    if (fd != nullptr && *fd >= 0) ::close(*fd), *fd = -1;
    return errno = EPROTO, -1;
  }
  return n - static_cast<ssize_t>(head_bytes);
}

int wait_readable(int socket, int timeout_ms) noexcept {
  pollfd p{socket, POLLIN, 0};
  int r;
  do r = asked("poll", ::poll(&p, 1, timeout_ms));
  while (r < 0 && errno == EINTR);
  refuse_closed({&p, 1});
  return r > 0 ? 0 : r == 0 ? ETIMEDOUT : errno;
}

int same_user(int socket, pid_t* pid) noexcept {
  ucred c{};
  socklen_t n = sizeof c;
  if (asked("getsockopt", ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &c, &n)) != 0) return errno;
  if (pid != nullptr) *pid = c.pid;
  return c.uid == own_user() ? 0 : EACCES;
}

int bound_socket(int type, const socket_name& at) noexcept {
  const int s = opened("socket", ::socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (s < 0) return -1;
  const sockaddr_un address = address_of(at);
  const auto* where = reinterpret_cast<const sockaddr*>(&address);
  const auto bind = [&] {
    const int done = ::bind(s, where, at.length);
    return done == 0 || errno == EADDRINUSE ? done : asked("bind", done);
  };
  if (bind() == 0) return s;
  int e = errno;
  // A file whose process has died is in nobody's use.
  if (e == EADDRINUSE && at.text[0] != 0 && ::connect(s, where, at.length) != 0 &&
      errno == ECONNREFUSED && is_left(type, at)) {
    remove_name(at);
    if (bind() == 0) return s;
    e = errno;
  }
  ::close(s);
  return errno = e, -1;
}

int send_to(int socket, const socket_name& at, const iovec* parts, int count) noexcept {
  sockaddr_un address = address_of(at);
  msghdr m{};
  m.msg_name = &address;
  m.msg_namelen = at.length;
  m.msg_iov = const_cast<iovec*>(parts);
  m.msg_iovlen = static_cast<std::size_t>(count);
  ssize_t n;
  do n = asked("sendmsg", static_cast<int>(::sendmsg(socket, &m, MSG_NOSIGNAL | MSG_DONTWAIT)));
  while (n < 0 && errno == EINTR);
  return n < 0 ? errno : 0;
}

bool receive_credited(int socket, void* to, std::size_t room, ssize_t* bytes) noexcept {
  for (;;) {
    iovec v{to, room};
    msghdr m{};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(ucred)) + CMSG_SPACE(4 * sizeof(int))];
    m.msg_iov = &v;
    m.msg_iovlen = 1;
    m.msg_control = control;
    m.msg_controllen = sizeof control;
    *bytes =
        asked("recvmsg", static_cast<int>(::recvmsg(socket, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC)));
    if (*bytes < 0 && errno == EINTR) continue;
    if (*bytes < 0) return false;
    bool same = false;
    for (cmsghdr* h = CMSG_FIRSTHDR(&m); h != nullptr; h = CMSG_NXTHDR(&m, h)) {
      if (h->cmsg_level != SOL_SOCKET) continue;
      if (h->cmsg_type == SCM_RIGHTS) close_all(h);
      if (h->cmsg_type != SCM_CREDENTIALS) continue;
      ucred who;
      std::memcpy(&who, CMSG_DATA(h), sizeof who);
      same = who.uid == own_user();
    }
    if (same && (m.msg_flags & MSG_TRUNC) == 0) return true;
  }
}

int watch_socket(int epoll, int fd, std::uint32_t events, std::uint64_t about) noexcept {
  epoll_event e{};
  e.events = events;
  e.data.u64 = about;
  return asked("epoll_ctl", ::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e)) == 0 ? 0 : errno;
}

}  // namespace penstock::nic::shm
