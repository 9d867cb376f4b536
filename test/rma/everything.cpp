// Job program: puts, gets, sets and atomics to memory that is in no segment. Then owners replace
// the pages behind addresses to which others hold keys, and tell them; later puts and gets must use
// the new pages.
#include <sys/mman.h>

#include <cstring>
#include <memory>

#include "penstock/atomic.hpp"
#include "test/rma/job.hpp"

using namespace penstock;
using test::fill;
using test::holds;

namespace {

constexpr std::size_t area = 80 * 1024;  // of one rank, in each other's memory
constexpr std::size_t around = 16;
constexpr std::size_t shifting = 48 * 4096;

struct memory {
  std::byte* anywhere = nullptr;  // size * area bytes, at an odd address
  std::byte* mapped = nullptr;    // `shifting` bytes of pages that are replaced
  std::uint64_t* words = nullptr;
};

std::atomic<std::uint32_t> told{0}, replaced{0};
void on_told(token&, std::uint32_t round) { told.store(round, std::memory_order_release); }

std::byte* pages(void* at) {
  void* const p = mmap(at, shifting, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | (at != nullptr ? MAP_FIXED : 0), -1, 0);
  JOB_CHECK(p != MAP_FAILED);
  return static_cast<std::byte*>(p);
}

// A handler that replaces pages and says so by its reply.
memory mine;
short_handler<std::uint32_t> on_done_ref;
void on_replace(token& t, std::uint32_t round) {
  (void)pages(mine.mapped);
  fill({mine.mapped, shifting / 2}, round);
  JOB_CHECK(t.reply_short(on_done_ref, round) == status::ok);
}
void on_done(token&, std::uint32_t round) { replaced.store(round, std::memory_order_release); }

std::uint32_t seed = 0;

void there_and_back(remote_memory& m, rank_id to, std::byte* there, std::size_t n, bool nb) {
  std::vector<std::byte> source(n), back(n), frame(n + 2 * around);
  JOB_CHECK(m.set(to, there - around, test::guard, n + 2 * around) == status::ok);
  fill(source, ++seed);
  if (nb) {
    operation op = m.put_nb(to, there, source, source_reuse::on_return);
    std::fill(source.begin(), source.end(), std::byte{0});
    JOB_CHECK(op.wait() == status::ok);
    JOB_CHECK(m.get_nbi(back, to, there) == status::ok);
    JOB_CHECK(m.wait_gets() == status::ok);
  } else {
    JOB_CHECK(m.put(to, there, source) == status::ok);
    JOB_CHECK(m.get(back, to, there) == status::ok);
  }
  if (!holds(back, seed)) fatal(9, "%zu bytes to %u come back wrong", n, to);
  JOB_CHECK(m.get(frame, to, there - around) == status::ok);
  for (std::size_t i = 0; i < around; ++i)
    JOB_CHECK(frame[i] == test::guard && frame[around + n + i] == test::guard);
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t every = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 1;
  const unsigned rounds = argc > 2 ? static_cast<unsigned>(std::atoi(argv[2])) : 30;
  auto w = world::join();
  if (!w) fatal(3, "%s", w.error().message().c_str());
  endpoint ep = test::open_endpoint(*w);
  const auto tell = ep.add<on_told>();
  const auto replace = ep.add<on_replace>();
  on_done_ref = ep.add<on_done>();
  if (auto r = ep.start(4096, remote_access::everything); !r)
    fatal(3, "%s", r.error().message().c_str());
  remote_memory m(ep);
  const rank_id size = ep.size(), self = ep.rank();

  const auto heap = std::make_unique<std::byte[]>(size * area + 3);
  const auto words = std::make_unique<std::uint64_t[]>(2);
  mine = {heap.get() + 3, pages(nullptr), words.get()};
  const auto blobs = w->exchange(std::as_bytes(std::span(&mine, 1)));
  JOB_CHECK(blobs);
  std::vector<memory> all(size);
  for (rank_id r = 0; r < size; ++r) std::memcpy(&all[r], (*blobs)[r].data(), sizeof mine);

  std::size_t i = 0;
  for (rank_id to = 0; to < size; ++to)
    for (const std::size_t n : test::sizes())
      if (i++ % every == 0)
        there_and_back(m, to, all[to].anywhere + self * area + around + i % 13, n, i % 2 == 0);
  // In the segment still.
  for (rank_id to = 0; to < size; ++to)
    there_and_back(m, to, ep.segment_of(to).data() + self * 256 + around, 99, false);

  atomic_domain<std::uint64_t> d(m, atomic_ops::add | atomic_ops::get | atomic_ops::max);
  JOB_CHECK(!d.by_device());
  for (rank_id to = 0; to < size; ++to) {
    std::uint64_t old = 0;
    for (unsigned k = 0; k < 20; ++k)
      JOB_CHECK(d.fetch_add(to, all[to].words, 3, old) == status::ok);
    JOB_CHECK(d.max(to, all[to].words + 1, self + 5) == status::ok);
  }
  JOB_CHECK(ep.barrier() == status::ok);
  JOB_CHECK(words[0] == 60u * size && words[1] == size + 4);

  // Rank r's pages are replaced in each round; its neighbour writes into them, told by a message,
  // and reads what the owner wrote.
  const rank_id after = (self + 1) % size, before = (self + size - 1) % size;
  std::vector<std::byte> buffer(shifting);
  for (unsigned round = 1; round <= rounds; ++round) {
    switch (round % 3) {
      case 0:
        JOB_CHECK(munmap(mine.mapped, shifting) == 0);
        (void)pages(mine.mapped);
        break;
      case 1:
        JOB_CHECK(madvise(mine.mapped, shifting, MADV_DONTNEED) == 0);
        break;
      default:
        (void)pages(mine.mapped);
        break;
    }
    const std::span<std::byte> lower(mine.mapped, shifting / 2);
    const std::span<std::byte> upper(mine.mapped + shifting / 2, shifting / 2);
    fill(lower, round * 7 + self);
    if (size > 1) JOB_CHECK(ep.request_short(after, tell, round) == status::ok);
    JOB_CHECK(ep.wait_until([&] {
      return size == 1 || told.load(std::memory_order_acquire) == round;
    }) == status::ok);
    const std::span<std::byte> half = std::span(buffer).first(shifting / 2);
    JOB_CHECK(m.get(half, before, all[before].mapped) == status::ok);
    if (!holds(half, round * 7 + before)) fatal(9, "round %u: old pages were read", round);
    fill(half, round * 11 + self);
    JOB_CHECK(m.put(before, all[before].mapped + shifting / 2, half) == status::ok);
    JOB_CHECK(ep.barrier() == status::ok);
    if (!holds(upper, round * 11 + after)) fatal(9, "round %u: old pages were written", round);
    JOB_CHECK(ep.barrier() == status::ok);
  }

  // The same by a handler at the owner, whose reply tells.
  for (std::uint32_t round = 1; round <= rounds && size > 1; ++round) {
    JOB_CHECK(ep.request_short(before, replace, round) == status::ok);
    JOB_CHECK(ep.wait_until([&] { return replaced.load(std::memory_order_acquire) == round; }) ==
              status::ok);
    const std::span<std::byte> half = std::span(buffer).first(shifting / 2);
    JOB_CHECK(m.get(half, before, all[before].mapped) == status::ok);
    if (!holds(half, round)) fatal(9, "round %u: pages from before the handler were read", round);
  }
  JOB_CHECK(ep.barrier() == status::ok);

  // What can be refused.
  const rank_id to = after;
  JOB_CHECK(m.put(size, mine.anywhere, buffer) == status::bad_rank);
  JOB_CHECK(m.put(to, nullptr, buffer) == status::out_of_segment);
  JOB_CHECK(m.get(buffer, to, reinterpret_cast<void*>(UINTPTR_MAX - 8)) == status::out_of_segment);
  JOB_CHECK(ep.barrier() == status::ok);
  return 0;
}
