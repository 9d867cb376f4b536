// Whether the kernel is asked to let other processes into this one's memory: opening the device
// asks for it, unless the setting says no. The program's own prctl() sees the request.
#include <doctest/doctest.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdarg>

#include "lib/base/settings.hpp"
#include "nic/device.hpp"

namespace {
std::atomic<int> asked{0};
}

extern "C" int prctl(int option, ...) {
  va_list rest;
  va_start(rest, option);
  unsigned long a[4];
  for (unsigned long& x : a) x = va_arg(rest, unsigned long);
  va_end(rest);
  if (option == PR_SET_PTRACER && a[0] == PR_SET_PTRACER_ANY) asked.fetch_add(1);
  return static_cast<int>(::syscall(SYS_prctl, option, a[0], a[1], a[2], a[3]));
}

namespace penstock::nic {
namespace {

TEST_CASE("a process that opens shm0 lets its peers read and write its memory") {
  settings s;
  s.device = "shm0";
  asked = 0;
  const auto d = open_device(s);
  REQUIRE(d);
  CHECK(asked == 1);
}

TEST_CASE("ANY_PTRACER=no leaves the kernel's rule as it is") {
  const char* const environment[] = {"PENSTOCK_DEVICE=shm0", "PENSTOCK_ANY_PTRACER=no"};
  const auto s = read_settings({}, environment, "");
  REQUIRE(s);
  asked = 0;
  const auto d = open_device(*s);
  REQUIRE(d);
  CHECK(asked == 0);
}

}  // namespace
}  // namespace penstock::nic
