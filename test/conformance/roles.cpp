// Forking, joining and the stream between the two sides.
#include "test/conformance/roles.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <thread>

namespace penstock::conformance {
namespace {

struct sockets {
  int fd[2] = {-1, -1};
  sockets() { expect(socketpair(AF_UNIX, SOCK_STREAM, 0, fd) == 0, "a socket pair"); }
  ~sockets() {
    for (const int f : fd)
      if (f >= 0) close(f);
  }
};

/// A forked side; killed if it is still there at the end.
class child {
 public:
  child(sockets& s, const role& work) {
    std::fflush(nullptr);
    pid_ = fork();
    expect(pid_ >= 0, "fork");
    if (pid_ != 0) {
      close(std::exchange(s.fd[1], -1));
      return;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(s.fd[0]);
    int code = 0;
    try {
      link l(s.fd[1]);
      work(l);
    } catch (const std::exception& e) {
      std::fprintf(stderr, "second process: %s\n", e.what());
      code = 1;
    }
    _exit(code);
  }
  ~child() {
    if (pid_ > 0) kill_now(), (void)waitpid(pid_, nullptr, 0);
  }
  child(const child&) = delete;
  child& operator=(const child&) = delete;
  void kill_now() const { kill(pid_, SIGKILL); }
  /// Its exit code, or -1 if it had to be killed.
  int wait_for() {
    int status = 0;
    const bool ended = until([&] { return waitpid(pid_, &status, WNOHANG) == pid_; });
    if (!ended) return -1;
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t pid_ = 0;
};

}  // namespace

void link::put(const void* data, std::size_t bytes) {
  const auto* p = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = send(fd_, p, bytes, MSG_NOSIGNAL);
    expect(n > 0, "the other side to listen");
    p += n;
    bytes -= static_cast<std::size_t>(n);
  }
}

void link::get(void* data, std::size_t bytes) {
  auto* p = static_cast<char*>(data);
  while (bytes > 0) {
    pollfd f{fd_, POLLIN, 0};
    expect(poll(&f, 1, static_cast<int>(patience_ns / 1'000'000)) == 1, "the other side to speak");
    const ssize_t n = recv(fd_, p, bytes, 0);
    expect(n > 0, "the other side to be there");
    p += n;
    bytes -= static_cast<std::size_t>(n);
  }
}

void as_processes(const role& first, const role& second) {
  sockets s;
  child other(s, second);
  link l(s.fd[0]);
  first(l);
  const int code = other.wait_for();
  expect(code == 0, "the second process to end well, not with " + std::to_string(code));
}

void as_threads(const role& first, const role& second) {
  sockets s;
  std::exception_ptr problem;
  std::thread other([&] {
    try {
      link l(s.fd[1]);
      second(l);
    } catch (...) {
      problem = std::current_exception();
      shutdown(s.fd[1], SHUT_RDWR);
    }
  });
  std::exception_ptr own;
  try {
    link l(s.fd[0]);
    first(l);
  } catch (...) {
    own = std::current_exception();
    shutdown(s.fd[0], SHUT_RDWR);
  }
  other.join();
  if (problem) std::rethrow_exception(problem);
  if (own) std::rethrow_exception(own);
}

void with_victim(const std::function<void(link&, const std::function<void()>& kill)>& first,
                 const role& second) {
  sockets s;
  child other(s, second);
  link l(s.fd[0]);
  first(l, [&] { other.kill_now(); });
}

side joined(link& l, const link_shape& shape, const qp_shape& qp, std::size_t bytes) {
  side s(qp, bytes);
  const party theirs = l.swap(s.reach());
  s.n.connect(s.qp.get(), theirs, shape);
  l.meet();
  return s;
}

}  // namespace penstock::conformance
