// The calls of the C library by which threads wait, read clocks, or wake others, as the scheduler
// has them. The program's definitions stand before the C library's, for the library under test and
// for all shared libraries. A thread that is not scheduled gets the C library's own.
#include <link.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <vector>

#include "lib/base/descriptors.hpp"
#include "test/whole/interpose.hpp"
#include "test/whole/memory.hpp"
#include "test/whole/real.hpp"
#include "test/whole/scheduler.hpp"

using namespace penstock;

namespace penstock::whole {
namespace {

numbers* chance = nullptr;
int processors = 1;
thread_local char said[256] = "";
std::uint32_t rank_of_socket[1 << 16];  // one more; 0: it is no scheduled thread's

int note_socket(int fd) noexcept {
  if (fd >= 0 && static_cast<std::size_t>(fd) < std::size(rank_of_socket))
    rank_of_socket[fd] = rank() + 1;
  return fd;
}

// Memory of the process that is not one rank's: the static memory of the program and its libraries.
bool is_static(const void* at) noexcept {
  struct range {
    std::uintptr_t from, to;
  };
  static const std::vector<range> all = [] {
    const spared here;
    std::vector<range> r;
    ::dl_iterate_phdr(
        [](dl_phdr_info* of, std::size_t, void* to) {
          for (int i = 0; i < of->dlpi_phnum; ++i)
            if (const auto& h = of->dlpi_phdr[i]; h.p_type == PT_LOAD && (h.p_flags & PF_W) != 0)
              static_cast<std::vector<range>*>(to)->push_back(
                  {of->dlpi_addr + h.p_vaddr, of->dlpi_addr + h.p_vaddr + h.p_memsz});
          return 0;
        },
        &r);
    return r;
  }();
  const auto a = reinterpret_cast<std::uintptr_t>(at);
  return std::ranges::any_of(all, [a](const range& r) { return a >= r.from && a < r.to; });
}

std::uint64_t ns_of(const timespec& t) noexcept {
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000u +
         static_cast<std::uint64_t>(t.tv_nsec);
}
std::uint64_t deadline_ms(int ms) noexcept {
  return ms < 0 ? for_ever : virtual_ns() + static_cast<std::uint64_t>(ms) * 1'000'000u;
}

int poll_until(pollfd* fds, nfds_t n, std::uint64_t until) noexcept {
  for (;;) {
    const int r = n == 0 ? 0 : real::poll(fds, n, 0);
    if (r != 0 || virtual_ns() >= until) return r;
    sleep_for({fds, static_cast<std::uint32_t>(n)}, until);
  }
}

/// Abstract names of sockets get the process's number at their end: the random part of a name
/// comes from the seed, which other processes may run at the same time.
struct own_name {
  sockaddr_un at;
  socklen_t bytes;
  const sockaddr* of(const sockaddr* a, socklen_t n) noexcept {
    bytes = n;
    if (a == nullptr || a->sa_family != AF_UNIX || n <= sizeof(sa_family_t) + 1 ||
        n + 12 > sizeof at || reinterpret_cast<const sockaddr_un*>(a)->sun_path[0] != '\0')
      return a;
    at = {};
    std::memcpy(&at, a, n);
    char* const end = reinterpret_cast<char*>(&at) + n;
    bytes += static_cast<socklen_t>(std::snprintf(end, 12, "-%d", ::getpid()));
    return reinterpret_cast<const sockaddr*>(&at);
  }
};

template <class R>
R may_preempt_after(R r) noexcept {
  const int e = errno;
  may_preempt();
  errno = e;
  return r;
}

/// The C library's result, after which another thread's descriptor may be ready, unless it failed.
template <class R>
R changed(R r) noexcept {
  if (r < 0) return may_preempt_after(r);
  const int e = errno;
  descriptors_changed();
  errno = e;
  return r;
}

}  // namespace

void set_chance(std::uint64_t seed) noexcept { chance = new numbers(seed, "random bytes"); }
void set_processors(int n) noexcept { processors = n; }
void close_sockets_of(std::uint32_t of) noexcept {
  const keeps_turn here;
  for (std::size_t fd = 0; fd < std::size(rank_of_socket); ++fd)
    if (rank_of_socket[fd] == of + 1) close_kept(static_cast<int>(fd));
}
const char* last_line() noexcept { return said; }

}  // namespace penstock::whole

using namespace penstock::whole;

