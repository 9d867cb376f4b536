// Starts threads of the library's own. They take no signals, which are for the program's threads,
// but for those that a thread's own fault raises.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <cerrno>
#include <cstddef>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include "lib/base/descriptors.hpp"

namespace penstock {

/// Starts `run` on `into`. Returns 0, or the errno with which the kernel refused; `into` is no
/// thread then. name: what debuggers and ps show, "penstock-" and up to six letters.
template <std::size_t N, class Run>
int start_quiet_thread(std::thread& into, const char (&name)[N], Run&& run) {
  static_assert(N <= 16, "the kernel keeps 15 letters");
  sigset_t blocked, before;
  sigfillset(&blocked);
  for (const int s : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) sigdelset(&blocked, s);
  pthread_sigmask(SIG_SETMASK, &blocked, &before);
  int refused = 0;
  try {
    into = std::thread(std::forward<Run>(run));
    pthread_setname_np(into.native_handle(), name);
  } catch (const std::system_error& e) {
    errno = refused = e.code().value();
    (void)asked("clone", -1);
  } catch (const std::bad_alloc&) {
    refused = ENOMEM;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return refused;
}

}  // namespace penstock
