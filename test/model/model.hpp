// Drives a few pieces of concurrent code through their executions by C++'s memory model, one atomic
// operation at a time. For tests of lock-free types: instantiate the type with model::scheduled as
// its Atomic, or compile it by penstock_model_test (CMakeLists.txt); write each thread as a
// function; and let explore() run all executions within bounds, or sample() random ones by seed.
//
//   model::report r = model::explore([] {
//     auto s = std::make_shared<my_type<thread_mode::par, model::scheduled>>();
//     return model::trial{{[s] { s->push(1); }, [s] { s->pop(); }},     // the threads
//                         [s] { return s->consistent(); },              // holds after every step
//                         [s] { return s->balanced(); }};               // holds at the end
//   });
//   CHECK_MESSAGE(r.ok(), r.text());
//
// A choice is whose step is next, or how old a message a load reads (memory.hpp). A failed report
// has the choices, and by them a trace of its run. Plain data that threads hand over are var<T>.
// Threads must not wait for each other: every loop ends by itself once it reads what is newest.
// `always` and `finally` see the newest value of each word.
// explore() prunes by sleep sets: of executions that differ only in the order of operations that
// do not touch the same word it runs one. Where an invariant is checked after every step, two
// writes always count as touching the same word, since the invariant may relate both. All threads
// are fibers of the calling thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "test/model/scheduled.hpp"

namespace penstock::model {

/// One run's threads, and what must hold. Built anew for each run: capture the state by shared_ptr.
struct trial {
  std::vector<std::function<void()>> threads;
  std::function<bool()> always = nullptr;   ///< after every step; may be null
  std::function<bool()> finally = nullptr;  ///< when all threads have ended; may be null
  std::vector<int> processes = {};          ///< of each thread, for fence_all(); empty: one
};
using trial_maker = std::function<trial()>;

struct report {
  std::uint64_t runs = 0;    ///< executions that were run to their end and checked
  std::uint64_t pruned = 0;  ///< begun, but equal to one already run
  std::uint64_t steps = 0;   ///< operations in all of them
  bool complete = false;     ///< explore() only: there are no further executions within the bounds
  std::uint64_t seed = 0;    ///< sample() only: of the run that failed
  std::string failure;       ///< what broke, empty if nothing
  std::vector<int> choices;  ///< of the run that failed; see replay()
  std::string trace;         ///< of the run that failed: its operations, a line each
  [[nodiscard]] bool ok() const { return failure.empty(); }
  [[nodiscard]] std::string text() const;  ///< for a test's message
};

struct bounds {
  unsigned old = 0;            ///< choices in a run other than the newest message
  unsigned preemptions = ~0U;  ///< of threads that could go on; fewer: no sleep sets
  std::uint64_t most_runs = 1'000'000;
};

/// Runs all executions within the bounds: as such all interleavings of newest values. Stops at the
/// first that fails.
report explore(const trial_maker& make, bounds within = {});
/// Runs `count` random executions; the i-th depends on seed + i alone.
report sample(const trial_maker& make, std::uint64_t seed, std::uint64_t count);
/// What a small case asks for: all interleavings of newest values, executions with two older ones
/// and two preemptions in turn, and `count` random ones. complete: all interleavings were run.
report search(const trial_maker& make, std::uint64_t count = 4000);
/// Runs the one execution that a failed report names.
report replay(const trial_maker& make, const std::vector<int>& choices);
/// Within a thread: marks this run as failed. The run goes on to its end.
void fail(const std::string& why);

}  // namespace penstock::model
