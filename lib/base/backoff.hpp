// How a waiting loop behaves: spin a little, then yield the core, since processes may outnumber
// cores.
#pragma once

#include <sched.h>

#include <cstdint>

namespace penstock {

inline void cpu_relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// One object per wait. Call idle() each time a poll found nothing, reset() when it found
/// something.
class backoff {
 public:
  /// spins: the number of empty polls before the core is yielded; 0 where processes outnumber
  /// cores.
  explicit backoff(std::uint32_t spins) noexcept : spins_(spins) {}
  void idle() noexcept {
    if (++empty_ > spins_) sched_yield();
  }
  void reset() noexcept { empty_ = 0; }

 private:
  std::uint32_t spins_;
  std::uint32_t empty_ = 0;
};

}  // namespace penstock
