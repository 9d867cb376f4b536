// See agent.hpp. One loop around poll(2), as the keeper's; it knows nothing of frames or codes.
#include "tools/penrun/agent.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <new>

#include "lib/base/descriptors.hpp"
#include "lib/base/shortage.hpp"
#include "tools/penrun/descendants.hpp"
#include "tools/penrun/ended.hpp"
#include "tools/penrun/remote.hpp"
#include "tools/penrun/spawn.hpp"
#include "tools/penrun/where.hpp"

namespace penrun {
namespace {

// Output waits in the processes' pipes while more than this waits on the link.
constexpr std::size_t enough_waiting = 4u << 20;

struct child {
  pid_t pid = 0;  ///< 0 once reaped
  int socket = -1, out = -1, err = -1;
  std::vector<std::byte> to_socket;
};

class agent {
 public:
  explicit agent(int lifeline) : lifeline_(lifeline) {}
  int run();

 private:
  bool turn();
  void heard(relay_kind kind, std::uint32_t rank, std::span<const std::byte> body);
  void start(std::span<const std::byte> body);
  bool start_all(const remote_start& s);
  void failed(std::uint32_t rank, int code, const std::string& text);
  void where() const;
  void push_socket(child& c);
  void push_input();
  // Passes on the output that is there now; closes at the end.
  void drain(int& fd, relay_kind kind, std::uint32_t rank);
  void drain_all(std::uint32_t rank);
  void reap();
  void signal_all(int sig);

  int lifeline_;
  int signals_ = -1;
  relay link_{::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3), ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3),
              true};
  bool started_ = false;
  std::uint32_t first_ = 0;
  std::uint32_t ranks_ = 0;  ///< of the job
  shared_ends shared_;
  penstock::job::board* board_ = nullptr;
  std::vector<child> children_;
  int input_ = -1;  ///< our end of rank 0's standard input
  std::vector<std::byte> to_input_;
  bool input_ended_ = false;
};

int agent::run() {
  // Anything that this process might print by mistake must not get onto the link.
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO}) {
    const int null = penstock::above_stdio(::open("/dev/null", O_RDWR | O_CLOEXEC));
    ::dup2(null, fd);
    ::close(null);
  }
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  sigprocmask(SIG_SETMASK, &set, nullptr);
  signals_ = penstock::opened("signalfd", ::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  while (turn()) {
  }
  kill_descendants();
  // Messages that still wait were written before the end.
  for (int tries = 0; link_.out_if_waiting() >= 0 && tries < 20; ++tries) {
    pollfd p{link_.out_if_waiting(), POLLOUT, 0};
    ::poll(&p, 1, 100);
    link_.flush();
  }
  return 0;
}

bool agent::turn() {
  std::vector<pollfd> fds{{signals_, POLLIN, 0},
                          {lifeline_, POLLIN, 0},
                          {link_.in(), POLLIN, 0},
                          {link_.out_if_waiting(), POLLOUT, 0},
                          {to_input_.empty() ? -1 : input_, POLLOUT, 0}};
  const std::size_t fixed = fds.size();
  const bool full = link_.waiting() > enough_waiting;
  for (const child& c : children_) {
    fds.push_back(
        {c.socket, static_cast<short>(c.to_socket.empty() ? POLLIN : POLLIN | POLLOUT), 0});
    fds.push_back({full ? -1 : c.out, POLLIN, 0});
    fds.push_back({full ? -1 : c.err, POLLIN, 0});
  }
  if (::poll(fds.data(), fds.size(), -1) < 0) return errno == EINTR;
  if (fds[1].revents != 0) return false;
  for (std::size_t i = 0; i < children_.size(); ++i) {
    child& c = children_[i];
    const auto rank = first_ + static_cast<std::uint32_t>(i);
    const pollfd* const p = &fds[fixed + 3 * i];
    if (p[0].revents != 0) {
      push_socket(c);
      drain(c.socket, relay_kind::said, rank);
    }
    if (p[1].revents != 0) drain(c.out, relay_kind::out, rank);
    if (p[2].revents != 0) drain(c.err, relay_kind::err, rank);
  }
  if (fds[4].revents != 0) push_input();
  if (fds[0].revents != 0) reap();
  link_.flush();
  // The other end is gone: so is the job.
  return fds[2].revents == 0 ||
         link_.receive([this](auto kind, auto rank, auto body) { heard(kind, rank, body); });
}

