// See meet.hpp. The two parents speak penrun's own frames (lib/job/wire.hpp) to each other, behind
// a greeting of fixed length. A collective of two: my child's frame goes to the other host, and is
// answered when the other's has come. Nothing that the other host sends is run or written to a
// file.
#include "perf/penperf/meet.hpp"

#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <memory>
#include <new>
#include <string_view>
#include <vector>

#include "lib/base/clock.hpp"
#include "lib/base/log.hpp"
#include "lib/job/stream.hpp"
#include "lib/job/wire.hpp"

namespace penstock::penperf {

namespace {

using job::frame_header;
using job::frame_kind;
constexpr std::uint64_t grace_ns = 5'000'000'000;
constexpr std::uint32_t longest_body = 64 * 1024;  // less than a socket holds: sending never waits

/// The first message of each side. Text fields end in a zero byte.
struct greeting {
  std::array<char, 16> magic{"penperf two 1"};
  std::array<char, 400> measurement{};
  std::array<char, 160> host{};  ///< equal where the two share a kernel and its names
  std::array<char, 40> name{};   ///< of the job; the client's counts
};

template <std::size_t N>
void write_text(std::array<char, N>& to, const std::string& text) {
  std::snprintf(to.data(), N, "%s", text.c_str());
}
template <std::size_t N>
std::string text_of(const std::array<char, N>& from) {
  return {from.data(), strnlen(from.data(), N)};
}

std::string this_host() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  for (const char* space : {"/proc/self/ns/pid", "/proc/self/ns/mnt", "/proc/self/ns/ipc"}) {
    struct stat s {};
    if (::stat(space, &s) == 0) id.append(1, ' ').append(std::to_string(s.st_ino));
  }
  return id.append(1, ' ').append(std::to_string(::geteuid()));
}

/// Exchanges greetings. False if the other end is no penperf.
bool greet(int tcp, const greeting& mine, greeting& theirs) {
  const timeval limit{10, 0};
  ::setsockopt(tcp, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  const bool good = job::send_all(tcp, &mine, sizeof mine) &&
                    job::receive_all(tcp, &theirs, sizeof theirs) && theirs.magic == mine.magic;
  const timeval none{};
  ::setsockopt(tcp, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof none);
  return good;
}

using addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;
addresses find(const char* host, std::uint16_t port) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  if (const int e = ::getaddrinfo(host, std::to_string(port).c_str(), &hints, &found); e != 0)
    fatal(1, "penperf: %s: %s", host != nullptr ? host : "no address", ::gai_strerror(e));
  return {found, &::freeaddrinfo};
}

int listen_at(std::uint16_t port) {
  int why = 0;
  // An IPv6 socket hears both kinds, where there is IPv6.
  for (const int family : {AF_INET6, AF_INET}) {
    const addresses all = find(nullptr, port);
    for (const addrinfo* a = all.get(); a != nullptr; a = a->ai_next) {
      if (a->ai_family != family) continue;
      const int fd = ::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
      const int on = 1, off = 0;
      ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
      if (family == AF_INET6) ::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
      if (fd >= 0 && ::bind(fd, a->ai_addr, a->ai_addrlen) == 0 && ::listen(fd, 4) == 0) return fd;
      why = errno;
      if (fd >= 0) ::close(fd);
    }
  }
  fatal(1, "penperf: cannot wait on port %u: %s", port, std::strerror(why));
}

unsigned port_of(int fd) {
  sockaddr_storage a{};
  socklen_t n = sizeof a;
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&a), &n);
  std::array<char, 16> port{};
  ::getnameinfo(reinterpret_cast<sockaddr*>(&a), n, nullptr, 0, port.data(), port.size(),
                NI_NUMERICSERV);
  return static_cast<unsigned>(std::atoi(port.data()));
}

int serve_one(const meeting& m, const greeting& mine, greeting& theirs) {
  const int door = listen_at(m.port);
  std::printf("penperf: waits for a client on port %u\n", port_of(door));
  std::fflush(stdout);
  while (true) {
    const int tcp = ::accept4(door, nullptr, nullptr, SOCK_CLOEXEC);
    if (tcp < 0 && errno != EINTR) fatal(1, "penperf: accept: %s", std::strerror(errno));
    if (tcp < 0) continue;
    if (greet(tcp, mine, theirs)) {
      ::close(door);
      return tcp;
    }
    ::close(tcp);  // a port scanner, or another program's client
  }
}

