// Job program: how much memory the rings of a process have after all ranks have talked to all, and
// after each has then talked to six neighbours only. The kernel tells it: the process's share of
// the files in which rings lie (Pss of smaps).
//   ring_memory MOST_KB [STEPS]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "penstock/penstock.hpp"
#include "test/conduit/job_check.hpp"

using namespace penstock;

namespace {

std::uint64_t handled = 0;
void on_medium(token&, std::span<std::byte> bytes, std::uint32_t seed) {
  JOB_CHECK(test::holds(bytes, seed));
  ++handled;
}

// KB of this process's share of what is mapped of the device's files.
std::uint64_t ring_kb() {
  std::ifstream file("/proc/self/smaps");
  std::string line;
  std::uint64_t kb = 0;
  bool ours = false;
  while (std::getline(file, line)) {
    if (line.find('-') < line.find(' ')) ours = line.find("penstock-shm") != std::string::npos;
    std::uint64_t n = 0;
    if (ours && std::sscanf(line.c_str(), "Pss: %lu kB", &n) == 1) kb += n;
  }
  return kb;
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t most_kb = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1536;
  const std::uint32_t steps = argc > 2 ? static_cast<std::uint32_t>(std::atoi(argv[2])) : 100;
  constexpr std::uint32_t in_a_burst = 640, bytes = 256, neighbours = 6, in_a_step = 16;
  auto w = world::join();
  JOB_CHECK(w);
  endpoint ep = test::open_endpoint(*w);
  const auto m = ep.add<on_medium>();
  if (auto r = ep.start(4096); !r) fatal(3, "%s", r.error().message().c_str());
  std::vector<std::byte> payload(bytes);
  const auto send = [&](rank_id to, std::uint32_t n) {
    for (std::uint32_t i = 0; i < n; ++i) {
      test::fill(payload, i);
      JOB_CHECK(ep.request_medium(to, m, payload, i) == status::ok);
    }
  };
  const std::uint32_t me = ep.rank(), all = ep.size();
  JOB_CHECK(ep.barrier() == status::ok);
  const std::uint64_t at_start = ring_kb();
  for (std::uint32_t d = 1; d < all; ++d) send((me + d) % all, in_a_burst);
  std::uint64_t due = std::uint64_t{all - 1} * in_a_burst;
  JOB_CHECK(ep.wait_until([&] { return handled == due; }) == status::ok);
  JOB_CHECK(ep.barrier() == status::ok);
  const std::uint64_t after_all = ring_kb();
  JOB_CHECK(ep.barrier() == status::ok);
  // The best of three readings: a process that has just not run has rings that it is yet to
  // shorten.
  std::uint64_t at_end = ~std::uint64_t{0};
  for (int reading = 0; reading < 3; ++reading) {
    for (std::uint32_t step = 0; step < steps; ++step) {
      for (std::uint32_t k = 1; k <= neighbours / 2; ++k) {
        send((me + k) % all, in_a_step);
        send((me + all - k) % all, in_a_step);
      }
      due += neighbours * in_a_step;
      JOB_CHECK(ep.wait_until([&] { return handled >= due; }) == status::ok);
    }
    JOB_CHECK(ep.barrier() == status::ok);
    at_end = std::min(at_end, ring_kb());
  }
  JOB_CHECK(ep.barrier() == status::ok);
  if (me == 0)
    std::printf(
        "KB of rings of rank 0 of %u: %lu at start, %lu after all have talked to all, %lu after "
        "six neighbours\n",
        all, at_start, after_all, at_end);
  if (at_end > most_kb) fatal(9, "%lu KB of rings are more than %lu", at_end, most_kb);
  return 0;
}
