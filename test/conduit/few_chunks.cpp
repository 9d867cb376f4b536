// Job program: all threads of rank 0 but one stand still in handlers, and so hold all reply chunks
// but one. The one that is left goes on taking requests without an answer, whose credits and chunks
// need a reply chunk to go back (where none of it is inline).
//   few_chunks THREADS REQUESTS
#include <atomic>
#include <cstdlib>
#include <ctime>
#include <thread>
#include <vector>

#include "test/conduit/job_check.hpp"

using namespace penstock;

namespace {

struct side {
  std::atomic<unsigned> standing{0}, handled{0};
  std::atomic<bool> let_go{false};
  unsigned expected = 0;  // requests that do not stand

  void on_stand(token&) {
    standing.fetch_add(1);
    while (!let_go.load()) {
      const timespec moment{0, 200'000};
      nanosleep(&moment, nullptr);
    }
  }
  void on_visit(token&) {
    if (handled.fetch_add(1) + 1 == expected) let_go.store(true);
  }
};

}  // namespace

int main(int argc, char** argv) {
  JOB_CHECK(argc > 2);
  const auto threads = static_cast<unsigned>(std::atoi(argv[1]));
  auto w = world::join();
  JOB_CHECK(w);
  side here;
  endpoint ep = test::open_endpoint(*w);
  here.expected = static_cast<unsigned>(std::atoi(argv[2]));
  const auto stand = ep.add<&side::on_stand>(&here);
  const auto visit = ep.add<&side::on_visit>(&here);
  if (auto r = ep.start(); !r) fatal(3, "%s", r.error().message().c_str());
  JOB_CHECK(ep.size() == 2);
  const auto take = [&] {
    JOB_CHECK(ep.wait_until([&] { return here.let_go.load(); }) == status::ok);
  };
  // They are there before a request comes, since this thread may be the first to stand.
  std::vector<std::thread> others;
  for (unsigned i = 1; i < threads && ep.rank() == 0; ++i) others.emplace_back(take);
  JOB_CHECK(ep.barrier() == status::ok);
  if (ep.rank() == 1) {
    for (unsigned i = 1; i < threads; ++i) JOB_CHECK(ep.request_short(0, stand) == status::ok);
    for (unsigned i = 0; i < here.expected; ++i)
      JOB_CHECK(ep.request_short(0, visit) == status::ok);
  } else {
    take();
    for (auto& t : others) t.join();
    JOB_CHECK(here.standing.load() == threads - 1);
  }
  JOB_CHECK(ep.barrier() == status::ok);
  return 0;
}
