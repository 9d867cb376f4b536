// The C++ allocations of the process, one of which fails where the plan says so. Those of the
// tests' own code are spared.
#include "test/whole/memory.hpp"

#include <cstdlib>
#include <new>

#include "test/whole/scheduler.hpp"

namespace penstock::whole {
namespace {

std::uint32_t failing_rank = no_rank;
std::uint64_t until_failure = 0;  // 0: none fails any more
thread_local constinit std::uint32_t spared_by = 0;

bool fails_now() noexcept {
  return until_failure != 0 && spared_by == 0 && is_scheduled() && rank() == failing_rank &&
         --until_failure == 0;
}

}  // namespace

void fail_allocation(std::uint32_t of_rank, std::uint64_t kth) noexcept {
  failing_rank = of_rank;
  until_failure = kth;
}
spared::spared() noexcept { ++spared_by; }
spared::~spared() { --spared_by; }

}  // namespace penstock::whole

void* operator new(std::size_t n) {
  if (!penstock::whole::fails_now())
    if (void* const p = std::malloc(n)) return p;
  throw std::bad_alloc();
}
void* operator new(std::size_t n, const std::nothrow_t&) noexcept {
  return penstock::whole::fails_now() ? nullptr : std::malloc(n);
}
void* operator new(std::size_t n, std::align_val_t a) {
  const auto to = static_cast<std::size_t>(a);
  if (!penstock::whole::fails_now())
    if (void* const p = std::aligned_alloc(to, (n + to - 1) / to * to)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
