// For a thread that sleeps, and has little to do when it is woken, but must do it soon: it asks the
// kernel for short slices of the processor, and then runs ahead of threads that compute in long
// ones. Its share of the processor stays the same. Linux does so from 6.12 on; older kernels ignore
// or refuse the call, which does no harm.
#pragma once

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace penstock {

/// Asks for the calling thread, by two system calls, which may be refused.
inline void ask_for_short_slices() noexcept {
#ifdef SYS_sched_setattr
  // struct sched_attr, which not every libc declares, of the policy SCHED_OTHER.
  struct {
    std::uint32_t size = 48, policy = 0;
    std::uint64_t flags = 0;
    std::int32_t nice = 0;
    std::uint32_t priority = 0;
    std::uint64_t runtime_ns = 100'000, deadline_ns = 0, period_ns = 0;
  } want;
  static_assert(sizeof want == 48);
  want.nice = ::getpriority(PRIO_PROCESS, 0);  // as it is
  (void)::syscall(SYS_sched_setattr, 0, &want, 0);
#endif
}

}  // namespace penstock
