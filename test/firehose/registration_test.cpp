// The benchmark of registrations does what its rows say: hits hit, misses miss, and a working set
// twice the limit costs little more than registering each time. The test prints its figures.
#include "perf/reg/registration.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <string>

#include "test/memreg/fake_registrar.hpp"

using namespace penstock;

namespace {
// Costs what a registration on a kernel device does, more or less.
class slow_registrar final : public memreg::fake_registrar {
 public:
  result<memreg::registration> reg(void* a, std::size_t n, unsigned bits) override {
    const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(10);
    while (std::chrono::steady_clock::now() < until) {
    }
    return fake_registrar::reg(a, n, bits);
  }
};
}  // namespace

TEST_CASE("hits, misses and evictions are what is measured under these names") {
  slow_registrar device;
  perf::registration_options o;
  o.regions = 128;
  o.samples = 500;
  o.threads = 2;
  o.protect = firehose::protection::none;  // the cache's own cost; watching has its price beside it
  const auto f = perf::measure_registration(device, o);
  REQUIRE_MESSAGE(f.has_value(), (f ? "" : f.error().message()));
  CHECK(f->hits == std::uint64_t{2} * 500 * perf::hits_per_sample);
  CHECK(f->misses == 128 + 500);
  CHECK(f->evictions >= 500 - 16);
  CHECK(f->hit.p50 < f->miss.p50);
  // The margin is wide: other programs run on the machine.
  CHECK(f->evict.p50 < 4 * f->plain.p50);
  MESSAGE("hit ", f->hit.p50, " miss ", f->miss.p50, " evict ", f->evict.p50, " plain ",
          f->plain.p50, " ns (", std::string(f->protection), ")");
  CHECK(device.live().empty());
}

TEST_CASE("a device that cannot register ends the measurement with its message") {
  memreg::fake_registrar device;
  device.refuse = true;
  const auto f = perf::measure_registration(device, {});
  REQUIRE(!f);
  CHECK(f.error().what == "fake registration");
}
