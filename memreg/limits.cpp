// Probing for limits.hpp.
#include "memreg/limits.hpp"

#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <utility>
#include <vector>

#include "lib/base/descriptors.hpp"

namespace penstock::memreg {
namespace {

// CAP_IPC_LOCK in the effective set: RLIMIT_MEMLOCK then does not bind.
bool may_lock_any() {
  constexpr unsigned cap_ipc_lock = 14;
  std::istringstream in(text_of("/proc/self/status"));
  for (std::string line; std::getline(in, line);)
    if (line.rfind("CapEff:", 0) == 0)
      return (std::strtoull(line.c_str() + 7, nullptr, 16) >> cap_ipc_lock & 1) != 0;
  return false;
}

// RLIMIT_MEMLOCK with the soft limit raised as far as the hard one lets us.
std::uint64_t raised_memlock() {
  rlimit r{};
  if (getrlimit(RLIMIT_MEMLOCK, &r) != 0) return unlimited;
  if (r.rlim_cur < r.rlim_max) {
    rlimit more = r;
    more.rlim_cur = r.rlim_max;
    if (setrlimit(RLIMIT_MEMLOCK, &more) == 0) r = more;
  }
  return r.rlim_cur == RLIM_INFINITY ? unlimited : r.rlim_cur;
}

}  // namespace

pin_budget probe_pin_budget(const settings& s, unsigned processes_on_host, bool device_pins) {
  pin_budget b;
  b.physical = probe_host_memory().physical;
  const unsigned n = std::max(1u, processes_on_host);
  const std::uint64_t most = s.pinnable(b.physical, n);
  b.host_limit = std::min(most, b.physical);
  const std::uint64_t can = s.pinnable_ratio.of(b.physical, n);
  const std::string name =
      can != 0 && can == most ? "GASNET_PHYSMEM_PINNABLE_RATIO" : "GASNET_PHYSMEM_MAX";
  b.memlock = raised_memlock();
  b.memlock_exempt = may_lock_any();
  const std::uint64_t share = round_down(b.host_limit / n, page_bytes());
  b.by_memlock = device_pins && !b.memlock_exempt && b.memlock < share;
  if (b.by_memlock) {
    b.per_process = round_down(b.memlock, page_bytes());
    b.binding = "ulimit -l (" + human_bytes(b.memlock) + ")";
    b.hint =
        "raise ulimit -l (memlock in /etc/security/limits.conf, LimitMEMLOCK in the launcher's "
        "service)";
  } else {
    b.per_process = share;
    b.binding = name + " (" + human_bytes(b.host_limit) + " of " + human_bytes(b.physical) +
                ", shared by " + std::to_string(n) + (n == 1 ? " process)" : " processes)");
    b.hint = "raise " + name + ", or run fewer processes on this host";
  }
  return b;
}

pin_budget tried(pin_budget b, registrar& with) {
  constexpr std::uint64_t least = 1 << 20;
  struct pinned {
    void* at;
    std::size_t bytes;
    registration keys;
  };
  std::vector<pinned> held;
  std::uint64_t sum = 0;
  for (std::uint64_t bytes = round_down(b.per_process, page_bytes()); bytes >= page_bytes();) {
    void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at != MAP_FAILED) {
      if (auto keys = with.reg(at, bytes, access::all)) {
        held.push_back({at, bytes, *keys});
        sum += bytes;
        bytes = std::min(bytes, b.per_process - sum);
        continue;
      }
      ::munmap(at, bytes);
    }
    if (bytes <= least) break;
    bytes = round_down(bytes / 2, page_bytes());
  }
  for (const pinned& p : held) {
    with.dereg(p.keys);
    ::munmap(p.at, p.bytes);
  }
  if (sum < round_down(b.per_process, page_bytes())) {
    b.per_process = sum;
    b.binding = "a trial, in which no more than " + human_bytes(sum) + " could be pinned";
    b.hint = "raise ulimit -l, lower GASNET_PHYSMEM_MAX, or free memory on this host";
  }
  return b;
}

}  // namespace penstock::memreg