// Calls the C library's function from a thread that is not scheduled.
#define UNSCHEDULED(name, ...)                                   \
  static const auto libc = real::next<decltype(&::name)>(#name); \
  if (!is_scheduled()) [[unlikely]]                              \
  return libc(__VA_ARGS__)

extern "C" {

int pthread_create(pthread_t* t, const pthread_attr_t* a, void* (*run)(void*), void* argument) {
  UNSCHEDULED(pthread_create, t, a, run, argument);
  return start_thread(t, a, run, argument);
}
int pthread_join(pthread_t t, void** result) {
  UNSCHEDULED(pthread_join, t, result);
  return join_thread(t, result);
}

// The C library would let a second thread wait in the kernel.
int pthread_once(pthread_once_t* once, void (*run)()) {
  UNSCHEDULED(pthread_once, once, run);
  const keeps_turn here;
  return libc(once, run);
}

int pthread_mutex_trylock(pthread_mutex_t* m) {
  UNSCHEDULED(pthread_mutex_trylock, m);
  const int e = libc(m);
  if (e == 0 && is_static(m)) holds_shared(1);
  return e;
}
int pthread_mutex_lock(pthread_mutex_t* m) {
  UNSCHEDULED(pthread_mutex_lock, m);
  may_preempt();
  int e;
  while ((e = ::pthread_mutex_trylock(m)) == EBUSY) (void)sleep_at(m, for_ever);
  return e;
}
int pthread_mutex_unlock(pthread_mutex_t* m) {
  UNSCHEDULED(pthread_mutex_unlock, m);
  const int e = libc(m);
  if (e == 0 && is_static(m)) holds_shared(-1);
  (void)wake(m);
  return e;
}
int pthread_cond_wait(pthread_cond_t* c, pthread_mutex_t* m) {
  UNSCHEDULED(pthread_cond_wait, c, m);
  pthread_mutex_unlock(m);
  (void)sleep_at(c, for_ever);
  return pthread_mutex_lock(m);
}
int pthread_cond_timedwait(pthread_cond_t* c, pthread_mutex_t* m, const timespec* until) {
  UNSCHEDULED(pthread_cond_timedwait, c, m, until);
  pthread_mutex_unlock(m);
  const bool woken = sleep_at(c, ns_of(*until));
  const int e = pthread_mutex_lock(m);
  return e != 0 || woken ? e : ETIMEDOUT;
}
int pthread_cond_clockwait(pthread_cond_t* c, pthread_mutex_t* m, clockid_t clock,
                           const timespec* until) {
  UNSCHEDULED(pthread_cond_clockwait, c, m, clock, until);
  return pthread_cond_timedwait(c, m, until);
}
int pthread_cond_signal(pthread_cond_t* c) {
  UNSCHEDULED(pthread_cond_signal, c);
  (void)wake(c, 1);
  return 0;
}
int pthread_cond_broadcast(pthread_cond_t* c) {
  UNSCHEDULED(pthread_cond_broadcast, c);
  (void)wake(c);
  return 0;
}

long syscall(long number, ...) noexcept {
  long a[6];
  va_list list;
  va_start(list, number);
  for (long& x : a) x = va_arg(list, long);
  va_end(list);
  if (number == SYS_membarrier && a[0] != MEMBARRIER_CMD_QUERY)
    return 0;  // one thread of the kernel's runs all
  if (number != SYS_futex || !is_scheduled())
    return real::system_call(number, a[0], a[1], a[2], a[3], a[4], a[5]);
  const auto* word = reinterpret_cast<const int*>(a[0]);
  const int what = static_cast<int>(a[1]) & FUTEX_CMD_MASK;
  if (what == FUTEX_WAKE || what == FUTEX_WAKE_BITSET)
    return wake(word, static_cast<std::uint32_t>(a[2]));
  may_preempt();
  if (__atomic_load_n(word, __ATOMIC_ACQUIRE) != static_cast<int>(a[2])) return errno = EAGAIN, -1;
  std::uint64_t until = for_ever;
  if (a[3] != 0)
    until =
        ns_of(*reinterpret_cast<const timespec*>(a[3])) + (what == FUTEX_WAIT ? virtual_ns() : 0);
  return sleep_at(word, until) ? 0 : (errno = ETIMEDOUT, -1);
}

int sched_yield() noexcept {
  UNSCHEDULED(sched_yield);
  yield();
  return 0;
}
int nanosleep(const timespec* t, timespec* rest) {
  UNSCHEDULED(nanosleep, t, rest);
  (void)sleep_at(nullptr, virtual_ns() + ns_of(*t));
  return 0;
}
int clock_nanosleep(clockid_t clock, int flags, const timespec* t, timespec* rest) {
  UNSCHEDULED(clock_nanosleep, clock, flags, t, rest);
  (void)sleep_at(nullptr, ns_of(*t) + ((flags & TIMER_ABSTIME) != 0 ? 0 : virtual_ns()));
  return 0;
}
int clock_gettime(clockid_t clock, timespec* t) noexcept {
  UNSCHEDULED(clock_gettime, clock, t);
  const std::uint64_t now = virtual_ns();
  t->tv_sec = static_cast<time_t>(now / 1'000'000'000);
  t->tv_nsec = static_cast<long>(now % 1'000'000'000);
  return 0;
}
int get_nprocs() noexcept { return processors; }

int poll(pollfd* fds, nfds_t n, int timeout_ms) {
  UNSCHEDULED(poll, fds, n, timeout_ms);
  may_preempt();
  return poll_until(fds, n, deadline_ms(timeout_ms));
}
int ppoll(pollfd* fds, nfds_t n, const timespec* timeout, const sigset_t* mask) {
  UNSCHEDULED(ppoll, fds, n, timeout, mask);
  may_preempt();
  return poll_until(fds, n, timeout == nullptr ? for_ever : virtual_ns() + ns_of(*timeout));
}
int epoll_wait(int epoll, epoll_event* events, int most, int timeout_ms) {
  UNSCHEDULED(epoll_wait, epoll, events, most, timeout_ms);
  may_preempt();
  const std::uint64_t until = deadline_ms(timeout_ms);
  for (;;) {
    const int r = libc(epoll, events, most, 0);
    if (r != 0 || virtual_ns() >= until) return r;
    pollfd whole{epoll, POLLIN, 0};
    sleep_for({&whole, 1}, until);
  }
}

ssize_t write(int fd, const void* from, size_t n) {
  UNSCHEDULED(write, fd, from, n);
  if (fd == STDERR_FILENO)
    std::snprintf(said, sizeof said, "%.*s", static_cast<int>(n), static_cast<const char*>(from));
  return changed(libc(fd, from, n));
}
ssize_t read(int fd, void* into, size_t n) {
  UNSCHEDULED(read, fd, into, n);
  return changed(libc(fd, into, n));
}
ssize_t send(int fd, const void* from, size_t n, int flags) {
  UNSCHEDULED(send, fd, from, n, flags);
  return changed(libc(fd, from, n, flags));
}
ssize_t sendto(int fd, const void* from, size_t n, int flags, const sockaddr* to, socklen_t bytes) {
  UNSCHEDULED(sendto, fd, from, n, flags, to, bytes);
  own_name name;
  const sockaddr* const there = name.of(to, bytes);
  return changed(libc(fd, from, n, flags, there, name.bytes));
}
ssize_t sendmsg(int fd, const msghdr* m, int flags) {
  UNSCHEDULED(sendmsg, fd, m, flags);
  msghdr named = *m;
  own_name name;
  named.msg_name =
      const_cast<sockaddr*>(name.of(static_cast<const sockaddr*>(m->msg_name), m->msg_namelen));
  named.msg_namelen = name.bytes;
  return changed(libc(fd, &named, flags));
}
ssize_t recvmsg(int fd, msghdr* m, int flags) {
  UNSCHEDULED(recvmsg, fd, m, flags);
  return changed(libc(fd, m, flags));
}
int socket(int family, int type, int protocol) noexcept {
  UNSCHEDULED(socket, family, type, protocol);
  return note_socket(libc(family, type, protocol));
}
int bind(int fd, const sockaddr* at, socklen_t bytes) noexcept {
  UNSCHEDULED(bind, fd, at, bytes);
  own_name name;
  const sockaddr* const here = name.of(at, bytes);
  return libc(fd, here, name.bytes);
}
int connect(int fd, const sockaddr* to, socklen_t bytes) {
  UNSCHEDULED(connect, fd, to, bytes);
  own_name name;
  const sockaddr* const there = name.of(to, bytes);
  return changed(libc(fd, there, name.bytes));
}
int accept4(int fd, sockaddr* from, socklen_t* bytes, int flags) {
  UNSCHEDULED(accept4, fd, from, bytes, flags);
  return changed(note_socket(libc(fd, from, bytes, flags)));
}
int close(int fd) {
  UNSCHEDULED(close, fd);
  if (fd >= 0 && static_cast<std::size_t>(fd) < std::size(rank_of_socket)) rank_of_socket[fd] = 0;
  return changed(libc(fd));
}
int shutdown(int fd, int how) noexcept {
  UNSCHEDULED(shutdown, fd, how);
  return changed(libc(fd, how));
}

ssize_t getrandom(void* into, size_t n, unsigned flags) {
  UNSCHEDULED(getrandom, into, n, flags);
  auto* to = static_cast<unsigned char*>(into);
  for (size_t i = 0; i < n; ++i) to[i] = static_cast<unsigned char>(chance->next());
  return static_cast<ssize_t>(n);
}

}  // extern "C"
