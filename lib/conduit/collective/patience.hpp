// How long whoever leaves waits for the others: for the exit limit, and while messages still arrive
// for five times as long. On a busy host what was sent before may need longer than the limit to be
// handled; who is sent to without end leaves all the same. Used by departure.cpp, and by
// lib/gasnet/leave.cpp, whose timer asks from a signal's handler.
#pragma once

#include <atomic>
#include <cstdint>

namespace penstock::conduit {

class patience {
 public:
  /// A message has come. Any thread.
  void heard_at(std::uint64_t now_ns) noexcept { heard_.store(now_ns, std::memory_order_relaxed); }
  /// True if it is not worth waiting any longer. Any thread; a signal's handler may ask.
  [[nodiscard]] bool over(std::uint64_t begin_ns, std::uint64_t limit_ns,
                          std::uint64_t now_ns) const noexcept {
    return now_ns - begin_ns > limit_ns && silent(begin_ns, limit_ns, now_ns);
  }
  /// The same without the limit: nothing has come for a part of it, or it has been over for long.
  [[nodiscard]] bool silent(std::uint64_t begin_ns, std::uint64_t limit_ns,
                            std::uint64_t now_ns) const noexcept {
    // relaxed: a moment, and nothing else. Another thread's may be later than now.
    const std::uint64_t heard = heard_.load(std::memory_order_relaxed);
    return now_ns - begin_ns > most * limit_ns || heard + limit_ns / parts < now_ns;
  }

  static constexpr unsigned most = 5;   ///< so many limits at most
  static constexpr unsigned parts = 2;  ///< silence for this part of the limit counts as an end

 private:
  std::atomic<std::uint64_t> heard_{0};
};

}  // namespace penstock::conduit
