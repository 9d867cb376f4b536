// Drives a few pieces of concurrent code through their interleavings, one atomic operation at a
// time. For tests of lock-free types: instantiate the type with model::scheduled as its Atomic,
// write each thread as a function, and let explore() run every interleaving, or sample() random
// ones by seed.
//
//   model::report r = model::explore([] {
//     auto s = std::make_shared<my_type<thread_mode::par, model::scheduled>>();
//     return model::trial{{[s] { s->push(1); }, [s] { s->pop(); }},     // the threads
//                         [s] { return s->consistent(); },              // holds after every step
//                         [s] { return s->balanced(); }};               // holds at the end
//   });
//   CHECK_MESSAGE(r.ok(), r.text());
//
// What it does not do: weaker memory orders. Operations take effect one after the other; that the
// written orders suffice is argued in the code, and TSan runs the rest. Threads must not wait for
// each other (every loop ends by itself), and must touch shared memory by scheduled atomics only.
// explore() prunes by sleep sets: of interleavings that differ only in the order of operations that
// do not touch the same word it runs one. Where an invariant is checked after every step, two
// writes always count as touching the same word, since the invariant may relate both. All threads
// are fibers of the calling thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace penstock::model {

/// One run's threads, and what must hold. Built anew for each run: capture the state by shared_ptr.
struct trial {
  std::vector<std::function<void()>> threads;
  std::function<bool()> always = nullptr;   ///< after every step; may be null
  std::function<bool()> finally = nullptr;  ///< when all threads have ended; may be null
};
using trial_maker = std::function<trial()>;

struct report {
  std::uint64_t runs = 0;     ///< interleavings that were run to their end and checked
  std::uint64_t pruned = 0;   ///< begun, but equal to one already run
  std::uint64_t steps = 0;    ///< atomic operations in all of them
  bool complete = false;      ///< explore() only: there are no further interleavings
  std::uint64_t seed = 0;     ///< sample() only: of the run that failed
  std::string failure;        ///< what broke, empty if nothing
  std::vector<int> schedule;  ///< of the run that failed: whose step each was; see replay()
  [[nodiscard]] bool ok() const { return failure.empty(); }
  [[nodiscard]] std::string text() const;  ///< one line for a test's message
};

/// Runs all interleavings, at most most_runs. Stops at the first that fails.
report explore(const trial_maker& make, std::uint64_t most_runs = 1'000'000);
/// Runs `count` random interleavings; the i-th depends on seed + i alone.
report sample(const trial_maker& make, std::uint64_t seed, std::uint64_t count);
/// Runs the one interleaving that a failed report names.
report replay(const trial_maker& make, const std::vector<int>& schedule);
/// Within a thread: marks this run as failed. The run goes on to its end.
void fail(const std::string& why);

/// Called by scheduled atomics before each operation: gives the step to whoever is to have it.
void step(const void* address, bool writes) noexcept;

/// Stands in for std::atomic: every operation is one step of the schedule. Outside of a run it is a
/// plain variable.
template <class T>
class scheduled {
 public:
  constexpr scheduled(T v = T{}) noexcept : v_(v) {}  // NOLINT: as std::atomic
  scheduled(const scheduled&) = delete;
  scheduled& operator=(const scheduled&) = delete;

  T load(std::memory_order = std::memory_order_seq_cst) const noexcept {
    step(this, false);
    return v_;
  }
  void store(T x, std::memory_order = std::memory_order_seq_cst) noexcept {
    step(this, true);
    v_ = x;
  }
  T exchange(T x, std::memory_order = std::memory_order_seq_cst) noexcept {
    step(this, true);
    const T old = v_;
    v_ = x;
    return old;
  }
  T fetch_add(T x, std::memory_order = std::memory_order_seq_cst) noexcept {
    step(this, true);
    const T old = v_;
    v_ = static_cast<T>(old + x);
    return old;
  }
  T fetch_sub(T x, std::memory_order = std::memory_order_seq_cst) noexcept {
    step(this, true);
    const T old = v_;
    v_ = static_cast<T>(old - x);
    return old;
  }
  T fetch_or(T x, std::memory_order = std::memory_order_seq_cst) noexcept {
    step(this, true);
    const T old = v_;
    v_ = static_cast<T>(old | x);
    return old;
  }
  T fetch_and(T x, std::memory_order = std::memory_order_seq_cst) noexcept {
    step(this, true);
    const T old = v_;
    v_ = static_cast<T>(old & x);
    return old;
  }
  bool compare_exchange_strong(T& expected, T x, std::memory_order = std::memory_order_seq_cst,
                               std::memory_order = std::memory_order_seq_cst) noexcept {
    step(this, true);
    if (v_ != expected) {
      expected = v_;
      return false;
    }
    v_ = x;
    return true;
  }
  /// Never fails without cause: a run would not be reproducible otherwise.
  bool compare_exchange_weak(T& expected, T x, std::memory_order a = std::memory_order_seq_cst,
                             std::memory_order b = std::memory_order_seq_cst) noexcept {
    return compare_exchange_strong(expected, x, a, b);
  }

 private:
  T v_;
};

}  // namespace penstock::model
