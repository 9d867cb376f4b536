// A second process for the device's tests: the test binary started again with a role, joined by a
// socket over which the two sides exchange the addresses of their queue pairs.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "test/nic/rig.hpp"

namespace rig {

/// What the sides exchange.
struct card {
  ibv_gid gid{};
  std::uint32_t qpn = 0, rkey = 0;
  std::uint64_t address = 0;

  // Messages to a receiver that does not run: short and long ones, more than a ring holds.
  static constexpr std::uint64_t many = 200;
  static constexpr std::size_t most = 40'000;
  static constexpr std::size_t size_of(std::uint64_t i) { return i % 8 == 3 ? most : 16 + i % 60; }
};

inline card card_of(const side& s) {
  return {s.gid, s.qp->qp_num, s.mr->rkey, reinterpret_cast<std::uint64_t>(s.memory.data())};
}

/// Sends our card, waits for theirs (the tests' time-out ends a wait for a dead partner).
inline card exchange(int socket, const card& mine) {
  card theirs{};
  if (::write(socket, &mine, sizeof mine) != sizeof mine) return theirs;
  if (::read(socket, &theirs, sizeof theirs) != sizeof theirs) return card{};
  return theirs;
}

inline void connect(side& s, const card& to) {
  REQUIRE(s.to_rtr(s.qp, to.gid, to.qpn) == 0);
  REQUIRE(s.to_rts(s.qp) == 0);
}

/// Both are connected when this returns.
inline void meet(int socket) {
  char c = 'x';
  REQUIRE(::write(socket, &c, 1) == 1);
  REQUIRE(::read(socket, &c, 1) == 1);
}

/// The test binary as another process, playing `role` with a socket as its descriptor 3.
class child {
 public:
  explicit child(const char* role) {
    int ends[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    socket = ends[0];
    pid = ::fork();
    if (pid == 0) {
      ::dup2(ends[1], 3);
      ::execl("/proc/self/exe", "child", role, static_cast<char*>(nullptr));
      ::_exit(127);
    }
    ::close(ends[1]);
  }
  ~child() {
    ::close(socket);
    if (pid > 0) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
  }
  child(const child&) = delete;
  child& operator=(const child&) = delete;

  /// Waits for its end; the exit code, or minus the signal.
  int wait() {
    int status = 0;
    ::waitpid(pid, &status, 0);
    pid = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  int socket = -1;
  pid_t pid = -1;
};

/// The roles a child can play (roles.cpp); its exit code.
int play(const std::string& role);

}  // namespace rig
