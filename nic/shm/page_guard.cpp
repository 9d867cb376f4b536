#include "nic/shm/page_guard.hpp"

#include <signal.h>
#include <ucontext.h>

#include <atomic>
#include <cerrno>

#include "lib/base/page.hpp"
#include "nic/shm/moved_memory.hpp"

namespace penstock::nic::shm {
namespace {

struct sigaction before_segv, before_bus;  // fixed before the handler can run

/// Thrown from the handler.
struct memory_is_gone {};

/// Whether this thread is inside guarded_call().
thread_local constinit bool copying __attribute__((tls_model("initial-exec"))) = false;

/// An entry of the table that guarded_copy_8() makes; each place is told by its distance.
struct guarded_place {
  std::int32_t begin, end, otherwise;
  [[nodiscard]] static std::uintptr_t of(const std::int32_t& distance) noexcept {
    return reinterpret_cast<std::uintptr_t>(&distance) + static_cast<std::uintptr_t>(distance);
  }
};
// The linker's names for the table's ends; weak, since there may be no entry.
extern "C" const guarded_place __start_penstock_copies[]
    __attribute__((weak, visibility("hidden")));
extern "C" const guarded_place __stop_penstock_copies[] __attribute__((weak, visibility("hidden")));

/// Makes the thread go on at the label of the copy that has met the fault, if it is one of the
/// table's.
bool skip_copy(void* machine) noexcept {
#if defined(__x86_64__)
  auto& at = static_cast<ucontext_t*>(machine)->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
  auto& at = static_cast<ucontext_t*>(machine)->uc_mcontext.pc;
#else
  static std::uintptr_t at = 0;
  (void)machine;
#endif
  for (const guarded_place* p = __start_penstock_copies; p != __stop_penstock_copies; ++p)
    if (const auto now = static_cast<std::uintptr_t>(at);
        now >= guarded_place::of(p->begin) && now < guarded_place::of(p->end)) {
      at = static_cast<std::remove_reference_t<decltype(at)>>(guarded_place::of(p->otherwise));
      return true;
    }
  return false;
}

void on_fault(int signal, siginfo_t* info, void* machine) {
  const int saved = errno;
  const bool served = info->si_code == SEGV_MAPERR && signal == SIGSEGV &&
                      moved_memory::copy_for_child(reinterpret_cast<std::uintptr_t>(info->si_addr));
  errno = saved;
  const bool fault = info->si_code > 0;  // else somebody has sent the signal
  if (served || (fault && skip_copy(machine))) return;
  if (fault && copying) throw memory_is_gone{};
  const struct sigaction& before = signal == SIGBUS ? before_bus : before_segv;
  if ((before.sa_flags & SA_SIGINFO) != 0) return before.sa_sigaction(signal, info, machine);
  if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN)
    return before.sa_handler(signal);
  ::sigaction(signal, &before, nullptr);  // the instruction is tried again, and ends the program
  if (!fault) ::raise(signal);
}

}  // namespace

void install_page_guard() noexcept {
  static const bool done = [] {
    struct sigaction ours {};
    if (::sigaction(SIGSEGV, nullptr, &before_segv) != 0 ||
        ::sigaction(SIGBUS, nullptr, &before_bus) != 0)
      return false;
    ours.sa_sigaction = on_fault;
    // SA_NODEFER: an exception leaves the handler with the signal still open.
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    return ::sigaction(SIGSEGV, &ours, nullptr) == 0 && ::sigaction(SIGBUS, &ours, nullptr) == 0;
  }();
  (void)done;
}

bool guarded_call(void (*copy)(void*), void* argument) noexcept {
  // The compiler must not see that copy() throws nothing.
  __asm__("" : "+r"(copy));
  copying = true;
  // seq_cst: for the compiler alone; the handler is this thread's
  std::atomic_signal_fence(std::memory_order_seq_cst);
  bool there = true;
  try {
    copy(argument);
  } catch (const memory_is_gone&) {
    there = false;
  }
  std::atomic_signal_fence(std::memory_order_seq_cst);  // seq_cst: as above
  copying = false;
  return there;
}

bool guarded_copy(void* to, const void* from, std::size_t n) noexcept {
  return guarded([=] { std::memcpy(to, from, n); });
}

bool readable_slow(const void* at, std::size_t bytes) noexcept {
  const auto first = reinterpret_cast<std::uintptr_t>(at), end = first + bytes;
  return bytes == 0 || guarded([=] {
           for (std::uintptr_t p = first; p < end; p = (p & ~(page_bytes() - 1)) + page_bytes()) {
             std::byte seen = *reinterpret_cast<const std::byte*>(p);
             __asm__("" : : "r"(seen));  // it is read
           }
         });
}

}  // namespace penstock::nic::shm
