// What threads of this process wait for, so that the user is told of waits that last. Each wait of
// the library but a request's (report/waiting.hpp) names itself while it lasts. It reads no clock
// before it has taken 1,024 fruitless steps, or has yielded the core sixteen times. Code that waits
// uses it; the reporter reads it.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "lib/conduit/peer/waits.hpp"
#include "penstock/mode.hpp"
#include "penstock/penstock.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

class long_wait;

/// The innermost wait of this thread, or null.
extern thread_local constinit long_wait* innermost_wait __attribute__((tls_model("initial-exec")));

/// When waits of this thread that heed it end (time_limit), in now_ns(); 0: never.
extern thread_local constinit std::uint64_t wait_limit_ns
    __attribute__((tls_model("initial-exec")));

/// While it lives, no limit ends this thread's waits.
class no_limit {
 public:
  no_limit() noexcept : outer_(std::exchange(wait_limit_ns, 0)) {}
  ~no_limit() { wait_limit_ns = outer_; }
  no_limit(const no_limit&) = delete;
  no_limit& operator=(const no_limit&) = delete;

 private:
  const std::uint64_t outer_;
};

/// The waits of an engine that have taken long. Any thread.
class long_waits {
 public:
  struct entry {
    wait_for what{};
    rank_id peer = 0;
    std::uint64_t since_ns = 0;  ///< when it was listed; no two waits of a thread have the same
  };
  /// Sets the event descriptor that is written to when a wait has lasted a second; -1: none.
  void ring_at(int bell) noexcept { bell_.store(bell, std::memory_order_relaxed); }
  [[nodiscard]] std::vector<entry> read() const;

 private:
  friend class long_wait;
  mutable std::mutex lock_;
  long_wait* first_ = nullptr;  // under lock_
  std::atomic<int> bell_{-1};
};

/// A wait of this thread, which lasts as long as the object lives; a local variable only.
class long_wait {
 public:
  static constexpr rank_id anybody = ~rank_id{0};
  /// peer: the rank that is waited for, if it is a single one.
  long_wait(long_waits& all, wait_for what, rank_id peer = anybody) noexcept
      : all_(all), what_(what), peer_(peer), outer_(innermost_wait) {
    innermost_wait = this;
  }
  ~long_wait() {
    innermost_wait = outer_;
    if (since_ns_ != 0) [[unlikely]]
      forget();
  }
  long_wait(const long_wait&) = delete;
  long_wait& operator=(const long_wait&) = delete;

  /// Called after a step of the wait that brought nothing: the engine's steps call it, and other
  /// loops call it themselves. yields: the step yields the core, which takes milliseconds where
  /// many processes share it.
  void step(bool yields = true) noexcept {
    steps_ += yields ? yield_weight : 1;
    if (steps_ >= steps_a_look) [[unlikely]]
      look();
  }

 private:
  friend class long_waits;
  static constexpr unsigned steps_a_look = 1024, yield_weight = 64;
  [[gnu::cold]] void look() noexcept;
  [[gnu::cold]] void forget() noexcept;

  long_waits& all_;
  const wait_for what_;
  const rank_id peer_;
  long_wait* const outer_;
  unsigned steps_ = 0;
  bool told_ = false;
  std::uint64_t since_ns_ = 0;  // 0: it is not in the list
  long_wait* next_ = nullptr;   // under the list's lock
};

}  // namespace penstock::conduit::PENSTOCK_ABI