void agent::heard(relay_kind kind, std::uint32_t rank, std::span<const std::byte> body) {
  switch (kind) {
    case relay_kind::start:
      return start(body);
    case relay_kind::said:
      if (rank - first_ >= children_.size()) return;
      children_[rank - first_].to_socket.insert(children_[rank - first_].to_socket.end(),
                                                body.begin(), body.end());
      return push_socket(children_[rank - first_]);
    case relay_kind::input:
      if (body.empty()) input_ended_ = true;
      to_input_.insert(to_input_.end(), body.begin(), body.end());
      return push_input();
    case relay_kind::signal:
      return signal_all(relay_value<std::int32_t>(body));
    case relay_kind::over:
      if (board_ == nullptr) return;
      // J1 announce  store-release board.ended  -> J2 (lib/job/job.hpp)
      board_->ended.store(relay_value<std::uint64_t>(body), std::memory_order_release);
      eventfd_write(shared_.bell, 1);
      return;
    case relay_kind::left:
      if (board_ != nullptr && rank < ranks_) board_->note_left(rank);
      return;
    case relay_kind::where:
      return where();
    case relay_kind::quit:
      return tell_to_quit();
    case relay_kind::there:
      return link_.send(relay_kind::there, first_);
    case relay_kind::kill:
      for (const pid_t pid : descendants()) ::kill(pid, SIGKILL);
      return;
    case relay_kind::out:
    case relay_kind::err:
    case relay_kind::exited:
    case relay_kind::failed:
      return;
  }
}

void agent::failed(std::uint32_t rank, int code, const std::string& text) {
  std::vector<std::byte> body(sizeof(std::int32_t) + text.size());
  const std::int32_t number = code;
  std::memcpy(body.data(), &number, sizeof number);
  std::memcpy(body.data() + sizeof number, text.data(), text.size());
  link_.send(relay_kind::failed, rank, body);
}

void agent::start(std::span<const std::byte> body) {
  if (started_) return;
  started_ = true;
  remote_start s;
  if (!s.unpack(body)) return failed(0, EPROTO, "not the same penrun on both hosts");
  first_ = s.where.first;
  if (!start_all(s)) kill_descendants();
}

bool agent::start_all(const remote_start& s) {
  for (const auto& e : s.environment) {
    const auto equals = e.find('=');
    if (equals != e.npos &&
        ::setenv(e.substr(0, equals).c_str(), e.substr(equals + 1).c_str(), 1) != 0)
      throw std::bad_alloc();
  }
  ::umask(s.mask);
  if (::chdir(s.folder.c_str()) != 0) {
    failed(first_, errno,
           penstock::failure{"cannot enter the folder " + s.folder, errno, ""}.message());
    return false;
  }
  ranks_ = s.o.processes;
  board_ = shared_.make(ranks_);
  int pipe[2] = {-1, -1};
  if (board_ == nullptr || !penstock::opened("pipe2", ::pipe2(pipe, O_CLOEXEC), pipe)) {
    failed(first_, errno,
           penstock::failure{"cannot set up the job", errno, penstock::what_to_raise(errno)}
               .message());
    return false;
  }
  if (auto bound = shared_.places.prepare(s.o.bind); !bound)
    std::fprintf(stderr, "penrun: %s\n", bound.error().message().c_str());
  shared_.name = s.name;
  shared_.host_first = s.where.first;
  shared_.host_size = s.where.count;
  shared_.input = pipe[0];
  input_ = pipe[1];
  ::fcntl(input_, F_SETFL, O_NONBLOCK);
  for (std::uint32_t rank = first_; rank < first_ + s.where.count; ++rank) {
    const auto started = spawn(s.o, shared_, rank);
    if (!started) {
      failed(rank, started.error().code, started.error().message());
      return false;
    }
    children_.push_back({started->pid, started->socket, started->out, started->err, {}});
    link_.send(relay_kind::there, rank);  // many programs of a slow file system take minutes
  }
  ::close(pipe[0]);
  shared_.input = -1;
  return true;
}

