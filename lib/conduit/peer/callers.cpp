// See callers.hpp.
#include "lib/conduit/peer/callers.hpp"

#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "lib/base/descriptors.hpp"
#include "lib/base/log.hpp"

namespace penstock::conduit::PENSTOCK_ABI {
namespace {

// "thread 'worker' (pid 4711)".
void describe_thread(char (&text)[64], pid_t number) {
  char path[64], name[24] = "?";
  std::snprintf(path, sizeof path, "/proc/self/task/%d/comm", number);
  if (const auto f = open_file(path, "r"))
    if (std::fgets(name, sizeof name, f.get()) != nullptr) name[std::strcspn(name, "\n")] = '\0';
  std::snprintf(text, sizeof text, "thread '%s' (%d)", name, number);
}

}  // namespace

void callers::take() noexcept {
  static thread_local const pid_t mine = ::gettid();
  number_.store(mine, std::memory_order_relaxed);
  thread_.store(me(), std::memory_order_relaxed);
}

void callers::begin() noexcept {
  if constexpr (build_mode == thread_mode::seq) take();
}

void callers::refuse() const noexcept {
  char mine[64], other[64];
  describe_thread(mine, ::gettid());
  describe_thread(other, number_.load(std::memory_order_relaxed));
  if constexpr (build_mode == thread_mode::seq)
    fatal(1,
          "%s calls the seq library, which is %s's alone; link the par library (penstock-par), or "
          "parsync where one thread at a time makes calls",
          mine, other);
  fatal(1, "%s calls the parsync library while %s is inside; link the par library (penstock-par)",
        mine, other);
}

}  // namespace penstock::conduit::PENSTOCK_ABI
