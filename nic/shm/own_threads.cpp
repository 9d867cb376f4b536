#include "nic/shm/own_threads.hpp"

#include <dirent.h>
#include <poll.h>
#include <sched.h>
#include <sys/stat.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <new>
#include <string>

#include "lib/base/clock.hpp"
#include "lib/base/descriptors.hpp"

namespace penstock::nic::shm {
namespace {

// glibc's lock prefers readers: a thread that waits for stillness holds up no other thread.
std::shared_mutex gate;
std::atomic<int> of_ours{0};
std::atomic<bool> stillness_wanted{false};  // stillness; a hint

/// True if the process has no threads but the caller and the device's. The link count of a folder
/// is two, and one more for each folder in it.
bool alone() noexcept {
  struct stat s {};
  if (::stat("/proc/self/task", &s) != 0) return false;
  return s.st_nlink == static_cast<nlink_t>(of_ours.load(std::memory_order_relaxed)) + 3;
}

/// True if a thread of this process has begun to end: the kernel lists one that was joined for a
/// moment more. Behind its name stand its state, five numbers, and flags.
bool is_ending(const char* thread) {
  constexpr unsigned exiting = 4;  // the kernel's PF_EXITING
  const std::string text = text_of(std::string("/proc/self/task/") + thread + "/stat");
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return true;  // it has ended
  unsigned flags = 0;
  return std::sscanf(&text[name_end], ") %*c %*d %*d %*d %*d %*d %u", &flags) == 1 &&
         (flags & exiting) != 0;
}

/// True if threads of the program run beside the caller, so that there is nothing to wait for.
bool beside_others() {
  const std::unique_ptr<DIR, int (*)(DIR*)> threads(open_folder("/proc/self/task"), ::closedir);
  if (!threads) return true;
  int others = -1 - of_ours.load(std::memory_order_relaxed);  // relaxed: as in alone()
  for (const dirent* d = nullptr; others <= 0 && (d = ::readdir(threads.get())) != nullptr;)
    others += d->d_name[0] != '.' && !is_ending(d->d_name);
  return others > 0;
}

}  // namespace

working_time begin_work() { return working_time(gate); }

working_time begin_more_work() noexcept {
  while (stillness_wanted.load(std::memory_order_relaxed)) ::poll(nullptr, 0, 1);
  return begin_work();
}

void count_own_thread(int change) noexcept { of_ours.fetch_add(change, std::memory_order_relaxed); }

still::still() : lock_(gate, std::defer_lock) {
  constexpr int looks = 100;
  for (int i = 0; i < looks && !alone() && !beside_others(); ++i) ::sched_yield();
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &signals_);
  // No thread waits as a writer in the lock, so that threads of the device that need each other go
  // on.
  constexpr std::uint64_t moment_ns = 1'000'000'000;
  const std::uint64_t until = now_ns() + moment_ns;
  if (!alone()) return;
  stillness_wanted.store(true, std::memory_order_relaxed);
  // It sleeps between two attempts: the thread that it waits for may have a lower priority.
  while (!lock_.try_lock() && now_ns() < until) ::poll(nullptr, 0, 1);
  stillness_wanted.store(false, std::memory_order_relaxed);
  if (lock_.owns_lock() && !alone()) lock_.unlock();
}

still::~still() {
  if (lock_.owns_lock()) lock_.unlock();
  ::pthread_sigmask(SIG_SETMASK, &signals_, nullptr);
}

bool still::possible() noexcept { return alone(); }

bool pause_own_threads() noexcept {
  constexpr std::uint64_t moment_ns = 1'000'000'000;
  const std::uint64_t until = now_ns() + moment_ns;
  stillness_wanted.store(true, std::memory_order_relaxed);
  bool paused = gate.try_lock();
  for (; !paused && now_ns() < until; paused = gate.try_lock()) ::poll(nullptr, 0, 1);
  stillness_wanted.store(false, std::memory_order_relaxed);
  return paused;
}

void resume_own_threads() noexcept { gate.unlock(); }

bool still::stands_on(std::uint64_t first, std::uint64_t last) noexcept {
  const auto inside = [&](const void* p, std::size_t bytes) {
    const auto at = reinterpret_cast<std::uint64_t>(p);
    return at + bytes > first && at < last;
  };
  return inside(__builtin_frame_address(0), 1) || inside(&gate, sizeof gate) ||
         inside(&of_ours, sizeof of_ours) || inside(&stillness_wanted, sizeof stillness_wanted);
}

void forget_own_threads() noexcept {
  new (&gate) std::shared_mutex();
  of_ours.store(0, std::memory_order_relaxed);
  stillness_wanted.store(false, std::memory_order_relaxed);
}

}  // namespace penstock::nic::shm
