// Job program: puts, gets and Longs from blocks of the program's own malloc, of many sizes and
// several threads. any_memory registered: with libpenstock-heap in the process, no transfer has to
// search for a registration; any_memory cached: without it, transfers do.
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <thread>

#include "lib/conduit/engine.hpp"
#include "lib/conduit/one_sided/rma.hpp"
#include "test/rma/job.hpp"

using namespace penstock;

namespace {
struct mailbox {
  std::size_t bytes = 0;
  void on_long(token&, std::span<std::byte> payload) { bytes = payload.size(); }
};
}  // namespace

int main(int argc, char** argv) {
  const bool registered = argc > 1 && std::string_view(argv[1]) == "registered";
  constexpr std::size_t most = 5 << 20;  // more than a chunk of that heap
  auto w = world::join();
  if (!w) fatal(3, "%s", w.error().message().c_str());
  mailbox box;
  endpoint ep = test::open_endpoint(*w);
  const auto arrived = ep.add<&mailbox::on_long>(&box);
  if (auto r = ep.start(2 * most); !r) fatal(3, "%s", r.error().message().c_str());
  test::job j{std::move(*w), std::move(ep)};
  remote_memory m(j.ep);
  const rank_id to = (j.ep.rank() + 1) % j.ep.size();
  std::vector<std::byte*> blocks;
  std::thread([&blocks] {  // another thread's arena
    for (const std::size_t n : {most, std::size_t{70000}, std::size_t{3} << 20})
      blocks.push_back(static_cast<std::byte*>(std::malloc(n)));
  })
      .join();
  for (const std::size_t n : {most, std::size_t{70000}, std::size_t{3} << 20})
    blocks.push_back(static_cast<std::byte*>(std::malloc(n)));
  std::uint32_t seed = j.ep.rank();
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const std::size_t n = i % 3 == 0 ? most : i % 3 == 1 ? 70000 : std::size_t{3} << 20;
    const std::span<std::byte> block(blocks[i], n);
    test::fill(block, ++seed);
    JOB_CHECK(m.put_nbi(to, j.at(to, 0), block, source_reuse::on_completion) == status::ok);
    JOB_CHECK(m.wait_puts() == status::ok);
    std::memset(block.data(), 0, n);
    JOB_CHECK(m.get(block, to, j.at(to, 0)) == status::ok);
    JOB_CHECK(test::holds(block, seed));
    // And as a Long, behind: the neighbour's arrives here, as long.
    JOB_CHECK(j.ep.request_long(to, arrived, block, j.at(to, most)) == status::ok);
    JOB_CHECK(j.ep.wait_until([&box, n] { return box.bytes == n; }) == status::ok);
    j.meet();
    box.bytes = 0;
    const std::uint32_t from = (j.ep.rank() + j.ep.size() - 1) % j.ep.size();
    const std::span<const std::byte> landed(j.at(j.ep.rank(), most), n);
    JOB_CHECK(test::holds(landed, seed + from - j.ep.rank()));
    j.meet();
  }
  const firehose::pool* const cache = j.ep.internals().one_sided().cache();
  if (cache == nullptr) fatal(9, "this job has no cache of registrations");
  const std::uint64_t misses = cache->statistics().misses;
  std::printf("rank %u: %llu registrations by the cache\n", j.ep.rank(),
              static_cast<unsigned long long>(misses));
  if (registered != (misses == 0))
    fatal(9, "registered %d, registrations by the cache %llu", registered,
          static_cast<unsigned long long>(misses));
  j.meet();
  for (std::byte* const b : blocks) std::free(b);
  return 0;
}
