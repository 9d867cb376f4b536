// Job program: puts, gets and Longs of sizes around those that are cut over several rails, from
// segments and from other memory, several under way at a time, with messages between them, which
// keep their order. Each byte is checked, and those beside it. What a rank writes over bytes that a
// put or a Long has brought stays: no piece of a transfer comes twice.
//
//   rails ROUNDS SEED
#include <random>

#include "test/rma/job.hpp"

using namespace penstock;
using test::fill;
using test::guarded;
using test::holds;

namespace {

constexpr std::size_t place = 5 << 20, around = 64, at_a_time = 3;

struct target {
  endpoint* ep = nullptr;
  unsigned told = 0;
  std::vector<std::span<std::byte>> mine;  // what this rank has written over put bytes
  std::vector<std::uint32_t> with;

  // Bytes of a put that is complete are here; from now on they are this rank's.
  void on_put(token&, std::uint32_t number, std::uint64_t offset, std::uint64_t bytes,
              std::uint32_t seed) {
    came(number, ep->segment().subspan(offset, bytes), seed);
  }
  void on_long(token&, std::span<std::byte> payload, std::uint32_t number, std::uint32_t seed) {
    came(number, payload, seed);
  }
  void came(std::uint32_t number, std::span<std::byte> here, std::uint32_t seed) {
    JOB_CHECK(number == told++);  // requests keep their order
    JOB_CHECK(holds(here, seed));
    fill(here, seed + 1);
    mine.push_back(here);
    with.push_back(seed + 1);
  }
  void check_own() {
    for (std::size_t i = 0; i < mine.size(); ++i) JOB_CHECK(holds(mine[i], with[i]));
    mine.clear(), with.clear();
  }
};

std::size_t some_size(std::mt19937& dice) {
  constexpr std::size_t near[] = {1, 4096, 64 << 10, 128 << 10, 256 << 10, 1 << 20, 3 << 20};
  return near[dice() % std::size(near)] + dice() % 130;
}

}  // namespace

int main(int argc, char** argv) {
  const unsigned rounds = argc > 1 ? static_cast<unsigned>(std::atoi(argv[1])) : 3;
  std::mt19937 dice(argc > 2 ? static_cast<unsigned>(std::atoi(argv[2])) : 1);
  auto w = world::join();
  JOB_CHECK(w);
  endpoint ep = test::open_endpoint(*w);
  target me{.ep = &ep, .mine = {}, .with = {}};
  const auto on_put = ep.add<&target::on_put>(&me);
  const auto on_long = ep.add<&target::on_long>(&me);
  // at_a_time places for the rank before, one for its Longs, and as many for this rank's sources.
  if (auto r = ep.start(2 * (at_a_time + 1) * place); !r)
    fatal(3, "%s", r.error().message().c_str());
  remote_memory m(ep);
  const rank_id to = (ep.rank() + 1) % ep.size();
  std::byte* const theirs = ep.segment_of(to).data();
  const std::span<std::byte> sources = ep.segment().subspan((at_a_time + 1) * place);
  unsigned number = 0;
  std::uint32_t seed = 1000 * ep.rank();
  for (unsigned round = 0; round < rounds; ++round) {
    struct under_way {
      std::size_t offset = 0, bytes = 0;
      std::uint32_t seed = 0;
      std::unique_ptr<guarded> apart, back;
      operation op;
    } all[at_a_time];
    for (unsigned i = 0; i < at_a_time; ++i) {
      under_way& u = all[i];
      u.bytes = some_size(dice);
      u.offset = i * place + around + dice() % 61;
      u.seed = seed += 2;
      std::span<std::byte> from = sources.subspan(i * place + dice() % 61, u.bytes);
      if (dice() % 2 == 0) {
        u.apart = std::make_unique<guarded>(u.bytes, dice() % 7);
        from = u.apart->view();
      }
      JOB_CHECK(m.set(to, theirs + u.offset - around, test::guard, u.bytes + 2 * around) ==
                status::ok);
      fill(from, u.seed);
      u.op = m.put_nb(to, theirs + u.offset, from,
                      dice() % 2 == 0 ? source_reuse::on_return : source_reuse::on_completion);
    }
    for (under_way& u : all) {
      JOB_CHECK(u.op.wait() == status::ok);
      if (dice() % 2 == 0) {
        u.back = std::make_unique<guarded>(u.bytes + 2 * around, dice() % 5);
        u.op = m.get_nb(u.back->view(), to, theirs + u.offset - around);
      }
    }
    const unsigned long_behind = dice() % at_a_time;
    for (under_way& u : all) {
      JOB_CHECK(u.op.wait() == status::ok);
      if (u.back) {
        const std::span<std::byte> got = u.back->view();
        const auto is_guard = [](std::byte b) { return b == test::guard; };
        JOB_CHECK(u.back->intact() && holds(got.subspan(around, u.bytes), u.seed));
        JOB_CHECK(std::ranges::all_of(got.first(around), is_guard));
        JOB_CHECK(std::ranges::all_of(got.last(around), is_guard));
      }
      JOB_CHECK(ep.request_short(to, on_put, number++, std::uint64_t{u.offset},
                                 std::uint64_t{u.bytes}, u.seed) == status::ok);
      if (&u != all + long_behind) continue;
      const std::size_t bytes = some_size(dice);
      std::span<std::byte> from = sources.subspan(at_a_time * place, bytes);
      std::optional<guarded> apart;
      if (dice() % 2 == 0) from = apart.emplace(bytes, dice() % 7).view();
      fill(from, seed += 2);
      JOB_CHECK(ep.request_long(to, on_long, from, theirs + at_a_time * place + 3, number++,
                                seed) == status::ok);
      fill(from, 0);  // which is the caller's again
    }
    JOB_CHECK(ep.wait_until([&] { return me.told == (round + 1) * (at_a_time + 1); }) ==
              status::ok);
    JOB_CHECK(ep.barrier() == status::ok);
    me.check_own();
    JOB_CHECK(ep.barrier() == status::ok);
  }
  return 0;
}
