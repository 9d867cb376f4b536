// The benchmarks' bare-verbs twin works on this device: between two processes, with counts that
// wrap its queues many times.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>

#include "perf/twin_verbs.hpp"
#include "test/conformance/roles.hpp"

namespace penstock::conformance {
namespace {

using measurement = std::function<void(perf::verbs_twin&, bool leader)>;

/// Runs the measurement in two processes.
void measure(const measurement& m) {
  const auto run = [&m](bool leader) {
    return [&m, leader](link& l) {
      node n;
      const auto swap = [&l](const void* mine, void* theirs) {
        l.put(mine, 64);
        l.get(theirs, 64);
        return true;
      };
      perf::twin_options o;
      o.max_bytes = 64 << 10;
      o.depth = 64;
      o.timeout_ns = patience_ns;
      auto twin = perf::verbs_twin::connect(n.dev, swap, leader, o);
      expect(static_cast<bool>(twin), twin ? "" : twin.error().message());
      m(*twin, leader);
    };
  };
  as_processes(run(true), run(false));
}

template <class R>
void good(const R& r) {
  expect(static_cast<bool>(r), r ? "" : r.error().message());
}

}  // namespace

TEST_CASE("the twin's ping-pong fills every sample at the leader and none at the other") {
  for (const std::uint32_t bytes : {0u, 8u, 4096u, 65536u}) {
    CAPTURE(bytes);
    measure([bytes](perf::verbs_twin& t, bool leader) {
      std::vector<std::uint64_t> samples(150);
      good(t.ping_pong(bytes, 8, 20, samples));
      expect((std::ranges::count(samples, 0u) == 0) == leader, "samples at the leader only");
    });
  }
}

TEST_CASE("the twin's message rate counts what the receiver has confirmed") {
  for (const std::uint32_t bytes : {8u, 4096u}) {
    CAPTURE(bytes);
    measure([bytes](perf::verbs_twin& t, bool leader) {
      // Not a multiple of the receiver's batches, so that the last one is a partial one.
      auto r = t.send_rate(bytes, 1001);
      good(r);
      if (leader) expect(r->ns > 0 && r->count == 1001 && r->bytes == bytes, "a rate");
    });
  }
}

TEST_CASE("the twin measures each one-sided operation") {
  for (const auto op : {perf::one_sided::write, perf::one_sided::read, perf::one_sided::fetch_add})
    measure([op](perf::verbs_twin& t, bool leader) {
      std::vector<std::uint64_t> samples(100);
      good(t.latency(op, 8, 10, samples));
      expect((std::ranges::count(samples, 0u) == 0) == leader, "samples at the leader only");
      auto r = t.rate(op, 1024, 301);
      good(r);
      if (leader) expect(r->ns > 0 && r->count == 301, "a rate");
    });
}

TEST_CASE("the twin refuses messages larger than it was made for, and stays usable") {
  measure([](perf::verbs_twin& t, bool) {
    std::vector<std::uint64_t> samples(10);
    expect(!t.ping_pong((64 << 10) + 1, 8, 0, samples), "a refusal");
    good(t.ping_pong(8, 8, 0, samples));
  });
}

}  // namespace penstock::conformance