int call(const meeting& m, const greeting& mine, greeting& theirs) {
  const addresses all = find(m.peer.c_str(), m.port);
  int why = 0;
  for (const addrinfo* a = all.get(); a != nullptr; a = a->ai_next) {
    const int tcp = ::socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (tcp >= 0 && ::connect(tcp, a->ai_addr, a->ai_addrlen) == 0) {
      if (greet(tcp, mine, theirs)) return tcp;
      fatal(1, "penperf: what answers at %s, port %u, is no penperf of this version",
            m.peer.c_str(), m.port);
    }
    why = errno;
    if (tcp >= 0) ::close(tcp);
  }
  fatal(1, "penperf: %s, port %u: %s (penperf --server waits there)", m.peer.c_str(), m.port,
        std::strerror(why));
}

/// The parent of one of the two.
class keeper {
 public:
  keeper(int tcp, int child, pid_t pid, job::board* board, int bell, std::uint32_t rank)
      : tcp_(tcp), child_(child), pid_(pid), board_(board), bell_(bell), rank_(rank) {
    exited_ = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  }

  [[noreturn]] void keep() {
    while (true) {
      pollfd fds[] = {{child_, POLLIN, 0}, {tcp_, POLLIN, 0}, {exited_, POLLIN, 0}};
      (void)::poll(fds, 3, deadline_ns_ != 0 ? 100 : 1000);
      if (fds[0].revents != 0 && !from_child()) ::close(std::exchange(child_, -1));
      if (fds[1].revents != 0 && !from_other()) lose_other();
      if (child_ < 0 || fds[2].revents != 0) try_leave();
      if (deadline_ns_ != 0 && now_ns() > deadline_ns_) ::kill(pid_, SIGKILL);
    }
  }

 private:
  struct frame {
    frame_kind kind;
    std::vector<char> body;
  };

  static bool read(int fd, frame& f) {
    frame_header head{};
    if (!job::receive_all(fd, &head, sizeof head) || head.bytes > longest_body) return false;
    f.kind = head.kind;
    f.body.resize(head.bytes);
    return job::receive_all(fd, f.body.data(), f.body.size());
  }
  static void write(int fd, const frame& f) {
    const frame_header head{f.kind, static_cast<std::uint32_t>(f.body.size())};
    if (fd >= 0 && job::send_all(fd, &head, sizeof head))
      job::send_all(fd, f.body.data(), f.body.size());
  }
  static bool collective(const frame& f) {
    return f.kind == frame_kind::exchange || f.kind == frame_kind::fence;
  }

  bool from_child() {
    frame f;
    if (!read(child_, f)) return false;
    write(tcp_, f);
    if (f.kind == frame_kind::finalize || f.kind == frame_kind::abort) left_ = true;
    if (collective(f)) mine_.push_back(std::move(f));
    answer();
    return true;
  }

  bool from_other() {
    frame f;
    if (!read(tcp_, f)) return false;
    if (f.kind == frame_kind::finalize) {
      other_left_ = true;
    } else if (f.kind == frame_kind::abort && f.body.size() == sizeof(job::abort_word)) {
      job::abort_word word{};
      std::memcpy(&word, f.body.data(), sizeof word);
      other_left_ = true;
      announce({static_cast<int>(1 - rank_), word.code, word.ordered != 0});
    } else if (collective(f) && theirs_.size() < 16) {
      theirs_.push_back(std::move(f));
    } else {
      return false;
    }
    answer();
    return true;
  }

