// Descriptors that one process has alone. A child made by fork() has copies of all of its parent's:
// they would keep the parent's connections up when it has died, and its port taken. In a child's
// first moment each of these becomes a descriptor that leads nowhere, with the same number; so
// whatever the child calls, nothing is read from, written to, or changed for its parent.
#pragma once

#include <mutex>

namespace penstock::nic::tcp::unshared {

/// fork() waits for it. Held for a moment; any thread.
std::mutex& forks() noexcept;
/// For open() only, under forks(): that descriptor, which may be negative, is this process's alone.
int keep(int fd) noexcept;

/// What the call answers, which opens a descriptor and does not wait.
template <class Call>
int open(Call&& call) noexcept {
  const std::lock_guard guard(forks());
  return keep(call());
}
/// Closes such a descriptor, and stores -1; nothing where it is negative.
void close(int& fd) noexcept;

}  // namespace penstock::nic::tcp::unshared
