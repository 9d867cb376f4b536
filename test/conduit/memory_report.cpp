// Job program: the memory report's rows of what is in memory now add up to what the kernel counts.
// All ranks talk to all, use their segments, put into those of others, and compare the growth of
// the process since before the endpoint (Rss of smaps, but for files on disk) with the sum.
//   memory_report [KIB]    what the heap and the stacks of Penstock's threads may have of it: the
//                          report counts them with the rest of the process. Default: 384 and a 20th
#include <malloc.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "penstock/penstock.hpp"
#include "penstock/rma.hpp"
#include "test/conduit/job_check.hpp"

using namespace penstock;

namespace {

std::uint64_t handled = 0;
void on_medium(token&, std::span<std::byte>) { ++handled; }

// Bytes in memory of all mappings but those of files on disk (the program and its libraries).
std::size_t in_memory() {
  ::malloc_trim(0);  // what the exchange at start has used and given back
  std::ifstream file("/proc/self/smaps");
  std::string line;
  std::size_t kb = 0, sum = 0;
  bool on_disk = false;
  while (std::getline(file, line)) {
    if (line.find('-') < line.find(' '))
      on_disk = line.find('/') != std::string::npos && line.find("/memfd:") == std::string::npos;
    else if (!on_disk && std::sscanf(line.c_str(), "Rss: %zu kB", &kb) == 1)
      sum += kb * 1024;
  }
  return sum;
}

std::size_t row(const std::string& report, const char* what) {
  const std::size_t at = report.find(what);
  if (at == std::string::npos) fatal(3, "no row '%s' in:\n%s", what, report.c_str());
  return std::strtoull(report.c_str() + at + std::strlen(what), nullptr, 10);
}

}  // namespace

int main(int argc, char** argv) {
  constexpr std::uint32_t messages = 640, bytes = 256;
  constexpr std::size_t segment = std::size_t{2} << 20;
  const std::size_t before = in_memory();
  auto w = world::join();
  JOB_CHECK(w);
  endpoint ep = test::open_endpoint(*w);
  const auto m = ep.add<on_medium>();
  if (auto r = ep.start(segment); !r) fatal(3, "%s", r.error().message().c_str());
  JOB_CHECK(ep.barrier() == status::ok);
  const std::uint32_t me = ep.rank(), all = ep.size();
  std::vector<std::byte> payload(bytes);
  for (std::uint32_t d = 1; d < all; ++d)
    for (std::uint32_t i = 0; i < messages; ++i)
      JOB_CHECK(ep.request_medium((me + d) % all, m, payload) == status::ok);
  const std::uint64_t due = std::uint64_t{all - 1} * messages;
  JOB_CHECK(ep.wait_until([&] { return handled == due; }) == status::ok);
  std::memset(ep.segment().data(), 1, segment);
  remote_memory mem(ep);
  const rank_id next = (me + 1) % all;
  JOB_CHECK(mem.put(next, ep.segment_of(next).data(), payload) == status::ok);
  JOB_CHECK(ep.barrier() == status::ok);

  const std::string report = ep.memory_report();
  const std::size_t grown = in_memory() - before;
  const std::size_t told = row(report, "Penstock's mappings in all");
  JOB_CHECK(row(report, "  penstock ") == segment);
  JOB_CHECK(ep.barrier() == status::ok);
  if (me == 0) std::printf("%s", report.c_str());
  if (me == 0) std::printf("grown by %zu bytes, %zu told\n", grown, told);
  const std::size_t apart = grown > told ? grown - told : told - grown;
  const std::size_t heap_and_stacks =
      argc > 1 ? std::strtoull(argv[1], nullptr, 10) << 10 : (384 << 10) + grown / 20;
  if (apart > heap_and_stacks)
    fatal(9, "%zu bytes told, %zu grown:\n%s", told, grown, report.c_str());
  return 0;
}
