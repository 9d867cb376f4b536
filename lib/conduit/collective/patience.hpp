// How long a process that leaves waits for the others: for the exit limit, and up to five times as
// long while messages still arrive, here or at another process that leaves. On a busy host, earlier
// messages may need longer than the limit to be handled; but a process to which others send without
// end leaves all the same. departure.cpp uses it, and so does lib/gasnet/leave.cpp, whose timer
// asks in a signal handler.
//
// It also has the time that a wait has lasted as far as the waiting process saw it. On a host that
// runs ten programs on each core, a process looks a few times a second, and so does the one that it
// waits for: silence between two looks that are far apart says nothing.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace penstock::conduit {

class patience {
 public:
  /// Notes that a message has come. Any thread.
  void heard_at(std::uint64_t now_ns) noexcept { heard_.store(now_ns, std::memory_order_relaxed); }
  /// True if the process shall wait no longer. Any thread or signal handler may ask.
  [[nodiscard]] bool over(std::uint64_t begin_ns, std::uint64_t limit_ns,
                          std::uint64_t now_ns) const noexcept {
    return now_ns - begin_ns > limit_ns && silent(begin_ns, limit_ns, now_ns);
  }
  /// The same without the limit: no message has come for half the limit, or five limits are over.
  [[nodiscard]] bool silent(std::uint64_t begin_ns, std::uint64_t limit_ns,
                            std::uint64_t now_ns) const noexcept {
    // relaxed: nothing else is read because of it. Another thread's moment may be later than now.
    const std::uint64_t heard = heard_.load(std::memory_order_relaxed);
    return now_ns - begin_ns > most * limit_ns || heard + limit_ns / parts < now_ns;
  }

  static constexpr unsigned most = 5;   ///< limits that a process waits at most
  static constexpr unsigned parts = 2;  ///< silence for this part of the limit counts as an end

 private:
  std::atomic<std::uint64_t> heard_{0};
};

/// The time of a wait, of which no more than most_a_look_ns counts between two looks, or a fifth of
/// what has passed where that is more: every limit may last five times as long. Threads: any, and
/// signal handlers.
class watched_time {
 public:
  // A core's turn lasts 3 or 4 ms: two others on the same core change nothing.
  constexpr explicit watched_time(std::uint64_t most_a_look_ns = 10'000'000) noexcept
      : most_a_look_ns_(most_a_look_ns) {}
  /// Looks; the time watched so far, in ns.
  std::uint64_t look(std::uint64_t now_ns) noexcept {
    // relaxed: a sum of times, and nothing else. Another thread's look may be later than this one.
    const std::uint64_t last = last_.exchange(now_ns, std::memory_order_relaxed);
    const std::uint64_t passed = now_ns > last && last != 0 ? now_ns - last : 0;
    const std::uint64_t step = std::max(std::min(passed, most_a_look_ns_), passed / patience::most);
    return sum_.fetch_add(step, std::memory_order_relaxed) + step;
  }

 private:
  std::uint64_t most_a_look_ns_;
  std::atomic<std::uint64_t> last_{0}, sum_{0};
};

}  // namespace penstock::conduit
