// Children that a process makes by fork(): they have its memory, its descriptors and none of its
// threads. Nothing of Penstock works there, and what they did would be done to the parent's job, so
// everything refuses to. exec of another program and _exit are fine. Nobody asks before a message:
// a child's first moment turns off what it has (fork_notice).
#pragma once

#include <atomic>

namespace penstock {

/// For is_forked() only.
extern std::atomic<bool> forked_flag;

/// In a child of the process that called watch_forks(), or of its children.
inline bool is_forked() noexcept {
  // relaxed: written by the child's only thread, before anything else runs there
  return forked_flag.load(std::memory_order_relaxed);
}

/// From here on children know what they are. Any number of times.
void watch_forks() noexcept;

/// What is wrong with using Penstock in such a child.
inline constexpr const char* forked_text =
    "this process was made by fork(), and its parent is the one in the job";
inline constexpr const char* forked_hint =
    "it may exec another program or end, but not use Penstock";
/// Says so, once in a process. After is_forked().
void refuse_forked() noexcept;

/// While it exists: call(object) in each child, before fork() returns there. It may store to memory
/// and do nothing else: the parent's other threads may have held any lock.
class fork_notice {
 public:
  fork_notice(void (*call)(void*) noexcept, void* object) noexcept;
  ~fork_notice();
  fork_notice(const fork_notice&) = delete;
  fork_notice& operator=(const fork_notice&) = delete;
  fork_notice* next = nullptr;  ///< in the list of all
  void tell() const noexcept { call_(object_); }

 private:
  void (*call_)(void*) noexcept;
  void* object_;
};

}  // namespace penstock
