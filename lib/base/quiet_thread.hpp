// Starts threads of the library's own. They take no signals, which are for the program's threads,
// but for those that a thread's own fault raises.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include "lib/base/descriptors.hpp"

namespace penstock {

/// The least size of such a thread's stack; 0: the system's usual one (the setting THREAD_STACK).
inline std::atomic<std::size_t> quiet_stack_bytes{0};

/// Threads that are started while one of these lives have stacks of at least quiet_stack_bytes.
class larger_stacks {
 public:
  larger_stacks() noexcept {
    const std::size_t least = quiet_stack_bytes.load(std::memory_order_relaxed);
    if (least == 0 || pthread_getattr_default_np(&before_) != 0) return;
    std::size_t usual = 0;
    pthread_attr_getstacksize(&before_, &usual);
    pthread_attr_t larger = before_;
    changed_ = usual < least && pthread_attr_setstacksize(&larger, least) == 0 &&
               pthread_setattr_default_np(&larger) == 0;
    if (!changed_) pthread_attr_destroy(&before_);
  }
  larger_stacks(const larger_stacks&) = delete;
  larger_stacks& operator=(const larger_stacks&) = delete;
  ~larger_stacks() {
    if (!changed_) return;
    pthread_setattr_default_np(&before_);
    pthread_attr_destroy(&before_);
  }

 private:
  pthread_attr_t before_{};
  bool changed_ = false;
};

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
    const larger_stacks at_least;
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
