// A counter that many threads move forward, and a function that has to run once for each number it
// passes, in order. It is for completions that cover all earlier ones; any thread may report them,
// the later ones first.
//
//   seen_: the highest number reported     done_: all up to it are finished     busy_: by whom
//
// Who with whom: any threads. Invariant: finish(i) runs once for each i, in order, and done() never
// passes a number whose finish has not returned. No thread waits: one that finds another at
// work leaves its report to that one, which looks at seen_ again after it has left busy_. A
// thread that stalls inside finish holds up done(), and nothing else.
// Cost: two RMWs for a report; none in SEQ and PARSYNC.
#pragma once

#include <atomic>
#include <cstdint>

#include "lib/base/mode.hpp"

namespace penstock::queues {

template <thread_mode M, template <class> class Atomic = std::atomic>
class in_order {
 public:
  /// To be called before the first report: all numbers up to this one count as finished.
  void start_after(std::uint64_t number) noexcept {
    // relaxed: set up before the threads that report
    seen_.store(number, std::memory_order_relaxed);
    done_.store(number, std::memory_order_relaxed);
  }

  /// All numbers up to this one are finished. What finish wrote is visible.
  [[nodiscard]] std::uint64_t done() const noexcept {
    // A1 done  acquire done_  <- R1
    return done_.load(std::memory_order_acquire);
  }

  /// Reports that `number` and all numbers before it may be finished.
  template <class Finish>
  void report(std::uint64_t number, Finish&& finish) noexcept {
    if constexpr (!concurrent(M)) {
      finish_up_to(number, finish);
      return;
    }
    std::uint64_t seen = seen_.load(std::memory_order_relaxed);
    do {
      if (number <= seen) return;
      // R2 seen  release seen_  -> A2
    } while (!seen_.compare_exchange_weak(seen, number, std::memory_order_release,
                                          std::memory_order_relaxed));
    // S1 seen  seq_cst seen_ read as it was just written, then busy_  <-> S2: its holder sees the
    // number, or we see it gone
    while (done_.load(std::memory_order_relaxed) != seen_.load(std::memory_order_seq_cst)) {
      if (busy_.exchange(1, std::memory_order_seq_cst) != 0) return;
      // A2 seen  acquire seen_  <- R2: what its reporter knew of the work is visible
      finish_up_to(seen_.load(std::memory_order_acquire), finish);
      // S2 gone  seq_cst busy_, then seen_  <-> S1
      busy_.store(0, std::memory_order_seq_cst);
    }
  }

 private:
  template <class Finish>
  void finish_up_to(std::uint64_t number, Finish&& finish) noexcept {
    std::uint64_t i = done_.load(std::memory_order_relaxed);
    while (number > i) {
      finish(++i);
      // R1 done  release done_  -> A1
      done_.store(i, std::memory_order_release);
    }
  }

  Atomic<std::uint64_t> seen_{0}, done_{0};
  Atomic<std::uint32_t> busy_{0};
};

}  // namespace penstock::queues
