// A child made by fork() of the C++ interface: its calls fail, its destructors do no harm, and the
// parent's job goes on. The parent checks how each child ends.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

#include "penstock/rma.hpp"
#include "test/child.h"
#include "test/conduit/job_check.hpp"

using namespace penstock;

namespace {

unsigned handled = 0;
void on_note(token&) { ++handled; }

// In the child: 1 if all was refused.
int try_calls(world& w, endpoint& ep, remote_memory& rma, short_handler<> note) {
  const rank_id next = (ep.rank() + 1) % ep.size();
  for (const rank_id to : {next, ep.rank()})
    if (ep.request_short(to, note) != status::shut_down) return 2;
  if (ep.poll() != status::shut_down || ep.barrier() != status::shut_down) return 3;
  std::byte b[64] = {};
  for (const rank_id to : {next, ep.rank()}) {
    if (rma.put(to, ep.segment_of(to).data(), b) != status::shut_down) return 4;
    if (rma.get(b, to, ep.segment_of(to).data()) != status::shut_down) return 4;
  }
  if (w.exchange({}) || endpoint::open(w) || world::join()) return 5;
  return 1;
}

}  // namespace

int main() {
  auto w = world::join();
  JOB_CHECK(w);
  endpoint ep = test::open_endpoint(*w);
  const auto note = ep.add<on_note>();
  if (auto r = ep.start(4096); !r) fatal(3, "%s", r.error().message().c_str());
  const rank_id next = (ep.rank() + 1) % ep.size();
  remote_memory rma(ep);
  JOB_CHECK(rma.put_value(next, reinterpret_cast<int*>(ep.segment_of(next).data()), 1) ==
            status::ok);
  JOB_CHECK(ep.request_short(next, note) == status::ok);
  JOB_CHECK(ep.barrier() == status::ok);
  for (int round = 0; round < 3; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      in_child = 1;
      const int code = try_calls(*w, ep, rma, note);
      if (round == 1) return code;  // with destructors
      if (round == 2) w->exit(code);
      ::_exit(code);
    }
    int status_of = 0;
    JOB_CHECK(::waitpid(child, &status_of, 0) == child);
    if (!WIFEXITED(status_of) || WEXITSTATUS(status_of) != 1)
      fatal(3, "round %d: the child ended with %x", round, static_cast<unsigned>(status_of));
    JOB_CHECK(ep.request_short(next, note) == status::ok);
    JOB_CHECK(ep.barrier() == status::ok);
  }
  JOB_CHECK(ep.wait_until([] { return handled == 4; }) == status::ok);
  return 0;
}