void agent::where() const {
  std::vector<std::pair<std::uint32_t, pid_t>> running;
  for (std::size_t i = 0; i < children_.size(); ++i)
    if (children_[i].pid > 0)
      running.emplace_back(first_ + static_cast<std::uint32_t>(i), children_[i].pid);
  print_where(running);
}

void agent::push_socket(child& c) {
  while (c.socket >= 0 && !c.to_socket.empty()) {
    const auto n = ::send(c.socket, c.to_socket.data(), c.to_socket.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n < 0) return c.to_socket.clear();
    c.to_socket.erase(c.to_socket.begin(), c.to_socket.begin() + n);
  }
}

void agent::push_input() {
  while (input_ >= 0 && !to_input_.empty()) {
    const auto n = ::write(input_, to_input_.data(), to_input_.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n < 0) {  // its reader has gone
      link_.send_value(relay_kind::input, 0, static_cast<std::uint64_t>(to_input_.size()));
      to_input_.clear();
      return;
    }
    to_input_.erase(to_input_.begin(), to_input_.begin() + n);
    link_.send_value(relay_kind::input, 0, static_cast<std::uint64_t>(n));
  }
  if (!input_ended_ || input_ < 0) return;
  ::close(input_);
  input_ = -1;
}

void agent::drain(int& fd, relay_kind kind, std::uint32_t rank) {
  static std::byte buffer[1 << 16];
  while (fd >= 0) {
    const auto n = ::read(fd, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) {
      ::close(fd);
      fd = -1;
      return;
    }
    link_.send(kind, rank, {buffer, static_cast<std::size_t>(n)});
    // A process that writes without end must not keep the others waiting.
    if (kind != relay_kind::said && static_cast<std::size_t>(n) < sizeof buffer) return;
    if (kind != relay_kind::said && link_.waiting() > enough_waiting) return;
  }
}

void agent::drain_all(std::uint32_t rank) {
  child& c = children_[rank - first_];
  drain(c.socket, relay_kind::said, rank);
  drain(c.out, relay_kind::out, rank);
  drain(c.err, relay_kind::err, rank);
}

// A death by signal is passed on before the exits of processes that noticed it and ended
// themselves.
void agent::reap() {
  signalfd_siginfo info;
  while (::read(signals_, &info, sizeof info) > 0) {
  }
  std::vector<std::pair<std::uint32_t, int>> ended;
  int status = 0;
  for (pid_t pid; (pid = next_ended(status)) > 0;) {
    const auto it = std::find_if(children_.begin(), children_.end(),
                                 [pid](const child& c) { return c.pid == pid; });
    if (it == children_.end()) continue;  // an orphan of the job
    it->pid = 0;
    ended.emplace_back(first_ + static_cast<std::uint32_t>(it - children_.begin()), status);
  }
  std::stable_partition(ended.begin(), ended.end(),
                        [](const auto& e) { return WIFSIGNALED(e.second); });
  for (const auto& [rank, how] : ended) {
    drain_all(rank);
    link_.send_value(relay_kind::exited, rank, static_cast<std::int32_t>(how));
  }
}

void agent::signal_all(int sig) {
  for (const child& c : children_)
    if (c.pid > 0 && ::kill(-c.pid, sig) != 0) ::kill(c.pid, sig);
}

}  // namespace

int serve_as_agent(int lifeline) { return agent(lifeline).run(); }

}  // namespace penrun
