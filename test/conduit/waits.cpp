// Job program: rank 1 computes for some seconds, without a poll, while the others wait for it.
//   waits barrier|quiet SECONDS
// Each wait reports itself on stderr, and the test that started this reads it.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "test/conduit/job_check.hpp"

using namespace penstock;

namespace {

struct side {
  unsigned got = 0;
  void on_word(token&, std::uint32_t) { ++got; }
};

}  // namespace

int main(int argc, char** argv) {
  JOB_CHECK(argc > 2);
  const std::string_view way = argv[1];
  const auto long_s = static_cast<unsigned>(std::atoi(argv[2]));
  auto w = world::join();
  JOB_CHECK(w);
  side here;
  endpoint ep = test::open_endpoint(*w);
  const auto on_word = ep.add<&side::on_word>(&here);
  if (auto r = ep.start(4096); !r) fatal(3, "%s", r.error().message().c_str());
  JOB_CHECK(ep.barrier() == status::ok);

  if (ep.rank() == 1) ::sleep(long_s);
  if (ep.rank() == 0 && way == "quiet") {
    JOB_CHECK(ep.request_short(1, on_word, 1u) == status::ok);
    JOB_CHECK(ep.quiet() == status::ok);
  }
  JOB_CHECK(ep.barrier() == status::ok);
  if (ep.rank() == 0) std::puts("all came");
  return 0;
}
