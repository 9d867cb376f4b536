// Which threads of the client call the library: in SEQ one thread only, in PARSYNC one at a time.
// Calls that wait, or take a longer way anyhow, ask it, and with the setting CHECKS all calls do. A
// second thread would spoil queues and credits, and the fault would show at a peer.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>

#include "lib/base/build_mode.hpp"
#include "lib/conduit/peer/long_wait.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

class callers {
 public:
  /// In SEQ, the calling thread is the one from here on.
  void begin() noexcept;
  /// Any thread may call from here on: the process leaves.
  void end() noexcept {
    // relaxed, here and below: a hint, by which a mistake is found sooner or later
    thread_.store(0, std::memory_order_relaxed);
    over_.store(true, std::memory_order_relaxed);
  }
  /// Ends the job if this thread may not call now.
  void look() const noexcept {
    if constexpr (concurrent(build_mode)) return;
    const std::uintptr_t only = thread_.load(std::memory_order_relaxed);
    if (only != 0 && only != me()) [[unlikely]]
      refuse();
  }
  /// While it lives, this thread is in a step of a wait: no other may call meanwhile in PARSYNC.
  class waiting {
   public:
    explicit waiting(callers& of) noexcept : of_(of) {
      of.look();
      if (build_mode == thread_mode::parsync && !of.over_.load(std::memory_order_relaxed))
        of.take();
    }
    ~waiting() {
      if constexpr (build_mode == thread_mode::parsync)
        of_.thread_.store(0, std::memory_order_relaxed);
    }
    waiting(const waiting&) = delete;
    waiting& operator=(const waiting&) = delete;

   private:
    callers& of_;
  };

 private:
  // What differs between threads, and costs an instruction.
  static std::uintptr_t me() noexcept { return reinterpret_cast<std::uintptr_t>(&innermost_wait); }
  void take() noexcept;
  [[noreturn, gnu::cold]] void refuse() const noexcept;

  std::atomic<std::uintptr_t> thread_{0};  // 0: any
  std::atomic<bool> over_{false};
  std::atomic<pid_t> number_{0};  // of that thread, for the line
};

}  // namespace penstock::conduit::PENSTOCK_ABI
