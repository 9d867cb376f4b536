// Children that a process makes by fork(): they have its memory and its descriptors, and none of
// its threads. Penstock cannot work there, and what a child did would be done to the parent's job;
// so all calls refuse. A child may exec another program or end. No message has to ask is_forked():
// the library turns itself off in a child's first moment (fork_notice).
#pragma once

#include <atomic>

namespace penstock {

/// For is_forked() only.
extern std::atomic<bool> forked_flag;

/// True in a child of the process that called watch_forks(), and in that child's children.
inline bool is_forked() noexcept {
  // relaxed: written by the child's only thread, before anything else runs there
  return forked_flag.load(std::memory_order_relaxed);
}

/// After this call is_forked() is true in children. It may be called any number of times.
void watch_forks() noexcept;

/// What is wrong with using Penstock in such a child.
inline constexpr const char* forked_text =
    "this process was made by fork(), and its parent is the one in the job";
inline constexpr const char* forked_hint =
    "it may exec another program or end, but not use Penstock";
/// Logs the two texts, once in a process. To be called when is_forked() is true.
void refuse_forked() noexcept;

/// While a notice exists, call(object) runs in each child before fork() returns there. It may store
/// to memory and do nothing else: the parent's other threads may have held any lock.
class fork_notice {
 public:
  fork_notice(void (*call)(void*) noexcept, void* object) noexcept;
  ~fork_notice();
  fork_notice(const fork_notice&) = delete;
  fork_notice& operator=(const fork_notice&) = delete;
  fork_notice* next = nullptr;  ///< in the list of all notices
  void tell() const noexcept { call_(object_); }

 private:
  void (*call_)(void*) noexcept;
  void* object_;
};

}  // namespace penstock
