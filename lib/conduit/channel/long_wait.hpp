// What threads of this process wait for, so that people are told of waits that last: each wait of
// the library but a request's (report/waiting.hpp) names itself while it lasts, and nothing is
// counted or looked at by the clock before it has taken a thousand fruitless steps, or has given
// the core away sixteen times. Used by whoever waits; read by the reporter.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "lib/conduit/channel/waits.hpp"
#include "penstock/mode.hpp"
#include "penstock/penstock.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

class long_wait;

/// The innermost wait of this thread, or null.
extern thread_local constinit long_wait* innermost_wait __attribute__((tls_model("initial-exec")));

/// Those of an engine that have taken long. Any thread.
class long_waits {
 public:
  struct entry {
    wait_for what{};
    rank_id peer = 0;
    std::uint64_t since_ns = 0;  ///< when it was first noticed; no two of a thread have the same
  };
  /// From here on that event descriptor is written to when a wait has lasted a second; -1: none.
  void ring_at(int bell) noexcept { bell_.store(bell, std::memory_order_relaxed); }
  [[nodiscard]] std::vector<entry> read() const;

 private:
  friend class long_wait;
  mutable std::mutex lock_;
  long_wait* first_ = nullptr;  // under lock_
  std::atomic<int> bell_{-1};
};

/// From its making to its end this thread waits; as a local variable only.
class long_wait {
 public:
  static constexpr rank_id anybody = ~rank_id{0};
  /// peer: who is waited for, if that is one rank.
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

  /// Nothing has come. Every step of the engine's waits says so; other loops do it themselves.
  /// yields: the step gives the core away, which takes milliseconds where many share it.
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
