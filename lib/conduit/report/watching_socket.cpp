#include "lib/conduit/report/watching_socket.hpp"

#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "lib/base/clock.hpp"
#include "lib/base/descriptors.hpp"

namespace penstock::conduit::PENSTOCK_ABI::report {
namespace {

// How long a reporter waits for a process that reads or is asked: more than a loaded host needs.
constexpr std::uint64_t patience_ns = 200'000'000;

}  // namespace

socklen_t address_of(const std::string& name, sockaddr_un& to) noexcept {
  to = {};
  to.sun_family = AF_UNIX;
  const std::size_t n = std::min(name.size(), sizeof to.sun_path - 1);
  std::memcpy(to.sun_path + 1, name.data(), n);
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + n);
}

void limit_waits(int fd) noexcept {
  const timeval t{0, patience_ns / 1000};
  (void)::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof t);
  (void)::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
}

bool same_user(int fd) noexcept {
  ucred peer{};
  socklen_t n = sizeof peer;
  return ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) == 0 &&
         (peer.uid == ::geteuid() || peer.uid == 0);
}

void send_all(int fd, const std::string& text) noexcept {
  const std::uint64_t until = now_ns() + patience_ns;
  for (std::size_t done = 0; done < text.size() && now_ns() < until;) {
    const ssize_t n = ::send(fd, text.data() + done, text.size() - done, MSG_NOSIGNAL);
    if (n <= 0) return;
    done += static_cast<std::size_t>(n);
  }
}

// The answer of the process at that socket to the word, a few bytes at most; empty: there was none.
std::string ask(const std::string& socket, const char* word) {
  const int fd = above_stdio(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (fd < 0) return {};
  limit_waits(fd);
  sockaddr_un to;
  const socklen_t n = address_of(socket, to);
  char text[32] = {};
  if (::connect(fd, reinterpret_cast<sockaddr*>(&to), n) == 0 && same_user(fd)) {
    send_all(fd, word);
    if (::recv(fd, text, sizeof text - 1, MSG_WAITALL) < 0) text[0] = 0;
  }
  ::close(fd);
  return text;
}

}  // namespace penstock::conduit::PENSTOCK_ABI::report
