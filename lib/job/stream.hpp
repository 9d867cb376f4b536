// Sends and receives whole messages over a stream socket to a launcher. Only this folder includes
// it.
#pragma once

#include <sys/socket.h>

#include <cerrno>
#include <cstddef>

#include "lib/base/descriptors.hpp"

namespace penstock::job {

/// Sends all n bytes. False, with errno, if the other end is gone. Async-signal-safe; may wait.
inline bool send_all(int fd, const void* data, std::size_t n) noexcept {
  const auto* p = static_cast<const char*>(data);
  while (n > 0) {
    const auto sent = ::send(fd, p, n, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return asked("sendto", static_cast<int>(sent)) > 0;
    p += sent;
    n -= static_cast<std::size_t>(sent);
  }
  return true;
}

/// Receives exactly n bytes. False at the end of the stream (errno is then as before) or on an
/// error.
inline bool receive_all(int fd, void* data, std::size_t n) noexcept {
  auto* p = static_cast<char*>(data);
  while (n > 0) {
    const auto got = ::recv(fd, p, n, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return asked("recvfrom", static_cast<int>(got)) > 0;
    p += got;
    n -= static_cast<std::size_t>(got);
  }
  return true;
}

}  // namespace penstock::job
