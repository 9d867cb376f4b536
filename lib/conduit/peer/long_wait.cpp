#include "lib/conduit/peer/long_wait.hpp"

#include <unistd.h>

#include "lib/base/clock.hpp"
#include "lib/base/descriptors.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

// The attribute is repeated here: GCC forgets that of the declaration, and would make a call to
// find the address.
thread_local constinit long_wait* innermost_wait __attribute__((tls_model("initial-exec"))) =
    nullptr;
thread_local constinit std::uint64_t wait_limit_ns __attribute__((tls_model("initial-exec"))) = 0;

std::vector<long_waits::entry> long_waits::read() const {
  std::vector<entry> all;
  const std::lock_guard hold(lock_);
  for (const long_wait* w = first_; w != nullptr; w = w->next_)
    all.push_back({w->what_, w->peer_, w->since_ns_});
  return all;
}

// Called when a wait has lasted some microseconds: lists it, and after a second tells the reporter.
void long_wait::look() noexcept {
  constexpr std::uint64_t second_ns = 1'000'000'000;
  const std::uint64_t now = now_ns();
  steps_ = 0;
  if (since_ns_ == 0) {
    const std::lock_guard hold(all_.lock_);
    since_ns_ = now;
    next_ = all_.first_;
    all_.first_ = this;
  } else if (!told_ && now - since_ns_ >= second_ns) {
    told_ = true;
    look_for_closed();
    const std::uint64_t one = 1;
    // relaxed: the reporter takes the lock before it reads the list
    if (const int bell = all_.bell_.load(std::memory_order_relaxed); bell >= 0) [[maybe_unused]]
      const auto n = ::write(bell, &one, sizeof one);
  }
}

void long_wait::forget() noexcept {
  const std::lock_guard hold(all_.lock_);
  long_wait** at = &all_.first_;
  while (*at != this) at = &(*at)->next_;
  *at = next_;
}

}  // namespace penstock::conduit::PENSTOCK_ABI
