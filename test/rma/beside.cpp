// Job program, with a progress thread: large puts and gets that are not waited for go on while the
// program makes no call. Each rank begins them, and then only looks at its own memory until all
// bytes are there: those of its own gets, and of the others' puts.
#include <ctime>

#include "lib/base/clock.hpp"
#include "test/rma/job.hpp"

using namespace penstock;

namespace {

constexpr std::size_t most = (std::size_t{16} << 20) + 5, behind = 64;
constexpr std::uint64_t limit_ns = 60'000'000'000;

// What others write meanwhile: the program may look at it, though not rely on it before it waits.
__attribute__((no_sanitize("thread"))) bool hold_now(std::span<const std::byte> bytes,
                                                     std::uint32_t seed) {
  const volatile std::byte* const at = bytes.data();
  std::size_t i = 0;
  while (i < bytes.size() && at[i] == test::pattern(seed, i)) ++i;
  return i == bytes.size();
}

// Looks, without a call of the library's, until the bytes are those of seed.
void await(std::span<const std::byte> bytes, std::uint32_t seed, const char* what) {
  const std::uint64_t until = now_ns() + limit_ns;
  while (!hold_now(bytes, seed)) {
    if (now_ns() > until)
      fatal(9, "%s of %zu bytes did not go on while the program computed", what, bytes.size());
    const timespec moment{0, 2'000'000};
    nanosleep(&moment, nullptr);
  }
}

// Every rank puts n bytes to the next one, gets as many of what the rank after it never changes,
// and computes until both are there.
void both_ways(test::job& j, remote_memory& m, std::size_t n) {
  const rank_id me = j.ep.rank(), size = j.ep.size(), next = (me + 1) % size;
  std::vector<std::byte> from(n), to(n);
  test::fill(from, me + static_cast<std::uint32_t>(n));
  j.meet();
  operation put = m.put_nb(next, j.at(next, 0), from, source_reuse::on_completion);
  operation get = m.get_nb(to, next, j.at(next, most + behind));
  const rank_id before = (me + size - 1) % size;
  await(j.ep.segment().first(n), before + static_cast<std::uint32_t>(n), "a put");
  await(to, 77 + next, "a get");
  JOB_CHECK(put.wait() == status::ok);
  JOB_CHECK(get.wait() == status::ok);
  JOB_CHECK(test::holds(j.ep.segment().first(n), before + static_cast<std::uint32_t>(n)));
  JOB_CHECK(test::holds(to, 77 + next));
  JOB_CHECK(j.ep.segment()[n] == test::guard);
  j.meet();
  std::fill_n(j.ep.segment().data(), n, test::guard);
}

}  // namespace

int main() {
  auto j = test::job::start(2 * (most + behind));
  std::fill_n(j.ep.segment().data(), most + behind, test::guard);
  const auto fixed = j.ep.segment().subspan(most + behind, most);
  remote_memory m(j.ep);
  constexpr std::size_t handed = std::size_t{512} << 10;  // what is smaller is copied by the call
  for (const std::size_t n : {handed - 1, handed, handed + 1, 5 * handed / 2 + 3, most}) {
    test::fill(fixed.first(n), 77 + j.ep.rank());
    both_ways(j, m, n);
  }
  return 0;
}
