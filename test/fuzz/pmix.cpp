// What a launcher answers by PMIx: statuses, values of any type and none, ranks and sizes. A
// process that joins has a place in the job, and neighbours that are ranks of it; another gets a
// line.
#include "test/fuzz/pmix_library.hpp"

#include <algorithm>

#include "lib/job/launchers.hpp"

using namespace penstock;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  fuzz::pmix_says({data, bytes});
  {
    const auto joined = job::join_pmix({});
    if (!joined) {
      FUZZ_CHECK(!joined.error().message().empty());
    } else {
      job::job& j = **joined;
      FUZZ_CHECK(fuzz::pmix_users() == 1);
      FUZZ_CHECK(j.rank() < j.size() && j.size() <= job::most_ranks);
      const auto& near = j.host_ranks();
      FUZZ_CHECK(j.host_rank() < near.size() && near[j.host_rank()] == j.rank());
      FUZZ_CHECK(near.back() < j.size());
      FUZZ_CHECK(std::adjacent_find(near.begin(), near.end(), std::greater_equal<>()) ==
                 near.end());
      FUZZ_CHECK(j.name().size() == 32);
      const std::byte mine[] = {std::byte{1}, std::byte{2}};
      if (const auto all = j.exchange(mine)) FUZZ_CHECK(all->size() == j.size());
      (void)j.fence().has_value();
      if (j.begin_fence()) (void)j.fence_is_over().has_value();
      j.finalize(0);
    }
  }
  FUZZ_CHECK(fuzz::pmix_users() == 0);
  return 0;
}
