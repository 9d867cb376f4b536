// The C library's own functions, behind those that interpose.cpp defines in their place.
#pragma once

#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <sys/syscall.h>

#include <cstddef>
#include <cstdlib>

namespace penstock::whole::real {

/// The next definition of a function after the program's own. Lookup happens once a function.
template <class F>
F next(const char* name) noexcept {
  return reinterpret_cast<F>(::dlsym(RTLD_NEXT, name));
}

// The call itself, since syscall() is interposed, too.
inline long system_call(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0,
                        long f = 0) noexcept {
  using call = long (*)(long, ...);
  static const call libc = next<call>("syscall");
  return libc(number, a, b, c, d, e, f);
}

inline int poll(pollfd* fds, std::size_t n, int timeout_ms) noexcept {
  static const auto libc = next<int (*)(pollfd*, nfds_t, int)>("poll");
  return libc(fds, n, timeout_ms);
}

inline int pthread_create(pthread_t* t, const pthread_attr_t* a, void* (*run)(void*),
                          void* argument) noexcept {
  static const auto libc =
      next<int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*)>("pthread_create");
  return libc(t, a, run, argument);
}

inline int pthread_join(pthread_t t, void** result) noexcept {
  static const auto libc = next<int (*)(pthread_t, void**)>("pthread_join");
  return libc(t, result);
}

}  // namespace penstock::whole::real
