// A sandbox refuses one system call to a whole job, with EPERM or with ENOSYS: the job runs, or
// ends in time with a line that names the call. Each call that the job makes is tried, in turn;
// which ones these are is found by running the job once under a filter that tells this program of
// every call.
//   refusals [--likely] COMMAND...     COMMAND ends with code 0; --likely: only calls that
//   sandboxes do refuse
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "test/faults/trials.hpp"
#include "test/job/run.hpp"

namespace {

// What a line may call it.
struct call {
  long number;
  const char* name;
  bool likely;     // container profiles and older kernels refuse it
  bool necessary;  // without it no program of the C library starts, prints or ends: the job only
                   // has to end
};
#define LIKELY(n) {SYS_##n, #n, true, false},
#define CALL(n) {SYS_##n, #n, false, false},
#define NEEDED(n) {SYS_##n, #n, false, true},
const call calls[] = {
    LIKELY(signalfd4) LIKELY(memfd_create) LIKELY(eventfd2) LIKELY(epoll_create1) LIKELY(fallocate)
        LIKELY(madvise) LIKELY(membarrier) LIKELY(pidfd_open) LIKELY(accept4) LIKELY(prctl) LIKELY(
            sched_setattr) LIKELY(process_vm_readv) LIKELY(process_vm_writev) LIKELY(userfaultfd)
            LIKELY(mbind) LIKELY(get_mempolicy) LIKELY(getrandom) LIKELY(clone3) LIKELY(
                rseq) LIKELY(prlimit64) LIKELY(sched_getaffinity) LIKELY(mincore) LIKELY(socketpair)
                CALL(sched_yield) CALL(clock_nanosleep) CALL(fcntl) CALL(poll) CALL(
                    rt_sigprocmask) CALL(recvfrom) CALL(rt_sigaction) CALL(recvmsg) CALL(sendto)
                    CALL(geteuid) CALL(epoll_wait) CALL(sendmsg) CALL(epoll_ctl) CALL(lseek) CALL(
                        ppoll) CALL(wait4) NEEDED(pread64) CALL(ftruncate) CALL(bind) CALL(pipe2)
                        CALL(setpgid) CALL(readlink) CALL(getpid) CALL(dup2) CALL(setsockopt) CALL(
                            listen) CALL(getsockopt) CALL(getpriority) CALL(getdents64) CALL(clone)
                            CALL(access) CALL(uname) CALL(setitimer) CALL(getuid) CALL(getppid)
                                CALL(connect) CALL(ioctl) CALL(gettid) CALL(tgkill) CALL(kill) CALL(
                                    getcwd) CALL(sysinfo) CALL(nanosleep) CALL(clock_gettime)
                                    CALL(clock_getres) CALL(shutdown) CALL(socket) CALL(
                                        pwrite64) NEEDED(munmap) CALL(unlink)
                                        CALL(rename) CALL(setrlimit) CALL(getrlimit) CALL(
                                            statfs) CALL(sigaltstack) CALL(getegid) CALL(getgid)
                                            CALL(preadv2) CALL(sched_setaffinity) CALL(umask) CALL(
                                                restart_syscall) CALL(waitid) CALL(getsid)
                                                CALL(getpgid) CALL(mlock) CALL(dup) CALL(
                                                    mremap) CALL(fstatfs) CALL(chdir)
                                                    CALL(timer_create) CALL(timer_settime) CALL(statx) CALL(
                                                        readlinkat) CALL(faccessat) CALL(faccessat2)
                                                        CALL(close_range) CALL(fstat) CALL(stat) CALL(
                                                            getsockname) CALL(timerfd_create)
                                                            CALL(timerfd_settime) NEEDED(
                                                                execve) NEEDED(read) NEEDED(openat)
                                                                NEEDED(close) NEEDED(
                                                                    newfstatat) NEEDED(mmap)
                                                                    NEEDED(write) NEEDED(
                                                                        mprotect) NEEDED(brk)
                                                                        NEEDED(set_robust_list) NEEDED(
                                                                            futex) NEEDED(exit_group)
                                                                            NEEDED(exit) NEEDED(
                                                                                set_tid_address)
                                                                                NEEDED(arch_prctl) NEEDED(
                                                                                    rt_sigreturn)
                                                                                    NEEDED(
                                                                                        rt_sigsuspend)};

void load(sock_filter* code, std::size_t n) {
  const sock_fprog program{static_cast<unsigned short>(n), code};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    std::perror("seccomp");
    _exit(99);
  }
}

[[noreturn]] void become(char** command) {
  ::execvp(command[0], command);
  std::perror(command[0]);
  _exit(98);
}

