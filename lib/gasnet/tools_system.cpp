// The calls of gasnet_tools.h that concern the system: processors, memory, limits, signals,
// streams, the end of the process.
#include <gasnet_tools.h>

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <string>

#include "lib/base/assert.hpp"

namespace {

pthread_rwlock_t* native(gasnett_rwlock_t* lock) {
  return reinterpret_cast<pthread_rwlock_t*>(lock);
}

}  // namespace

// gasnet_tools.h keeps room for a pthread_rwlock_t that it cannot name.
static_assert(sizeof(gasnett_rwlock_t) >= sizeof(pthread_rwlock_t));
static_assert(alignof(gasnett_rwlock_t) >= alignof(pthread_rwlock_t));

extern "C" {

void gasneti_check_pthread(int error, const char* call) {
  if (error != 0) [[unlikely]]
    gasnett_fatalerror("%s: %s", call, std::strerror(error));
}
void gasnett_rwlock_init(gasnett_rwlock_t* lock) {
  GASNETI_PTHREAD(pthread_rwlock_init(native(lock), nullptr));
}
void gasnett_rwlock_destroy(gasnett_rwlock_t* lock) {
  GASNETI_PTHREAD(pthread_rwlock_destroy(native(lock)));
}
void gasnett_rwlock_rdlock(gasnett_rwlock_t* lock) {
  GASNETI_PTHREAD(pthread_rwlock_rdlock(native(lock)));
}
void gasnett_rwlock_wrlock(gasnett_rwlock_t* lock) {
  GASNETI_PTHREAD(pthread_rwlock_wrlock(native(lock)));
}
int gasnett_rwlock_tryrdlock(gasnett_rwlock_t* lock) {
  return pthread_rwlock_tryrdlock(native(lock));
}
int gasnett_rwlock_trywrlock(gasnett_rwlock_t* lock) {
  return pthread_rwlock_trywrlock(native(lock));
}
void gasnett_rwlock_unlock(gasnett_rwlock_t* lock) {
  GASNETI_PTHREAD(pthread_rwlock_unlock(native(lock)));
}

int gasnett_cpu_count(void) {
  const long n = sysconf(_SC_NPROCESSORS_ONLN);
  return n > 0 ? static_cast<int>(n) : 0;
}

int gasnett_set_affinity(int rank) {
  // The number counts CPUs that were allowed at the first call, so that one thread's pinning does
  // not reduce the choice of the next.
  static const cpu_set_t allowed = [] {
    cpu_set_t s;
    if (sched_getaffinity(0, sizeof s, &s) != 0) CPU_ZERO(&s);
    return s;
  }();
  const int n = CPU_COUNT(&allowed);
  if (n == 0) return -1;
  int skip = ((rank % n) + n) % n;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed) || skip-- > 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    if (sched_setaffinity(0, sizeof one, &one) == 0) return 0;
    std::fprintf(stderr, "gasnett_set_affinity: cannot pin to CPU %d: %s\n", cpu,
                 std::strerror(errno));
    break;
  }
  return -1;
}

const char* gasnett_exe_name(void) {
  static const std::string name = [] {
    char path[PATH_MAX];
    const ssize_t n = readlink("/proc/self/exe", path, sizeof path);
    return n > 0 ? std::string(path, static_cast<std::size_t>(n)) : std::string();
  }();
  return name.c_str();
}

uint64_t gasnett_getPhysMemSz(int failure_is_fatal) {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page = sysconf(_SC_PAGESIZE);
  if (pages > 0 && page > 0) return static_cast<uint64_t>(pages) * static_cast<uint64_t>(page);
  if (failure_is_fatal) gasnett_fatalerror("the size of the physical memory is unknown");
  return 0;
}

const char* gasnett_gethostname(void) {
  static const struct name {
    char text[256] = "";
    name() {
      if (::gethostname(text, sizeof text - 1) != 0) std::strcpy(text, "unknown");
    }
  } host;
  return host.text;
}

void gasnett_sched_yield(void) { ::sched_yield(); }

int gasnett_maximize_rlimit(int res, const char* name) {
  rlimit limit;
  const auto which = static_cast<__rlimit_resource>(res);
  if (getrlimit(which, &limit) != 0) {
    std::fprintf(stderr, "cannot read the limit %s: %s\n", name, std::strerror(errno));
    return 0;
  }
  limit.rlim_cur = limit.rlim_max;
  return setrlimit(which, &limit) == 0;
}
int gasnett_maximize_rlimits(void) {
  int all = 1;
  all &= gasnett_maximize_rlimit(RLIMIT_DATA, "RLIMIT_DATA");
  all &= gasnett_maximize_rlimit(RLIMIT_AS, "RLIMIT_AS");
  all &= gasnett_maximize_rlimit(RLIMIT_STACK, "RLIMIT_STACK");
  all &= gasnett_maximize_rlimit(RLIMIT_RSS, "RLIMIT_RSS");
  return all;
}

int gasnett_isLittleEndian(void) { return std::endian::native == std::endian::little; }

void* gasnett_mmap(uintptr_t bytes) {
  return ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                -1, 0);
}

void gasnett_flush_streams(void) {
  std::fflush(nullptr);
  // Pipes and terminals refuse fsync(), which does no harm.
  fsync(STDOUT_FILENO);
  fsync(STDERR_FILENO);
}
void gasnett_close_streams(void) {
  gasnett_flush_streams();
  std::fclose(stdin);
  std::fclose(stdout);
  std::fclose(stderr);
}

gasnett_sighandlerfn_t gasnett_reghandler(int sig, gasnett_sighandlerfn_t handler) {
  struct sigaction now {};
  struct sigaction before {};
  now.sa_handler = handler;
  now.sa_flags = SA_RESTART;
  sigemptyset(&now.sa_mask);
  if (sigaction(sig, &now, &before) != 0)
    gasnett_fatalerror("cannot handle signal %d: %s", sig, std::strerror(errno));
  return before.sa_handler;
}

void gasnett_killmyprocess(int exitcode) { ::_exit(exitcode); }

void gasnett_fatalerror(const char* format, ...) {
  char text[1024];
  va_list ap;
  va_start(ap, format);
  std::vsnprintf(text, sizeof text, format, ap);
  va_end(ap);
  std::fflush(stdout);
  std::fprintf(stderr, "*** FATAL ERROR: %s\n", text);
  std::fflush(stderr);
  gasnett_freezeForDebuggerErr();
  gasnett_print_backtrace_ifenabled(STDERR_FILENO);
  std::abort();
}

const char* gasnett_performance_warning_str(void) {
  return penstock::assertions ? "        debugging (assertions are checked)\n" : "";
}
uint64_t gasnett_release_version(void) {
  return GASNETT_RELEASE_VERSION_MAJOR * uint64_t{1000000} +
         GASNETT_RELEASE_VERSION_MINOR * uint64_t{10000} + GASNETT_RELEASE_VERSION_PATCH;
}
const char* gasnett_release_version_str(void) {
  return _STRINGIFY(GASNETT_RELEASE_VERSION_MAJOR) "." _STRINGIFY(
      GASNETT_RELEASE_VERSION_MINOR) "." _STRINGIFY(GASNETT_RELEASE_VERSION_PATCH);
}

}  // extern "C"
