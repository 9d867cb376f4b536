#include "nic/shm/page_guard.hpp"

#include <signal.h>
#include <sys/mman.h>

#include <cerrno>

#include "lib/base/page.hpp"
#include "nic/shm/moved_memory.hpp"

namespace penstock::nic::shm {

thread_local constinit copy_holes holes_of_thread;

namespace {

struct sigaction before;  // fixed before the handler can run

/// Puts empty pages at the address, as many as there are places used, if they are free.
bool fill_hole(std::uintptr_t address) noexcept {
  copy_holes& h = holes_of_thread;
  if (!h.copying || h.count == copy_holes::most) return false;
  void* at = reinterpret_cast<void*>(address & ~(page_bytes() - 1));
  for (std::size_t pages = std::size_t{1} << h.count;; pages /= 2) {
    const std::size_t bytes = pages * page_bytes();
    void* p = ::mmap(at, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (p == at) return h.at[h.count++] = {at, bytes}, true;
    if (p != MAP_FAILED) ::munmap(p, bytes);  // a kernel that does not know the flag
    // Somebody has just mapped it: the copy goes on there.
    if (pages == 1) return p == MAP_FAILED && errno == EEXIST;
  }
}

void on_fault(int signal, siginfo_t* info, void* machine) {
  const int saved = errno;
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  if (info->si_code == SEGV_MAPERR &&
      (fill_hole(address) || moved_memory::copy_for_child(address))) {
    errno = saved;
    return;
  }
  errno = saved;
  if ((before.sa_flags & SA_SIGINFO) != 0) return before.sa_sigaction(signal, info, machine);
  if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN)
    return before.sa_handler(signal);
  ::sigaction(SIGSEGV, &before, nullptr);   // the instruction is tried again, and ends the program
  if (info->si_code <= 0) ::raise(signal);  // unless somebody has sent the signal
}

}  // namespace

void install_page_guard() noexcept {
  static const bool done = [] {
    struct sigaction ours {};
    if (::sigaction(SIGSEGV, nullptr, &before) != 0) return false;
    ours.sa_sigaction = on_fault;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    return ::sigaction(SIGSEGV, &ours, nullptr) == 0;
  }();
  (void)done;
}

void remove_fillings() noexcept {
  copy_holes& h = holes_of_thread;
  for (std::uint32_t i = 0; i < h.count; ++i) ::munmap(h.at[i].at, h.at[i].bytes);
  h.count = 0;
}

bool readable(const void* at, std::size_t bytes) noexcept {
  const auto first = reinterpret_cast<std::uintptr_t>(at), end = first + bytes;
  return bytes == 0 || guarded([=] {
           for (std::uintptr_t p = first; p < end; p = (p & ~(page_bytes() - 1)) + page_bytes()) {
             std::byte seen = *reinterpret_cast<const std::byte*>(p);
             __asm__("" : : "r"(seen));  // it is read
           }
         });
}

}  // namespace penstock::nic::shm
