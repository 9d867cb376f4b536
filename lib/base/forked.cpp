#include "lib/base/forked.hpp"

#include <pthread.h>

#include <mutex>

#include "lib/base/log.hpp"

namespace penstock {

std::atomic<bool> forked_flag{false};

namespace {

// Held across fork(), so that a child finds the list whole. It has no destructor, so it outlives
// every notice.
constinit std::mutex list_lock;
constinit fork_notice* list = nullptr;

void before_fork() { list_lock.lock(); }
void in_parent() { list_lock.unlock(); }
void in_child() {
  forked_flag.store(true, std::memory_order_relaxed);
  for (const fork_notice* n = list; n != nullptr; n = n->next) n->tell();
  list_lock.unlock();
}

}  // namespace

void watch_forks() noexcept {
  static const int watched = ::pthread_atfork(&before_fork, &in_parent, &in_child);
  if (watched != 0)
    log(log_level::warning,
        "pthread_atfork has no memory: children made by fork() are not refused");
}

void refuse_forked() noexcept {
  static std::atomic<bool> said{false};
  if (said.exchange(true, std::memory_order_relaxed)) return;
  log(log_level::error, "%s; %s", forked_text, forked_hint);
}

fork_notice::fork_notice(void (*call)(void*) noexcept, void* object) noexcept
    : call_(call), object_(object) {
  const std::lock_guard guard(list_lock);
  next = list;
  list = this;
}

fork_notice::~fork_notice() {
  const std::lock_guard guard(list_lock);
  fork_notice** at = &list;
  while (*at != this) at = &(*at)->next;
  *at = next;
}

}  // namespace penstock
