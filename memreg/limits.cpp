// Probing for limits.hpp.
#include "memreg/limits.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

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

pin_budget probe_pin_budget(memory_limit host_limit, unsigned processes_on_host, bool device_pins) {
  pin_budget b;
  b.physical = probe_host_memory().physical;
  const unsigned n = std::max(1u, processes_on_host);
  b.host_limit = std::min(host_limit.of(b.physical, n), b.physical);
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
    b.binding = "GASNET_PHYSMEM_MAX (" + human_bytes(b.host_limit) + " of " +
                human_bytes(b.physical) + ", shared by " + std::to_string(n) +
                (n == 1 ? " process)" : " processes)");
    b.hint = "raise GASNET_PHYSMEM_MAX, or run fewer processes on this host";
  }
  return b;
}

}  // namespace penstock::memreg
