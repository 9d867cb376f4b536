// See limits.hpp.
#include "tools/peninfo/limits.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include "lib/base/settings.hpp"
#include "memreg/limits.hpp"

namespace peninfo {

std::string limits_text() {
  struct row {
    __rlimit_resource which;
    const char* name;
    std::uint64_t unit;
    const char* what;
  };
  static constexpr row rows[] = {
      {RLIMIT_NOFILE, "ulimit -n", 1, "descriptors; some for each peer on this host"},
      {RLIMIT_NPROC, "ulimit -u", 1, "processes and threads of this user"},
      {RLIMIT_MEMLOCK, "ulimit -l", 1024, "KiB that may be pinned on a verbs device"},
      {RLIMIT_AS, "ulimit -v", 1024, "KiB of address space; shm0 maps 4 GiB for each peer"},
      {RLIMIT_FSIZE, "ulimit -f", 1024, "KiB of a file; shm0 shares memory by files of 4 GiB"},
  };
  const auto number = [](std::uint64_t v, std::uint64_t unit) {
    return v == RLIM_INFINITY ? std::string("unlimited") : fmt::format("{}", v / unit);
  };
  std::string out = "\nLimits of a process\n";
  for (const row& r : rows) {
    rlimit l{};
    if (getrlimit(r.which, &l) != 0) continue;
    std::string value = number(l.rlim_cur, r.unit);
    if (l.rlim_max != l.rlim_cur) value += " of " + number(l.rlim_max, r.unit);
    out += fmt::format("  {:<22} {:>20}  {}\n", r.name, value, r.what);
  }
  const auto s = penstock::read_settings();
  if (!s) return out;
  const auto b = penstock::memreg::probe_pin_budget(*s, 1);
  out += fmt::format("  {:<22} {:>20}  by {} (shm0 pins nothing)\n", "memory to pin",
                     penstock::memreg::human_bytes(b.per_process), b.binding);
  return out;
}

}  // namespace peninfo
