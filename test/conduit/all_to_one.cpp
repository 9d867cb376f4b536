// Job program: every rank but 0 floods rank 0, which checks that each message came once, that no
// sender was left behind, and that the device never met a receive queue without a buffer.
//   all_to_one MESSAGES [rnr|any]
// MESSAGES of each sender, one in eight a Medium. `rnr`: the device must have met one, which shows
// that the count works (with flow control off). `any`: shares are not judged.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "lib/base/clock.hpp"
#include "penstock/penstock.hpp"
#include "test/conduit/job_check.hpp"
#include "test/conduit/rnr_count.hpp"

using namespace penstock;
using test::rnr_count, test::sum_of_rnr;

namespace {

constexpr std::uint32_t medium_every = 8, shortest = 300;

struct target {
  std::vector<std::vector<bool>> seen;  // by sender and message
  std::vector<std::uint64_t> got;
  std::vector<std::uint64_t> when_first_was_done;  // got, when one sender's last message came
  std::uint64_t left = 0;

  void note(token& t, std::uint32_t i) {
    auto& mine = seen[t.source()];
    JOB_CHECK(i < mine.size());
    JOB_CHECK(!mine[i]);  // once
    mine[i] = true;
    --left;
    if (++got[t.source()] == mine.size() && when_first_was_done.empty()) when_first_was_done = got;
  }
  void on_short(token& t, std::uint32_t i) { note(t, i); }
  void on_medium(token& t, std::span<std::byte> payload, std::uint32_t i) {
    JOB_CHECK(test::holds(payload, i));
    note(t, i);
  }
};

}  // namespace

int main(int argc, char** argv) {
  const auto each = static_cast<std::uint32_t>(argc > 1 ? std::atoll(argv[1]) : 20000);
  const std::string_view how = argc > 2 ? argv[2] : "";
  auto w = world::join();
  JOB_CHECK(w);
  target here;
  endpoint ep = test::open_endpoint(*w);
  const auto on_short = ep.add<&target::on_short>(&here);
  const auto on_medium = ep.add<&target::on_medium>(&here);
  if (auto r = ep.start(); !r) fatal(3, "%s", r.error().message().c_str());
  here.got.resize(ep.size());
  here.seen.assign(ep.size(), std::vector<bool>(each));
  here.left = std::uint64_t{each} * (ep.size() - 1);
  const nic::device& device = ep.internals().device();
  const std::uint64_t rnr_before = rnr_count(device);
  JOB_CHECK(ep.barrier() == status::ok);

  const std::uint64_t start = now_ns();
  if (ep.rank() == 0) {
    JOB_CHECK(ep.wait_until([&] { return here.left == 0; }) == status::ok);
  } else {
    std::vector<std::byte> payload(ep.max_medium());
    for (std::uint32_t i = 0; i < each; ++i) {
      if (i % medium_every != medium_every - 1) {
        JOB_CHECK(ep.request_short(0, on_short, i) == status::ok);
        continue;
      }
      const auto part = std::span(payload).first(
          shortest + i * 131u % static_cast<std::uint32_t>(payload.size() - shortest + 1));
      test::fill(part, i);
      JOB_CHECK(ep.request_medium(0, on_medium, part, i) == status::ok);
    }
  }
  JOB_CHECK(ep.barrier() == status::ok);
  const double seconds = static_cast<double>(now_ns() - start) * 1e-9;
  for (int i = 0; i < 1000; ++i) (void)ep.poll();

  const std::uint64_t rnr = sum_of_rnr(*w, device, rnr_count(device) - rnr_before);
  if (ep.rank() == 0) {
    const auto& shares = here.when_first_was_done;
    const auto least = *std::min_element(shares.begin() + 1, shares.end());
    std::printf(
        "%u senders, %u messages each in %.2f s; when the first was done the last had sent %.1f "
        "%%; "
        "receiver not ready: %llu\n",
        ep.size() - 1, each, seconds, 100.0 * static_cast<double>(least) / each,
        static_cast<unsigned long long>(rnr));
    std::fflush(stdout);
    for (rank_id r = 1; r < ep.size(); ++r) JOB_CHECK(here.got[r] == each);
    if (how.empty()) JOB_CHECK(least * 5 >= std::uint64_t{each} * 4);
  }
  JOB_CHECK(how == "rnr" ? rnr != 0 : rnr == 0);
  JOB_CHECK(ep.barrier() == status::ok);
  return 0;
}
