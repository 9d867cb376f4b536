#include "lib/conduit/report/metrics_socket.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstring>

#include "lib/base/clock.hpp"
#include "lib/base/descriptors.hpp"
#include "lib/base/shortage.hpp"

namespace penstock::conduit::PENSTOCK_ABI::report {
namespace {

constexpr std::size_t longest_request = 4096;
constexpr std::uint64_t patience_ns = 1'000'000'000, text_lasts_ns = 100'000'000;
constexpr int backlog = 16;
constexpr const char* setting = "PENSTOCK_COUNTERS_HTTP: ";

int stream_socket(int family) noexcept {
  return opened("socket", ::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

// Listens at that address, or closes fd and returns the errno.
int listen_at(int fd, const sockaddr* at, socklen_t bytes) noexcept {
  if (fd >= 0 && ::bind(fd, at, bytes) == 0 && ::listen(fd, backlog) == 0) return 0;
  const int code = errno;
  if (fd >= 0) ::close(fd);
  return code;
}

// True if a process that has ended has left its socket there.
bool is_left(const std::string& path, const sockaddr_un& at) noexcept {
  struct stat s {};
  if (::lstat(path.c_str(), &s) != 0 || !S_ISSOCK(s.st_mode)) return false;
  const int fd = stream_socket(AF_UNIX);
  if (fd < 0) return false;
  const bool refused = ::connect(fd, reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0 &&
                       errno == ECONNREFUSED;
  ::close(fd);
  return refused;
}

std::string head(const char* status, std::size_t bytes) {
  return std::string("HTTP/1.1 ") + status +
         "\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: " +
         std::to_string(bytes) + "\r\nConnection: close\r\n\r\n";
}

std::string refusal(const char* status) {
  return head(status, std::strlen(status) + 1) + status + '\n';
}

}  // namespace

result<std::unique_ptr<metrics_socket>> metrics_socket::open(const std::string& where,
                                                             std::uint32_t place) {
  using made = std::unique_ptr<metrics_socket>;
  if (where == "0") return made();
  std::uint32_t port = 0;
  const char* const end = where.data() + where.size();
  if (const auto r = std::from_chars(where.data(), end, port);
      r.ec != std::errc::invalid_argument && r.ptr == end) {
    if (r.ec != std::errc() || port > 0xffff || port + place > 0xffff)
      return failure{setting + where + " + " + std::to_string(place) + " is no port", 0,
                     "each process of a host has one more than the one before it"};
    port += place;
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(static_cast<std::uint16_t>(port));
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int fd = stream_socket(AF_INET);
    const int one = 1;  // a port whose connections have ended just now may be taken
    if (fd >= 0) (void)::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (const int code = listen_at(fd, reinterpret_cast<const sockaddr*>(&at), sizeof at))
      return failure{setting + ("port " + std::to_string(port)), code, what_to_raise(code)};
    return made(new metrics_socket(fd, ""));
  }
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  if (where.size() >= sizeof at.sun_path)
    return failure{setting + where + " is longer than the 107 bytes of a socket's path", 0, ""};
  std::memcpy(at.sun_path, where.c_str(), where.size());
  if (is_left(where, at)) ::unlink(where.c_str());
  const int fd = stream_socket(AF_UNIX);
  if (fd >= 0) (void)::fchmod(fd, S_IRUSR | S_IWUSR);  // the path is made with this mode
  if (const int code = listen_at(fd, reinterpret_cast<const sockaddr*>(&at), sizeof at))
    return failure{setting + where, code, what_to_raise(code)};
  return made(new metrics_socket(fd, where));
}

metrics_socket::~metrics_socket() {
  for (client& c : clients_) drop(c);
  ::close(listens_);
  if (!path_.empty()) ::unlink(path_.c_str());
}

void metrics_socket::list(std::span<pollfd, descriptors> into) const noexcept {
  const bool full = rests_until_ns_ != 0 ||
                    std::ranges::none_of(clients_, [](const client& c) { return c.fd < 0; });
  into[0] = {full ? -1 : listens_, POLLIN, 0};
  for (std::size_t i = 0; i < most_clients; ++i) {
    const client& c = clients_[i];
    into[1 + i] = {c.fd, static_cast<short>(c.answer.empty() ? POLLIN : POLLOUT), 0};
  }
}

std::uint64_t metrics_socket::due() const noexcept {
  std::uint64_t first = rests_until_ns_;
  for (const client& c : clients_)
    if (c.fd >= 0 && (first == 0 || c.until_ns < first)) first = c.until_ns;
  return first;
}

void metrics_socket::serve(std::span<const pollfd, descriptors> seen,
                           const std::function<std::string()>& counters) {
  if (now_ns() >= rests_until_ns_) rests_until_ns_ = 0;
  for (std::size_t i = 0; i < most_clients; ++i) {
    client& c = clients_[i];
    if (c.fd < 0) continue;
    if (seen[1 + i].revents != 0) c.answer.empty() ? receive(c, counters) : send(c);
    if (c.fd >= 0 && now_ns() >= c.until_ns) drop(c);
  }
  if (seen[0].revents == 0) return;
  const auto free = std::ranges::find_if(clients_, [](const client& c) { return c.fd < 0; });
  if (free == clients_.end()) return;
  const int fd = above_stdio(::accept4(listens_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (fd >= 0)
    *free = {fd, now_ns() + patience_ns, {}, {}, 0};
  else if (errno != EAGAIN)  // no descriptor, say: poll(2) would return at once
    rests_until_ns_ = now_ns() + patience_ns;
}

void metrics_socket::receive(client& c, const std::function<std::string()>& counters) {
  char part[longest_request];
  const ssize_t n = ::recv(c.fd, part, sizeof part, 0);
  if (n < 0 && errno == EAGAIN) return;
  if (n <= 0) return drop(c);
  c.request.append(part, static_cast<std::size_t>(n));
  if (c.request.find("\r\n\r\n") != std::string::npos ||
      c.request.find("\n\n") != std::string::npos)
    c.answer = answer_to(c.request, counters);
  else if (c.request.size() > longest_request)
    c.answer = refusal("431 Request Header Fields Too Large");
  if (!c.answer.empty()) send(c);
}

void metrics_socket::send(client& c) noexcept {
  const ssize_t n = ::send(c.fd, c.answer.data() + c.sent, c.answer.size() - c.sent, MSG_NOSIGNAL);
  if (n < 0 && errno == EAGAIN) return;
  if (n > 0) c.sent += static_cast<std::size_t>(n);
  if (n <= 0 || c.sent == c.answer.size()) drop(c);
}

void metrics_socket::drop(client& c) noexcept {
  if (c.fd >= 0) ::close(c.fd);
  c = {};
}

std::string metrics_socket::answer_to(const std::string& request,
                                      const std::function<std::string()>& counters) {
  const std::string line = request.substr(0, request.find_first_of("\r\n"));
  const auto first = line.find(' '), second = line.find(' ', first + 1);
  if (first == line.npos || second == line.npos || !line.substr(second + 1).starts_with("HTTP/1."))
    return refusal("400 Bad Request");
  const std::string method = line.substr(0, first);
  std::string path = line.substr(first + 1, second - first - 1);
  path.resize(std::min(path.find('?'), path.size()));
  if (method != "GET" && method != "HEAD") return refusal("405 Method Not Allowed");
  if (path != "/metrics" && path != "/") return refusal("404 Not Found");
  if (const std::uint64_t now = now_ns(); made_ns_ == 0 || now - made_ns_ > text_lasts_ns) {
    text_ = counters();
    made_ns_ = now;
  }
  return head("200 OK", text_.size()) + (method == "GET" ? text_ : "");
}

}  // namespace penstock::conduit::PENSTOCK_ABI::report