// --deny NUMBER ERRNO COMMAND...
[[noreturn]] void deny(char** words) {
  const auto number = static_cast<unsigned>(std::atol(words[0]));
  const auto code = static_cast<unsigned>(std::atoi(words[1]));
  sock_filter filter[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
                          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | code),
                          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  load(filter, std::size(filter));
  become(words + 2);
}

std::atomic<int>* told = nullptr;  // to the parent: the listener's descriptor + 1

int start_told(void* command) {
  sock_filter filter[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF)};
  const sock_fprog program{1, filter};
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  const long fd =
      ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
  told->store(fd < 0 ? -errno : static_cast<int>(fd) + 1, std::memory_order_release);
  if (fd < 0) _exit(99);
  become(static_cast<char**>(command));
}

// The numbers of all calls that the command and its descendants make.
std::set<long> calls_of(char** command) {
  told = static_cast<std::atomic<int>*>(
      ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  static char stack[1 << 16];
  // The descriptors are shared until the child becomes the command, so the listener is this
  // process's, too.
  const pid_t child = ::clone(start_told, stack + sizeof stack, CLONE_FILES | SIGCHLD, command);
  int listener = 0;
  while ((listener = told->load(std::memory_order_acquire)) == 0) ::usleep(100);
  if (child < 0 || listener < 0) {
    std::fprintf(stderr, "no filter: %s\n", std::strerror(child < 0 ? errno : -listener));
    std::exit(1);
  }
  --listener;
  std::set<long> seen;
  for (pollfd p{listener, POLLIN, 0}; ::poll(&p, 1, 60'000) > 0 && (p.revents & POLLHUP) == 0;) {
    seccomp_notif asks{};
    if (::ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &asks) != 0) continue;  // it was interrupted
    seen.insert(asks.data.nr);
    seccomp_notif_resp goes{};
    goes.id = asks.id;
    goes.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    (void)::ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &goes);
  }
  ::close(listener);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (status == 0) return seen;
  std::fprintf(stderr, "the job does not end with 0 where nothing is refused (status %d)\n",
               status);
  std::exit(1);
}

// Whether a text names the call: eventfd for eventfd2, fork for clone.
bool names(const std::string& text, std::string name) {
  if (name.starts_with("clone") &&
      (text.find("fork") != text.npos || text.find("clone") != text.npos))
    return true;
  if (text.find(name) != text.npos) return true;
  while (std::isdigit(static_cast<unsigned char>(name.back())) != 0) name.pop_back();
  return text.find(name) != text.npos;
}

struct trial {
  const call* what;
  int code;
};

// Empty if the trial ended well.
std::string verdict(const trial& t, const std::string& self, char** command) {
  std::vector<std::string> words{self, "--deny", std::to_string(t.what->number),
                                 std::to_string(t.code)};
  for (char** w = command; *w != nullptr; ++w) words.emplace_back(*w);
  const testing::outcome o = testing::run(words);
  const std::string said = o.err + o.out.substr(0, std::min<std::size_t>(o.out.size(), 2000));
  if (o.code < 0) return "hangs\n" + said;
  if (o.code == 0 || t.what->necessary) return "";
  if (!names(o.err, t.what->name))
    return "ends with code " + std::to_string(o.code) + " without its name\n" + said;
  return o.err.find("/dev/infiniband") == o.err.npos ? ""
                                                     : "is taken for a device's refusal\n" + said;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 4 && std::strcmp(argv[1], "--deny") == 0) deny(argv + 2);
  const bool likely = argc > 1 && std::strcmp(argv[1], "--likely") == 0;
  char** const command = argv + 1 + (likely ? 1 : 0);
  if (*command == nullptr) return 2;
  int failures = 0;
  std::vector<trial> trials;
  for (const long number : calls_of(command)) {
    const auto* const c = std::find_if(std::begin(calls), std::end(calls),
                                       [&](const call& k) { return k.number == number; });
    if (c == std::end(calls)) {
      std::printf("FAILED: the job makes system call %ld, which this test does not know\n", number);
      ++failures;
    } else if (c->number != SYS_execve && c->number != SYS_rt_sigreturn && c->number != SYS_exit &&
               (c->likely || !likely)) {  // a thread's exit is tried for ever, by the C library
      for (const int code : {EPERM, ENOSYS}) trials.push_back({c, code});
    }
  }
  failures += testing::run_trials(
      trials.size(),
      [&](std::size_t i) {
        return std::string(trials[i].what->name) + " refused with " +
               (trials[i].code == EPERM ? "EPERM" : "ENOSYS");
      },
      [&](std::size_t i) { return verdict(trials[i], argv[0], command); });
  return failures == 0 ? 0 : 1;
}
