// Job program: mistakes of a program, and the status that each gets; none of them sends anything.
#include <vector>

#include "lib/conduit/engine.hpp"
#include "penstock/penstock.hpp"
#include "test/conduit/job_check.hpp"

using namespace penstock;

namespace {

int shorts = 0;
endpoint* here = nullptr;

void on_short(token& t, int) {
  ++shorts;
  JOB_CHECK(t.is_request());
  JOB_CHECK(here->poll() == status::in_handler);
}
void on_payload(token&, std::span<std::byte>) {}

}  // namespace

int main() {
  auto w = world::join();
  JOB_CHECK(w);
  endpoint ep = test::open_endpoint(*w);
  here = &ep;
  const auto s = ep.add<on_short>();
  const auto p = ep.add<on_payload>();
  JOB_CHECK(ep.request_short(0, s, 1) == status::shut_down);
  if (auto r = ep.start(4096); !r) fatal(3, "%s", r.error().message().c_str());
  JOB_CHECK(!ep.start(0));

  const rank_id next = (ep.rank() + 1) % ep.size();
  std::vector<std::byte> big(ep.max_medium() + 1);
  JOB_CHECK(ep.request_short(ep.size(), s, 1) == status::bad_rank);
  JOB_CHECK(ep.request_short(next, short_handler<int>{77}, 1) == status::bad_handler);
  JOB_CHECK(ep.request_short(next, short_handler<int>{0}, 1) == status::bad_handler);
  JOB_CHECK(ep.request_short(next, short_handler<int>{p.index}, 1) == status::bad_handler);
  JOB_CHECK(ep.request_medium(next, payload_handler<int>{s.index}, {}, 1) == status::bad_handler);
  JOB_CHECK(ep.request_medium(next, p, big) == status::too_long);
  JOB_CHECK(ep.request_medium(next, p, std::span(big).first(ep.max_medium())) == status::ok);
  auto* const base = ep.segment_of(next).data();
  JOB_CHECK(ep.request_long(next, p, std::span(big).first(64), base - 1) == status::out_of_segment);
  JOB_CHECK(ep.request_long(next, p, std::span(big).first(64), base + 4096 - 63) ==
            status::out_of_segment);
  JOB_CHECK(ep.request_long(next, p, std::span(big).first(64), nullptr) == status::out_of_segment);
  JOB_CHECK(ep.request_long(next, p, std::span(big).first(64), base + 4096 - 64) == status::ok);
  const std::uint32_t args[17] = {};
  JOB_CHECK(ep.internals().request(next, {.handler = s.index, .nargs = 17, .args = args}) ==
            status::bad_arguments);
  JOB_CHECK(ep.internals().request(next, {.kind = conduit::wire::kind::medium,
                                          .handler = p.index,
                                          .payload = nullptr,
                                          .bytes = 8}) == status::bad_arguments);
  JOB_CHECK(ep.request_short(next, s, 5) == status::ok);
  JOB_CHECK(ep.wait_until([] { return shorts == 1; }) == status::ok);
  JOB_CHECK(ep.barrier() == status::ok);
  return 0;
}
