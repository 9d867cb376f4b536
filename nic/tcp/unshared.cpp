#include "nic/tcp/unshared.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "lib/base/descriptors.hpp"
#include "lib/base/immortal.hpp"

namespace penstock::nic::tcp::unshared {
namespace {

constinit std::mutex lock;

/// Which descriptors are ours; under the lock. Contexts may live until the process ends.
std::vector<bool>& kept() noexcept {
  static immortal<std::vector<bool>> all;
  return all.value;
}

void before_fork() { lock.lock(); }
void in_parent() { lock.unlock(); }
/// The child has one thread. An event counter refuses what is asked of a socket, a timer, an epoll.
void in_child() {
  int nowhere = above_stdio(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  for (std::size_t i = 0; i < kept().size(); ++i) {
    if (!kept()[i]) continue;
    const int fd = static_cast<int>(i);
    if (nowhere < 0 || ::dup3(nowhere, fd, O_CLOEXEC) < 0) ::close(fd);
  }
  if (nowhere >= 0) ::close(nowhere);
  lock.unlock();
}

}  // namespace

std::mutex& forks() noexcept { return lock; }

int keep(int fd) noexcept {
  [[maybe_unused]] static const int watched =
      ::pthread_atfork(before_fork, in_parent, in_child);  // no memory: as without it
  if (fd < 0) return fd;
  const auto i = static_cast<std::size_t>(fd);
  if (kept().size() <= i) kept().resize(2 * i + 1);
  kept()[i] = true;
  penstock::kept(fd);
  return fd;
}

void close(int& fd) noexcept {
  if (fd < 0) return;
  const std::lock_guard guard(lock);
  kept()[static_cast<std::size_t>(fd)] = false;
  close_kept(fd);
}

}  // namespace penstock::nic::tcp::unshared