  /// Answers my child's collective once the other's has come, or cannot come.
  void answer() {
    if (mine_.empty()) return;
    if (theirs_.empty()) {
      if (other_left_) write(child_, {frame_kind::over, {}}), mine_.clear();
      return;
    }
    const frame mine = std::move(mine_.front()), theirs = std::move(theirs_.front());
    mine_.pop_front();
    theirs_.pop_front();
    frame out{mine.kind, {}};
    if (mine.kind == frame_kind::exchange)
      for (const frame* f : {rank_ == 0 ? &mine : &theirs, rank_ == 0 ? &theirs : &mine}) {
        const auto n = static_cast<std::uint32_t>(f->body.size());
        const char* const p = reinterpret_cast<const char*>(&n);
        out.body.insert(out.body.end(), p, p + sizeof n);
        out.body.insert(out.body.end(), f->body.begin(), f->body.end());
      }
    write(child_, out);
  }

  void announce(job::death d) {
    if (deadline_ns_ != 0) return;
    if (d.code_or_signal != 0) other_code_ = d.code_or_signal;
    // J1 announce  store-release board.ended  -> J2 (lib/job/job.hpp)
    board_->ended.store(job::pack(d), std::memory_order_release);
    eventfd_write(bell_, 1);
    deadline_ns_ = now_ns() + grace_ns;
  }

  void lose_other() {
    ::close(std::exchange(tcp_, -1));
    if (std::exchange(other_left_, true)) return;
    std::fprintf(stderr, "penperf: the other host's process has gone\n");
    announce({static_cast<int>(1 - rank_), 1, false});
    answer();
  }

  void try_leave() {
    int status = 0;
    if (::waitpid(pid_, &status, WNOHANG) != pid_) return;
    while (child_ >= 0 && from_child()) {
    }
    int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    if (!left_) {
      const job::abort_word word{.when_ns = now_ns(), .code = code != 0 ? code : 1};
      frame f{frame_kind::abort, std::vector<char>(sizeof word)};
      std::memcpy(f.body.data(), &word, sizeof word);
      write(tcp_, f);
    }
    if (other_code_ != 0) code = other_code_;
    std::exit(code);
  }

  int tcp_, child_;
  pid_t pid_;
  job::board* board_;
  int bell_, exited_;
  std::uint32_t rank_;
  std::deque<frame> mine_, theirs_;
  bool left_ = false, other_left_ = false;
  int other_code_ = 0;
  std::uint64_t deadline_ns_ = 0;
};

}  // namespace

void meet(const meeting& m) {
  if (std::getenv("PENSTOCK_LAUNCH") != nullptr)
    fatal(2, "penperf: a launcher has started this process: it needs neither --server nor a host");
  const std::uint32_t rank = m.peer.empty() ? 1 : 0;
  greeting mine, theirs;
  write_text(mine.measurement, m.measurement);
  write_text(mine.host, this_host());
  write_text(mine.name, job::random_name());
  const int tcp = rank == 1 ? serve_one(m, mine, theirs) : call(m, mine, theirs);
  if (text_of(theirs.measurement) != text_of(mine.measurement))
    fatal(2, "penperf: the two sides must be told the same; here it is %s, there %s",
          text_of(mine.measurement).c_str(), text_of(theirs.measurement).c_str());

  const bool one_host = text_of(mine.host) == text_of(theirs.host);
  int pair[2];
  const int page = ::memfd_create("penperf-board", MFD_CLOEXEC);
  const int bell = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0 || page < 0 || bell < 0 ||
      ::ftruncate(page, sizeof(job::board)) != 0)
    fatal(1, "penperf: %s", std::strerror(errno));
  void* const at = ::mmap(nullptr, sizeof(job::board), PROT_READ | PROT_WRITE, MAP_SHARED, page, 0);
  if (at == MAP_FAILED) fatal(1, "penperf: %s", std::strerror(errno));
  const job::launch_ticket ticket{pair[1],
                                  page,
                                  bell,
                                  rank,
                                  2,
                                  one_host ? 0 : rank,
                                  one_host ? 2u : 1u,
                                  text_of(rank == 0 ? mine.name : theirs.name)};
  std::fflush(nullptr);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) fatal(1, "penperf: fork: %s", std::strerror(errno));
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);
    ::close(tcp);
    ::close(pair[0]);
    ::setenv("PENSTOCK_LAUNCH", ticket.text().c_str(), 1);
    return;
  }
  ::close(pair[1]);
  keeper(tcp, pair[0], pid, new (at) job::board{}, bell, rank).keep();
}

}  // namespace penstock::penperf
