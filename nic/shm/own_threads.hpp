// The device's own threads in this process, and how they are made to keep still: nothing may write
// to memory while it is replaced under the process (moved_memory.hpp).
#pragma once

#include <signal.h>

#include <cstdint>
#include <mutex>
#include <shared_mutex>

namespace penstock::nic::shm {

/// What a thread of the device holds whenever it may touch memory outside its stack, so always but
/// while it waits for events. A thread that waits for a peer's answer may hold it, and so may the
/// thread that gives the answer, even when a third one wants stillness meanwhile.
using working_time = std::shared_lock<std::shared_mutex>;
working_time begin_work();
/// The same, for a thread that always finds more to do: it lets a thread that wants stillness go
/// first.
working_time begin_more_work() noexcept;

/// Counts a thread of the device: the one that started it adds 1 thereafter, and it takes 1 away as
/// the last that it does. So the count is never above the number of them, and a thread of the
/// program is never taken for one of them.
void count_own_thread(int change) noexcept;

/// Stillness: while this object lives, no thread of the process runs but the caller, and no signal
/// handler does.
class still {
 public:
  still();
  ~still();
  still(const still&) = delete;
  still& operator=(const still&) = delete;
  /// False: the program has other threads, or the device's threads were busy for more than a
  /// second.
  explicit operator bool() const noexcept { return lock_.owns_lock(); }
  /// False if the program has other threads now.
  static bool possible() noexcept;
  /// True if [first, last) holds memory that this object itself uses, which cannot be replaced.
  static bool stands_on(std::uint64_t first, std::uint64_t last) noexcept;

 private:
  sigset_t signals_;  // what the caller blocks otherwise
  std::unique_lock<std::shared_mutex> lock_;
};

/// To be called before a fork, whatever other threads the program has: the device's threads keep
/// still until resume_own_threads(). False: they were busy for more than a second, and go on.
bool pause_own_threads() noexcept;
/// To be called by the thread that paused them.
void resume_own_threads() noexcept;
/// To be called in the child of a fork, which has no other threads.
void forget_own_threads() noexcept;

}  // namespace penstock::nic::shm
