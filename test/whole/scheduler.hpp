// Runs the threads of a process one at a time, in an order and by a clock that a seed decides. A
// thread keeps the turn until it makes a call by which it waits, or may be preempted
// (interpose.cpp has these calls). When all threads sleep, the clock moves to the first deadline;
// where there is none, nobody brings what they wait for, and the run ends with a report.
#pragma once

#include <poll.h>
#include <pthread.h>

#include <cstdint>
#include <string>

namespace penstock::whole {

/// Pseudo-random numbers (splitmix64); each use has its own, by the seed and a name.
class numbers {
 public:
  numbers(std::uint64_t seed, const char* use) noexcept : state_(seed * 0x9e3779b97f4a7c15) {
    for (; *use != '\0'; ++use)
      state_ = (state_ ^ static_cast<unsigned char>(*use)) * 0x100000001b3;
    (void)next();
  }
  std::uint64_t next() noexcept {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  /// 0 to n-1.
  std::uint64_t below(std::uint64_t n) noexcept { return next() % n; }
  bool one_in(std::uint64_t n) noexcept { return below(n) == 0; }
  /// Between 1 and most, small ones more often.
  std::uint64_t skewed(std::uint64_t most) noexcept { return 1 + below(1 + below(most)); }

 private:
  std::uint64_t state_;
};

inline constexpr std::uint64_t for_ever = ~std::uint64_t{0};
inline constexpr std::uint32_t no_rank = ~std::uint32_t{0};

/// What of a run the schedule's part of the seed decides.
struct schedule {
  std::uint64_t seed = 1;
  std::uint32_t ranks = 0;
  bool trace = false;                  ///< a line for each change of turn
  std::uint32_t dying_rank = no_rank;  ///< is killed at about that turn
  std::uint64_t dies_at_turn = 0;
};

/// The calling thread becomes the first one that is scheduled; all that are started from here on
/// are, too.
void begin(const schedule& s) noexcept;
/// True if the calling thread is scheduled.
bool is_scheduled() noexcept;
/// From here on the calling thread, and what it starts, counts as of that rank.
void belongs_to(std::uint32_t rank) noexcept;
/// The rank of the calling thread, or no_rank.
std::uint32_t rank() noexcept;
/// What the thread does, for the report.
void is_doing(const char* what) noexcept;

/// The time of the run in nanoseconds; reading it takes some.
std::uint64_t virtual_ns() noexcept;

/// Lets any thread go on, perhaps the calling one.
void yield() noexcept;
/// As yield(), but seldom: for calls in which a kernel might take the processor away.
void may_preempt() noexcept;
/// As may_preempt(), for atomic operations: very seldom.
void preempt_at_atomic() noexcept;
/// While one of these lives, the calling thread keeps the turn unless it waits, and its rank is not
/// killed.
class keeps_turn {
 public:
  keeps_turn() noexcept;
  ~keeps_turn();
  keeps_turn(const keeps_turn&) = delete;
  keeps_turn& operator=(const keeps_turn&) = delete;
};
/// Sleeps until wake() is called for that place, or the deadline. True: it was woken.
bool sleep_at(const void* place, std::uint64_t until_ns) noexcept;
/// Wakes up to n threads that sleep at that place; returns how many.
std::uint32_t wake(const void* place, std::uint32_t n = ~0u) noexcept;

/// Ranks share what is a process's own, such as a mutex in static memory: a rank is not killed, nor
/// stopped for long, while a thread of it holds one. add: 1 or -1.
void holds_shared(int add) noexcept;
/// No thread of that rank runs from then to then, once it holds nothing shared.
void stop_rank(std::uint32_t rank, std::uint64_t from_ns, std::uint64_t until_ns) noexcept;
/// Returns when the dying rank has been killed: its threads do not run any more.
void await_death() noexcept;
bool has_died() noexcept;
/// No thread of the calling one's rank runs any more.
[[noreturn]] void end_rank() noexcept;

/// The descriptors for which a thread sleeps, as for poll(2).
struct pollfd_list {
  pollfd* at;
  std::uint32_t n;
};
/// Sleeps until one of the descriptors becomes ready, or the deadline.
void sleep_for(pollfd_list fds, std::uint64_t until_ns) noexcept;
/// A call has been made that may have made a descriptor ready.
void descriptors_changed() noexcept;

/// pthread_create() and pthread_join() for scheduled threads.
int start_thread(pthread_t* into, const pthread_attr_t* attributes, void* (*run)(void*),
                 void* argument) noexcept;
int join_thread(pthread_t thread, void** result) noexcept;

/// The run goes on: messages were handled, or a rank got further. A run without any of these for
/// long ends with a report.
void note_progress() noexcept;
/// Something that the run shows, and that two runs of a seed must have alike.
void note(std::uint64_t word) noexcept;
/// The sum of all turns and notes.
std::uint64_t trace_hash() noexcept;
/// How many times a thread got the turn.
std::uint64_t turns() noexcept;

/// Ends the process with a line that says why, and what each thread does. The line begins with
/// `kind`, and the exit code is 99.
[[noreturn]] void fail(const char* kind, const std::string& why) noexcept;

}  // namespace penstock::whole
