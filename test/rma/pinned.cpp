// Job program: with less pinned memory than is transferred from outside the segment, everything
// arrives all the same. Memory is put from many places, so that the cache of registrations has to
// give up regions for each limit.
#include <cstring>

#include "test/rma/job.hpp"

using namespace penstock;

int main() {
  constexpr std::size_t bytes = 96 * 1024, places = 160;  // 15 MB
  auto j = test::job::start(2 * bytes + 4096);
  remote_memory m(j.ep);
  const rank_id to = (j.ep.rank() + 1) % j.ep.size();
  std::vector<std::byte> mine(places * bytes);
  for (std::size_t k = 0; k < places; ++k) {
    const auto part = std::span(mine).subspan(k * bytes, bytes);
    const auto seed = static_cast<std::uint32_t>(k * 2 + j.ep.rank());
    test::fill(part, seed);
    JOB_CHECK(m.put_nbi(to, j.at(to, 0), part, source_reuse::on_completion) == status::ok);
    JOB_CHECK(m.wait_puts() == status::ok);
    std::fill(part.begin(), part.end(), std::byte{0});
    JOB_CHECK(m.get(part, to, j.at(to, 0)) == status::ok);
    if (!test::holds(part, seed)) fatal(9, "place %zu: wrong bytes", k);
  }
  // All at once: what is in flight cannot be given up to make room, so the rest goes through
  // chunks.
  test::fill(j.ep.segment().subspan(bytes, bytes), 1000 + j.ep.rank());
  j.meet();
  for (std::size_t k = 0; k < places; ++k)
    JOB_CHECK(m.get_nbi(std::span(mine).subspan(k * bytes, bytes), to, j.at(to, bytes)) ==
              status::ok);
  JOB_CHECK(m.wait_gets() == status::ok);
  for (std::size_t k = 0; k < places; ++k)
    if (!test::holds(std::span(mine).subspan(k * bytes, bytes), 1000 + to))
      fatal(9, "place %zu: wrong bytes, all at once", k);
  j.meet();
  return 0;
}
