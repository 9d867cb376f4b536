// Limits on pinned memory: which one binds, and what a refusal says.
#include "memreg/limits.hpp"

#include <doctest/doctest.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

using namespace penstock;
using namespace penstock::memreg;

namespace {

// Runs f in a child that has neither CAP_IPC_LOCK nor more than `memlock` bytes of RLIMIT_MEMLOCK.
template <class F>
int without_privilege(rlim_t memlock, F f) {
  const pid_t child = _Fork();  // without handlers: jemalloc's take more locks than TSan counts
  if (child == 0) {
    const rlimit r{memlock, memlock};
    if (setrlimit(RLIMIT_MEMLOCK, &r) != 0) _exit(90);
    __user_cap_header_struct head{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct none[2] = {};
    if (syscall(SYS_capset, &head, none) != 0) _exit(91);
    _exit(f() ? 0 : 1);
  }
  int code = -1;
  waitpid(child, &code, 0);
  return WIFEXITED(code) ? WEXITSTATUS(code) : -1;
}

settings with_limit(memory_limit m) {
  settings s;
  s.physmem_max = m;
  return s;
}

// A device that pins up to a limit.
struct limited : registrar {
  explicit limited(std::uint64_t l) : limit(l) {}
  std::uint64_t limit, pinned = 0, most = 0;
  result<registration> reg(void*, std::size_t bytes, unsigned) override {
    if (bytes > limit - pinned) return failure{"ibv_reg_mr", ENOMEM, ""};
    pinned += bytes;
    most = std::max(most, pinned);
    return registration{.bytes = bytes};
  }
  void dereg(registration r) noexcept override { pinned -= r.bytes; }
};

}  // namespace

TEST_CASE("what all processes of a host may pin is never more than the host's limit") {
  for (const unsigned n : {1u, 2u, 3u, 7u, 64u, 1000u}) {
    const pin_budget b = probe_pin_budget(with_limit({0, 1 << 30}), n);
    CHECK(b.per_process * n <= std::uint64_t{1} << 30);
  }
}

TEST_CASE("a ratio bounds the host's limit, and is named") {
  settings s = with_limit({0.5, 0});
  s.pinnable_ratio = {0.25, 0};
  const pin_budget b = probe_pin_budget(s, 1, false);
  CHECK(b.host_limit <= b.physical / 4);
  CHECK(b.binding.find("GASNET_PHYSMEM_PINNABLE_RATIO") == 0);
}

TEST_CASE("a trial finds what can be pinned, and leaves nothing pinned") {
  for (const std::uint64_t limit : {std::uint64_t{0}, std::uint64_t{5} << 20,
                                    std::uint64_t{77} << 20, std::uint64_t{1} << 40}) {
    limited device(limit);
    pin_budget b;
    b.per_process = 100 << 20;
    b.binding = "before";
    const pin_budget after = tried(b, device);
    const std::uint64_t can = std::min(limit, b.per_process);
    CHECK(after.per_process <= can);
    CHECK(after.per_process + (1 << 20) > can);
    CHECK(device.most == after.per_process);
    CHECK(device.pinned == 0);
    CHECK((after.binding == "before") == (limit > b.per_process));
  }
}

TEST_CASE("the processes of a host share its limit equally") {
  const pin_budget one = probe_pin_budget(with_limit({0.5, 0}), 1);
  const pin_budget four = probe_pin_budget(with_limit({0.5, 0}), 4);
  CHECK(one.host_limit == four.host_limit);
  CHECK(one.host_limit <= one.physical / 2);
  if (one.memlock_exempt) {
    CHECK(four.per_process <= one.per_process / 4);
    CHECK(four.per_process + page_bytes() > one.per_process / 4);
    CHECK(four.binding.find("GASNET_PHYSMEM_MAX") != std::string::npos);
  }
}

TEST_CASE("a limit above physical memory is physical memory") {
  const pin_budget b = probe_pin_budget(with_limit({0, std::uint64_t{1} << 60}), 1);
  CHECK(b.host_limit == b.physical);
}

TEST_CASE("without CAP_IPC_LOCK the locked-memory limit binds and is named") {
  const int code = without_privilege(8 << 20, [] {
    const pin_budget b = probe_pin_budget(with_limit({0.8, 0}), 2);
    return !b.memlock_exempt && b.memlock == 8 << 20 && b.per_process == 8 << 20 &&
           b.binding.find("ulimit -l (8.0 MiB)") == 0 &&
           b.hint.find("ulimit -l") != std::string::npos;
  });
  CHECK(code == 0);
}

TEST_CASE("with a device that pins nothing the locked-memory limit does not bind") {
  const int code = without_privilege(8 << 20, [] {
    const pin_budget b = probe_pin_budget(with_limit({0.5, 0}), 1, false);
    return !b.memlock_exempt && !b.by_memlock && b.per_process > std::uint64_t{16} << 20 &&
           b.binding.find("ulimit") == std::string::npos;
  });
  CHECK(code == 0);
}

TEST_CASE("sizes are written for people") {
  CHECK(human_bytes(512) == "512 bytes");
  CHECK(human_bytes(8 << 20) == "8.0 MiB");
  CHECK(human_bytes(unlimited) == "unlimited");
}
