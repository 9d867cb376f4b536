// Makes every mapping call of libc report its change. It is linked where offer_interposing() is
// called; nothing is patched before the first pool is made.
//
// Defining munmap() in the program would catch only the calls made through the symbol. Stale
// registrations are mostly left behind by libc itself: by free() of a large block, by the trimming
// of heaps, by the stacks of threads that ended. Those calls go straight to the function. So the
// function's first instruction is replaced by a jump to ours, which does the same system call
// between two reports. These functions are nothing but a system call, so no piece of the original
// is needed afterwards.
//
//   libc munmap:  e9 rel32 -> stub page near libc:  movabs r11, ours; jmp *r11
//
// The jump is one aligned 8-byte store, so that a thread that calls the function meanwhile runs
// either the old code or the new. Activation fails as a whole where the code cannot be written
// (hardened systems) or has been replaced by another library; the pool then relies on
// kernel_events.hpp alone. The same holds on processors other than x86-64, for which this file is
// not built. If another library replaces the code later, the next activate() notices.
#include "firehose/interpose.hpp"

#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstring>

#include "firehose/changes.hpp"
#include "lib/base/log.hpp"

extern "C" void* __curbrk;  // where libc keeps the program break

namespace penstock::firehose {
namespace {

constexpr std::size_t x86_page = 4096;

// ---- the replacements: the system call, and the report around it

int our_munmap(void* addr, std::size_t bytes) {
  const changes::scope s(addr, bytes);
  return static_cast<int>(syscall(SYS_munmap, addr, bytes));
}

void* our_mmap(void* addr, std::size_t bytes, int prot, int flags, int fd, off_t offset) {
  // Only MAP_FIXED can replace a mapping; MAP_FIXED_NOREPLACE refuses to.
  const changes::scope s(addr, (flags & MAP_FIXED) != 0 ? bytes : 0);
  return reinterpret_cast<void*>(syscall(SYS_mmap, addr, bytes, prot, flags, fd, offset));
}

void* our_mremap(void* addr, std::size_t bytes, std::size_t new_bytes, int flags, void* to) {
  constexpr int takes_address = 2 | 4;  // MREMAP_FIXED, MREMAP_DONTUNMAP
  if ((flags & takes_address) == 0) to = nullptr;
  const changes::scope from(addr, bytes);
  const changes::scope over(to, (flags & MREMAP_FIXED) != 0 ? new_bytes : 0);
  return reinterpret_cast<void*>(syscall(SYS_mremap, addr, bytes, new_bytes, flags, to));
}

int our_madvise(void* addr, std::size_t bytes, int advice) {
  constexpr int dontneed_locked = 24, collapse = 25;
  const bool discards = advice == MADV_DONTNEED || advice == MADV_FREE || advice == MADV_REMOVE ||
                        advice == dontneed_locked || advice == collapse;
  const changes::scope s(addr, discards ? bytes : 0);
  return static_cast<int>(syscall(SYS_madvise, addr, bytes, advice));
}

int our_brk(void* to) {
  const auto now = reinterpret_cast<std::uintptr_t>(__curbrk);
  const auto then = reinterpret_cast<std::uintptr_t>(to);
  const changes::scope s(to, then != 0 && then < now ? now - then : 0);
  __curbrk = reinterpret_cast<void*>(syscall(SYS_brk, to));
  if (__curbrk >= to) return 0;
  errno = ENOMEM;
  return -1;
}

int our_shmdt(const void* addr) {
  const changes::scope s(nullptr,
                         SIZE_MAX);  // its size is not known here; the call is rare
  return static_cast<int>(syscall(SYS_shmdt, addr));
}

void* our_shmat(int id, const void* addr, int flags) {
  constexpr int remap = 040000;  // SHM_REMAP replaces existing mappings
  const changes::scope s(nullptr, (flags & remap) != 0 ? SIZE_MAX : 0);
  return reinterpret_cast<void*>(syscall(SYS_shmat, id, addr, flags));
}

int our_remap_file_pages(void* addr, std::size_t bytes, int prot, std::size_t page, int flags) {
  const changes::scope s(addr, bytes);
  return static_cast<int>(syscall(SYS_remap_file_pages, addr, bytes, prot, page, flags));
}

// ---- putting them in place

struct patch {
  const char* name;
  void* ours;
  std::atomic<std::uint64_t>* code = nullptr;
  std::uint64_t jump = 0;
};

patch patches[] = {
    {"munmap", reinterpret_cast<void*>(our_munmap)},
    {"mmap", reinterpret_cast<void*>(our_mmap)},
    {"mremap", reinterpret_cast<void*>(our_mremap)},
    {"madvise", reinterpret_cast<void*>(our_madvise)},
    {"brk", reinterpret_cast<void*>(our_brk)},
    {"shmdt", reinterpret_cast<void*>(our_shmdt)},
    {"shmat", reinterpret_cast<void*>(our_shmat)},
    {"remap_file_pages", reinterpret_cast<void*>(our_remap_file_pages)},
};

// A page within reach of a 32-bit jump from libc, or null.
std::uint8_t* page_near(std::uintptr_t code) {
  constexpr std::uintptr_t step = 1 << 20, reach = 1u << 30;
  for (std::uintptr_t d = step; d < reach; d += step)
    for (const std::uintptr_t at : {code - d, code + d}) {
      void* p =
          mmap(reinterpret_cast<void*>(at & ~(x86_page - 1)), x86_page, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
      if (p == MAP_FAILED) continue;
      const auto got = reinterpret_cast<std::uintptr_t>(p);
      if (got - code + reach < 2 * std::uintptr_t{reach}) return static_cast<std::uint8_t*>(p);
      munmap(p, x86_page);  // an old kernel that takes the address as a hint
    }
  return nullptr;
}

// True if the code begins like a function that no library has replaced: not with a jump.
bool untouched(const std::uint8_t* code) {
  const bool absolute = code[0] == 0x49 && code[1] == 0xbb;  // movabs r11, as other libraries do it
  const bool indirect = code[0] == 0xff && code[1] == 0x25;
  return code[0] != 0xe9 && code[0] != 0xcc && !absolute && !indirect;
}

const char* install() {
  // ThreadSanitizer makes these calls from inside itself, where instrumented code must not run.
  if (dlsym(RTLD_DEFAULT, "__tsan_init") != nullptr) return "ThreadSanitizer is in the process";
  void* libc = dlopen("libc.so.6", RTLD_NOLOAD | RTLD_LAZY);
  if (libc == nullptr) return "libc is linked statically";
  for (patch& p : patches) {
    void* f = dlsym(libc, p.name);
    if (f == nullptr || reinterpret_cast<std::uintptr_t>(f) % 8 != 0) return p.name;
    if (!untouched(static_cast<const std::uint8_t*>(f))) return "somebody else has replaced a call";
    p.code = static_cast<std::atomic<std::uint64_t>*>(f);
  }
  // libc will jump into this object for as long as the process lives: it must not be unloaded.
  Dl_info self{};
  if (dladdr(reinterpret_cast<void*>(&our_munmap), &self) != 0)
    (void)dlopen(self.dli_fname, RTLD_NOLOAD | RTLD_NODELETE | RTLD_LAZY);
  std::uint8_t* stubs = page_near(reinterpret_cast<std::uintptr_t>(patches[0].code));
  if (stubs == nullptr) return "no room near libc";
  std::uint8_t* stub = stubs;
  for (patch& p : patches) {
    const auto target = reinterpret_cast<std::uint64_t>(p.ours);
    const std::uint8_t to_r11[] = {0x49, 0xbb}, jump_r11[] = {0x41, 0xff, 0xe3};
    std::memcpy(stub, to_r11, 2);
    std::memcpy(stub + 2, &target, 8);
    std::memcpy(stub + 10, jump_r11, 3);
    const auto from = reinterpret_cast<std::uintptr_t>(p.code);
    const auto rel =
        static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(stub) - (from + 5));
    p.jump = (p.code->load(std::memory_order_relaxed) & ~((std::uint64_t{1} << 40) - 1)) |
             std::uint64_t{rel} << 8 | 0xe9;
    stub += 16;
  }
  if (mprotect(stubs, x86_page, PROT_READ | PROT_EXEC) != 0) return "no executable memory";
  // All pages are made writable first, so that either all calls are patched or none. They stay
  // executable, since other threads run there.
  const auto page_of = [](const patch& p) {
    return reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(p.code) & ~(x86_page - 1));
  };
  const auto protect = [&](int prot) {
    bool ok = true;
    for (const patch& p : patches)
      ok = syscall(SYS_mprotect, page_of(p), x86_page, prot) == 0 && ok;
    return ok;
  };
  const bool writable = protect(PROT_READ | PROT_WRITE | PROT_EXEC);
  // release: the stubs were written before, and are read through this jump only.
  for (const patch& p : patches)
    if (writable) p.code->store(p.jump, std::memory_order_release);
  protect(PROT_READ | PROT_EXEC);
  return writable ? nullptr : "libc's code cannot be written";
}

// Asks libc's own function, not through any symbol of ours, whether it reports now.
bool works() {
  void* p = mmap(nullptr, x86_page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return false;
  const std::uint64_t before = changes::count();
  auto libc_munmap = reinterpret_cast<int (*)(void*, std::size_t)>(patches[0].code);
  return libc_munmap(p, x86_page) == 0 && changes::count() > before;
}

bool intact() noexcept {
  static const bool installed = [] {
    const char* why = install();
    if (why == nullptr && works()) return true;
    log(log_level::info, "firehose: libc's mapping calls are not interposed: %s",
        why != nullptr ? why : "the replaced calls do not report");
    return false;
  }();
  if (!installed) return false;
  for (const patch& p : patches)
    if (p.code->load(std::memory_order_relaxed) != p.jump) return false;
  return true;
}

}  // namespace

void offer_interposing() noexcept { changes::set_activator(&intact); }

}  // namespace penstock::firehose

// The dynamic linker unmaps by its own copy of the call, and memory inside an unloaded library may
// have been a buffer.
extern "C" [[gnu::visibility("default")]] int dlclose(void* handle) noexcept {
  using function = int (*)(void*);
  static const auto next = reinterpret_cast<function>(dlsym(RTLD_NEXT, "dlclose"));
  const penstock::firehose::changes::scope s(nullptr, SIZE_MAX);
  return next != nullptr ? next(handle) : -1;
}
