// Parsing and probing for limits.hpp, and the account's cold part.
#include "memreg/limits.hpp"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <memory>

namespace penstock::memreg {
namespace {

failure bad_setting(std::string_view text) {
  return {"\"" + std::string(text) + "\" is neither a part of memory nor a size", EINVAL,
          "write it like 0.8, 5/8, 80%, 512M or 64G"};
}

// The multiplier of a suffix such as "G", "GB" or "GiB"; 0 if it is none.
double suffix_factor(std::string_view s) {
  if (s.empty()) return 0;
  const char c = static_cast<char>(std::toupper(static_cast<unsigned char>(s[0])));
  const std::string_view rest = s.substr(1);
  if (c == 'B' && rest.empty()) return 1;
  if (!rest.empty() && rest != "B" && rest != "b" && rest != "iB" && rest != "ib") return 0;
  const auto power = std::string_view("KMGT").find(c);
  return power == std::string_view::npos ? 0 : std::ldexp(1.0, 10 * (static_cast<int>(power) + 1));
}

// CAP_IPC_LOCK in the effective set: RLIMIT_MEMLOCK then does not bind.
bool may_lock_any() {
  constexpr unsigned cap_ipc_lock = 14;
  std::ifstream in("/proc/self/status");
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

// The handle of an accounted registration.
struct accounted {
  registration inner;
  std::uint64_t bytes;
};

}  // namespace

std::uint64_t memory_setting::of(std::uint64_t physical) const noexcept {
  return is_ratio ? static_cast<std::uint64_t>(static_cast<double>(physical) * ratio) : bytes;
}

result<memory_setting> parse_memory_setting(std::string_view text, std::uint64_t unit) {
  const std::string s(text);
  char* end = nullptr;
  double v = std::strtod(s.c_str(), &end);
  // strtod also takes "inf", "nan", hexadecimal and leading spaces, which no size needs.
  if (s.empty() || s.find_first_not_of("0123456789.") == 0 || s.find_first_of("xXpP") < s.size() ||
      end == s.c_str())
    return bad_setting(text);
  memory_setting m;
  std::string_view rest(end);
  if (!rest.empty() && rest[0] == '/') {
    const std::string below(rest.substr(1));
    const double d = std::strtod(below.c_str(), &end);
    if (below.empty() || below.find_first_not_of("0123456789.") != std::string::npos ||
        *end != '\0' || d <= 0)
      return bad_setting(text);
    v /= d;
    if (v > 1) return bad_setting(text);
    rest = {};
  } else if (rest == "%") {
    v /= 100;
    if (v > 1) return bad_setting(text);
    rest = {};
  } else if (!rest.empty() || v > 1) {
    const double factor = rest.empty() ? static_cast<double>(unit) : suffix_factor(rest);
    const double bytes = v * factor;
    if (factor == 0 || bytes < 1 || bytes >= 0x1p63) return bad_setting(text);
    m.is_ratio = false;
    m.ratio = 0;
    m.bytes = static_cast<std::uint64_t>(bytes);
    return m;
  }
  if (!(v > 0)) return bad_setting(text);
  m.ratio = v;
  return m;
}

result<pin_budget> probe_pin_budget(const pin_settings& settings) {
  const host_memory host = probe_host_memory();
  pin_budget b;
  b.physical = host.physical;
  b.host_limit = unlimited;
  std::string by;
  const bool neither = settings.physmem_max.empty() && settings.pinnable_ratio.empty();
  const std::pair<const char*, std::string> given[] = {
      {"GASNET_PHYSMEM_MAX", neither ? std::string("0.8") : settings.physmem_max},
      {"GASNET_PHYSMEM_PINNABLE_RATIO", settings.pinnable_ratio}};
  for (const auto& [name, text] : given) {
    if (text.empty()) continue;
    auto parsed = parse_memory_setting(text);
    if (!parsed) {
      failure e = parsed.error();
      e.what = std::string(name) + ": " + e.what;
      return e;
    }
    const std::uint64_t bytes = std::min(parsed->of(b.physical), b.physical);
    if (bytes < b.host_limit) {
      b.host_limit = bytes;
      by = std::string(name) + "=" + text + " of " + human_bytes(b.physical);
    }
  }
  b.memlock = raised_memlock();
  b.memlock_exempt = may_lock_any();
  const unsigned n = std::max(1u, settings.processes_on_host);
  const std::uint64_t share = round_down(b.host_limit / n, page_bytes());
  if (!b.memlock_exempt && b.memlock < share) {
    b.per_process = round_down(b.memlock, page_bytes());
    b.binding = "ulimit -l (" + human_bytes(b.memlock) + ")";
    b.hint =
        "raise ulimit -l (memlock in /etc/security/limits.conf, LimitMEMLOCK in the launcher's "
        "service)";
  } else {
    b.per_process = share;
    b.binding = by + (n > 1 ? " shared by " + std::to_string(n) + " processes" : "");
    b.hint = "raise GASNET_PHYSMEM_MAX, or run fewer processes on this host";
  }
  return b;
}

bool pin_account::try_take(std::uint64_t bytes) noexcept {
  std::uint64_t now = taken_.load(std::memory_order_relaxed);
  do {
    if (now > budget_.per_process || bytes > budget_.per_process - now) return false;
  } while (!taken_.compare_exchange_weak(now, now + bytes, std::memory_order_relaxed,
                                         std::memory_order_relaxed));
  return true;
}

void pin_account::give(std::uint64_t bytes) noexcept {
  taken_.fetch_sub(bytes, std::memory_order_relaxed);
}

failure pin_account::refusal(std::uint64_t bytes) const {
  return {"pinning " + human_bytes(bytes) + ": " + human_bytes(taken()) +
              " are pinned, the limit is " + human_bytes(budget_.per_process) + " by " +
              budget_.binding,
          ENOMEM, budget_.hint};
}

result<registration> accounted_registrar::reg(void* addr, std::size_t bytes, unsigned access_bits) {
  if (!account_.try_take(bytes)) return account_.refusal(bytes);
  auto r = device_.reg(addr, bytes, access_bits);
  if (!r) {
    failure e = r.error();
    account_.give(bytes);
    if (e.code == ENOMEM && e.hint.empty()) e.hint = account_.budget().hint;
    return e;
  }
  return registration{r->lkey, r->rkey, new accounted{*r, bytes}};
}

void accounted_registrar::dereg(registration r) noexcept {
  const std::unique_ptr<accounted> a(static_cast<accounted*>(r.handle));
  if (a == nullptr) return;
  device_.dereg(a->inner);
  account_.give(a->bytes);
}

}  // namespace penstock::memreg
