// How the benchmarks' bare loops wait. They spin, since nothing else may happen in a measured loop;
// after many empty looks they yield the core (processes may outnumber cores); and in the end they
// give up, so that a lost peer never leaves a hung job.
#pragma once

#include <sched.h>

#include <cstdint>

#include "lib/base/clock.hpp"
#include "lib/base/log.hpp"

namespace penstock::perf {

/// One object per wait. Call idle() each time a look found nothing. Its members stay in registers:
/// that is why the cold part takes and returns values.
class patience {
 public:
  /// for_what: names the wait in the message when limit_ns have passed in vain.
  explicit patience(const char* for_what, std::uint64_t limit_ns = 60'000'000'000) noexcept
      : for_what_(for_what), limit_ns_(limit_ns) {}

  void idle() noexcept {
    if (++empty_ < spins) [[likely]]
      return;
    since_ = tire_slow(for_what_, limit_ns_, since_);
    empty_ = spins - 8;  // from here on the core is yielded at every eighth look
  }

 private:
  static constexpr std::uint32_t spins = 50'000;

  /// Yields the core; returns when that was first done, in ns.
  [[gnu::noinline]] static std::uint64_t tire_slow(const char* for_what, std::uint64_t limit_ns,
                                                   std::uint64_t since) noexcept {
    sched_yield();
    const std::uint64_t now = now_ns();
    if (since == 0) return now;
    if (now - since > limit_ns)
      fatal(70, "no %s for %llu s", for_what,
            static_cast<unsigned long long>(limit_ns / 1'000'000'000));
    return since;
  }

  const char* for_what_;
  std::uint64_t limit_ns_;
  std::uint64_t since_ = 0;
  std::uint32_t empty_ = 0;
};

}  // namespace penstock::perf
