// The device's own threads in this process, and how to have them keep still: while memory is
// replaced under the process (moved_memory.hpp), nobody may write to it.
#pragma once

#include <signal.h>

#include <cstdint>
#include <mutex>
#include <shared_mutex>

namespace penstock::nic::shm {

/// What a thread of the device holds whenever it may touch memory outside its stack: always, but
/// while it waits for events. A thread that waits for a peer's answer may hold it, and so may the
/// one that gives the answer, whoever wants stillness meanwhile.
using working_time = std::shared_lock<std::shared_mutex>;
working_time begin_work();
/// The same, for a thread that always finds something to do: lets who wants stillness have it
/// first.
working_time begin_more_work() noexcept;

/// Counts a thread of the device, from before it begins until after it has ended.
void count_own_thread(int change) noexcept;

/// Stillness: no thread of the process runs but the caller, and no signal's handler, until this
/// object goes.
class still {
 public:
  still();
  ~still();
  still(const still&) = delete;
  still& operator=(const still&) = delete;
  /// False: the program has other threads, or the device's are busy for longer than a moment.
  explicit operator bool() const noexcept { return lock_.owns_lock(); }
  /// False if the program has other threads now.
  static bool possible() noexcept;
  /// True if [first, last) holds what this object itself stands on: that cannot be replaced.
  static bool stands_on(std::uint64_t first, std::uint64_t last) noexcept;

 private:
  sigset_t signals_;  // what the caller blocks otherwise
  std::unique_lock<std::shared_mutex> lock_;
};

/// Around a fork, whatever other threads the program has: those of the device keep still until they
/// are told to go on. False: they are busy for longer than a moment, and go on.
bool pause_own_threads() noexcept;
/// By the thread that has had them pause.
void resume_own_threads() noexcept;
/// In the child of a fork: there are no other threads.
void forget_own_threads() noexcept;

}  // namespace penstock::nic::shm
