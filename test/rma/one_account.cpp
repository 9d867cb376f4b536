// Job program: all that the processes of a host register, for whatever purpose, stays within
// PENSTOCK_PHYSMEM_MAX together: each stays within its part, also when one of them has left.
// Queues, the cache of registrations, temporary ones and buffers of large Mediums are asked for
// more than that; everything arrives all the same. Where the device pins pages, the kernel's count
// of them stays within the part, too.
//   one_account MEGABYTES      the setting
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include "lib/base/limits.hpp"
#include "lib/conduit/engine.hpp"
#include "test/rma/job.hpp"

namespace penstock::conduit::PENSTOCK_ABI {
struct test_access {
  static std::uint64_t registered(const engine& e) { return e.core_.account_->used(); }
};
}  // namespace penstock::conduit::PENSTOCK_ABI

using namespace penstock;

namespace {

/// What the kernel has pinned for this process.
std::uint64_t pinned() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (unsigned long kb = 0; std::sscanf(line.c_str(), "VmPin: %lu kB", &kb) == 1)
      return std::uint64_t{kb} << 10;
  fatal(3, "no VmPin in /proc/self/status");
}

struct party {
  short_handler<> taken;
  unsigned answers = 0;
  bool other_over = false;
  void on_large(token& t, std::span<std::byte> payload, std::uint32_t seed) {
    JOB_CHECK(test::holds(payload, seed));
    JOB_CHECK(t.reply_short(taken) == status::ok);
  }
  void on_taken(token&) { ++answers; }
  void on_over(token&) { other_over = true; }
};

}  // namespace

int main(int argc, char** argv) {
  constexpr std::size_t bytes = 96 * 1024, places = 160;  // 15 MB in all
  const std::uint64_t all = (argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 0) << 20;
  party me;
  auto w = world::join();
  JOB_CHECK(w);
  endpoint ep = test::open_endpoint(*w);
  const auto large = ep.add<&party::on_large>(&me);
  const auto over = ep.add<&party::on_over>(&me);
  me.taken = ep.add<&party::on_taken>(&me);
  if (auto r = ep.start(2 * bytes + 4096); !r) fatal(3, "%s", r.error().message().c_str());
  test::job j{std::move(*w), std::move(ep)};
  remote_memory m(j.ep);
  const rank_id n = j.ep.size();
  const std::uint64_t part = all / n;
  std::uint64_t most = 0, most_pinned = 0;
  const auto look = [&] {
    const std::uint64_t now = conduit::test_access::registered(j.ep.internals());
    most = std::max(most, now);
    most_pinned = std::max(most_pinned, pinned());
    JOB_CHECK(now <= part && most_pinned <= part);
  };
  std::vector<std::byte> mine(places * bytes), message(limits::max_medium);
  const auto exchange_with = [&](rank_id to, std::uint32_t round) {
    for (std::size_t k = 0; k < places; ++k) {
      const auto here = std::span(mine).subspan(k * bytes, bytes);
      const auto seed = static_cast<std::uint32_t>(1000 * round + 2 * k + j.ep.rank());
      test::fill(here, seed);
      JOB_CHECK(m.put_nbi(to, j.at(to, 0), here, source_reuse::on_completion) == status::ok);
      look();
      JOB_CHECK(m.wait_puts() == status::ok);
      std::fill(here.begin(), here.end(), std::byte{0});
      JOB_CHECK(m.get(here, to, j.at(to, 0)) == status::ok);
      JOB_CHECK(test::holds(here, seed));
      look();
    }
    for (std::size_t k = 0; k < places; ++k)
      JOB_CHECK(m.get_nbi(std::span(mine).subspan(k * bytes, bytes), to, j.at(to, bytes)) ==
                status::ok);
    look();
    JOB_CHECK(m.wait_gets() == status::ok);
    const unsigned before = me.answers;
    for (std::uint32_t k = 0; k < 40; ++k) {
      test::fill(message, k);
      JOB_CHECK(j.ep.request_medium(to, large, std::span<const std::byte>(message), k) ==
                status::ok);
      look();
    }
    JOB_CHECK(j.ep.wait_until([&] { return me.answers == before + 40; }) == status::ok);
    look();
  };
  exchange_with((j.ep.rank() + 1) % n, 0);
  j.meet();
  std::printf("rank %u of %u: %llu bytes registered at most, and %llu pinned, of %llu\n",
              j.ep.rank(), n, static_cast<unsigned long long>(most),
              static_cast<unsigned long long>(most_pinned), static_cast<unsigned long long>(part));
  JOB_CHECK(most > part / 2);  // else nothing was asked of the limit
  JOB_CHECK((most_pinned > part / 2) == j.ep.internals().device().pins);
  if (n < 3 || j.ep.rank() > 1) return 0;
  // The other two go on, with the parts that they have.
  const rank_id other = 1 - j.ep.rank();
  exchange_with(other, 1);
  JOB_CHECK(j.ep.request_short(other, over) == status::ok);
  JOB_CHECK(j.ep.wait_until([&] { return me.other_over; }) == status::ok);
  return 0;
}
