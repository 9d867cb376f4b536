// See spawn.hpp.
#include "tools/penrun/spawn.hpp"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <new>
#include <vector>

#include "lib/base/descriptors.hpp"
#include "lib/base/shortage.hpp"
#include "tools/penrun/room.hpp"

namespace penrun {
namespace {

void keep_on_exec(int fd) { ::fcntl(fd, F_SETFD, 0); }

// In the child: never returns.
[[noreturn]] void become(const options& o, const std::string& program, const shared_ends& shared,
                         std::uint32_t rank, pid_t parent, int socket, int out, int err,
                         int report) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // It died before we asked for the signal. Where a sandbox refuses to tell, it lives.
  if (const pid_t now = ::getppid(); now > 0 && parent > 0 && now != parent) ::_exit(1);
  ::setpgid(0, 0);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int sig : {SIGPIPE, SIGXFSZ}) std::signal(sig, SIG_DFL);
  const int input =
      rank == 0 ? shared.input : penstock::above_stdio(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (input > 0) ::dup2(input, STDIN_FILENO);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(err, STDERR_FILENO);
  for (const int fd : {socket, shared.board, shared.bell}) keep_on_exec(fd);
  shared.places.bind(rank - shared.host_first);
  const penstock::job::launch_ticket ticket{
      socket,      shared.board,      shared.bell,      rank,
      o.processes, shared.host_first, shared.host_size, shared.name};
  std::vector<char*> argv;
  for (const auto& a : o.command) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  // Without these words the program would take itself for a job of one process.
  if (::setenv("PENSTOCK_LAUNCH", ticket.text().c_str(), 1) == 0 &&
      ::setenv("PENRUN_RANK", std::to_string(rank).c_str(), 1) == 0 &&
      ::setenv("PENRUN_SIZE", std::to_string(o.processes).c_str(), 1) == 0) {
    ::execv(program.c_str(), argv.data());
    // A script without #! is the shell's, as for execvp(3).
    if (errno == ENOEXEC && !is_for_a_machine(program)) ::execvp(program.c_str(), argv.data());
  }
  const int code = errno;
  [[maybe_unused]] const auto n = ::write(report, &code, sizeof code);
  ::_exit(127);
}

void close_all(std::initializer_list<int> fds) {
  for (const int fd : fds)
    if (fd >= 0) ::close(fd);
}

}  // namespace

penstock::job::board* shared_ends::make(std::uint32_t ranks) {
  using penstock::asked;
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;  // three descriptors a process
  ::setrlimit(RLIMIT_NOFILE, &files);
  const std::size_t bytes = penstock::job::board::bytes(ranks);
  // The pages are sealed against writing through any later mapping, so a process can only read it.
  board = penstock::opened("memfd_create",
                           ::memfd_create("penrun-board", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  bell = penstock::opened("eventfd", ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (board < 0 || bell < 0 ||
      asked("ftruncate", ::ftruncate(board, static_cast<off_t>(bytes))) != 0)
    return nullptr;
  void* at = asked("mmap", ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, board, 0));
  if (at == MAP_FAILED) return nullptr;
  auto* const page = new (at) penstock::job::board{};
  ::fcntl(board, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL);
  return page;
}

penstock::result<spawned> spawn(const options& o, const shared_ends& shared, std::uint32_t rank) {
  int socket[2] = {-1, -1}, out[2] = {-1, -1}, err[2] = {-1, -1}, report[2] = {-1, -1};
  const auto fail = [&](const char* what, int code) -> penstock::result<spawned> {
    close_all({socket[0], socket[1], out[0], out[1], err[0], err[1], report[0], report[1]});
    return penstock::failure{what, code, penstock::what_to_raise(code)};
  };
  const std::string program = program_path(o.command[0]);
  if (program.empty())
    return penstock::failure{"cannot run " + o.command[0], ENOENT,
                             "it is neither in PATH nor in this folder"};
  using penstock::opened;
  if (!opened("socketpair", ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, socket), socket) ||
      !opened("pipe2", ::pipe2(out, O_CLOEXEC), out) ||
      !opened("pipe2", ::pipe2(err, O_CLOEXEC), err) ||
      !opened("pipe2", ::pipe2(report, O_CLOEXEC), report))
    return fail("pipes of a process", errno);
  const pid_t parent = ::getpid();
  const pid_t pid = penstock::asked("clone", ::fork());
  if (pid < 0) return fail("fork", errno);
  if (pid == 0) become(o, program, shared, rank, parent, socket[1], out[1], err[1], report[1]);
  ::setpgid(pid, pid);  // parent and child both do this: signals reach the group from now on
  close_all({socket[1], out[1], err[1], report[1]});
  socket[1] = out[1] = err[1] = report[1] = -1;
  int code = 0;
  ssize_t n = 0;
  while ((n = ::read(report[0], &code, sizeof code)) < 0 && errno == EINTR) {
  }
  if (n > 0) {
    auto why = fail(("cannot run " + program).c_str(), code).error();
    if (std::string hint = why_not_run(program, code); !hint.empty()) why.hint = hint;
    return why;
  }
  ::close(report[0]);
  for (const int fd : {socket[0], out[0], err[0]}) ::fcntl(fd, F_SETFL, O_NONBLOCK);
  return spawned{pid, socket[0], out[0], err[0]};
}

}  // namespace penrun
