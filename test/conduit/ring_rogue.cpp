// Job program: all ranks send to all, with replies, and rank 1 overwrites counters and slot states
// of rings that it has mapped, its own and others'. The job must end well, with every byte right,
// or with a line that names a peer, and never hang. Values that could be true are not tried: a
// wholly forged message, and data said to be taken that may just have been.
//   ring_rogue SEED
#include <array>
#include <cstdlib>
#include <random>
#include <vector>

#include "lib/base/clock.hpp"
#include "lib/conduit/engine.hpp"
#include "penstock/penstock.hpp"
#include "test/conduit/job_check.hpp"

using namespace penstock;

namespace penstock::conduit::PENSTOCK_ABI {

struct test_access {
  static peer& to(engine& e, rank_id r) { return e.core_.begun(e.core_.peers_[r]); }
};

}  // namespace penstock::conduit::PENSTOCK_ABI

namespace {

using conduit::test_access;

struct party {
  short_handler<std::uint32_t> answer;
  std::uint64_t handled = 0, answered = 0;

  void on_short(token& t, std::uint32_t x) {
    ++handled;
    JOB_CHECK(t.reply_short(answer, x) == status::ok);
  }
  void on_medium(token& t, std::span<std::byte> bytes, std::uint32_t seed) {
    JOB_CHECK(test::holds(bytes, seed));
    ++handled;
    JOB_CHECK(t.reply_short(answer, seed) == status::ok);
  }
  void on_answer(token&, std::uint32_t) { ++answered; }
};

// A ring that rank 1 has mapped: of its own receiving, of its sending to a peer, or one that lies
// behind that in the peer's file, which is another pair's.
nic::shm::ring_memory some_ring(conduit::engine& e, std::mt19937_64& random) {
  rank_id r = static_cast<rank_id>(random() % e.size());
  if (r == 1) r = 0;
  auto& p = test_access::to(e, r);
  const bool requests = random() % 2 == 0;
  if (random() % 3 == 0) return (requests ? p.request_rx.seen() : p.reply_rx.seen())->memory();
  nic::shm::ring_memory m = (requests ? p.request_tx.seen() : p.reply_tx.seen())->memory();
  const std::size_t apart = (m.geometry.memory() + 4095) / 4096 * 4096;
  return {reinterpret_cast<std::byte*>(m.shared) + random() % 3 * apart, m.geometry};
}

void scribble(nic::shm::ring_memory m, std::mt19937_64& random) {
  const auto odd = [&](std::uint64_t now) -> std::uint64_t {
    switch (random() % 4) {
      case 0:
        return random();
      case 1:
        return now + 1 + random() % 300;
      case 2:
        return now - 1 - random() % 300;
      default:
        return 0;
    }
  };
  if (random() % 2 == 0) {
    const bool data = random() % 2 == 0;
    auto& counter = data ? m.shared->data_head : m.shared->head;
    const std::uint64_t now = counter.load(), wrong = odd(now);
    counter.store(data && wrong > now && wrong - now < m.geometry.data_bytes ? ~wrong : wrong);
  } else {
    auto& state = m.slots[random() % m.geometry.slots].state;
    const std::uint64_t now = state.load(), wrong = random() % 2 == 0 ? random() : odd(now);
    const auto ahead = static_cast<std::uint32_t>(wrong) - static_cast<std::uint32_t>(now);
    const bool forged = ahead % m.geometry.slots == 0 && static_cast<std::int32_t>(ahead) > 0;
    state.store((now & ~0xffffffffull) | ((forged ? wrong + 1 : wrong) & 0xffffffff));
  }
}

}  // namespace

int main(int argc, char** argv) {
  auto w = world::join();
  JOB_CHECK(w);
  party me;
  endpoint ep = test::open_endpoint(*w);
  const auto s = ep.add<&party::on_short>(&me);
  const auto m = ep.add<&party::on_medium>(&me);
  me.answer = ep.add<&party::on_answer>(&me);
  if (auto r = ep.start(4096); !r) fatal(3, "%s", r.error().message().c_str());
  std::mt19937_64 random(std::strtoull(argc > 1 ? argv[1] : "1", nullptr, 10) * 64 + ep.rank());
  std::vector<std::byte> payload(ep.max_medium());
  constexpr std::uint64_t messages = 4000;
  std::array<std::uint64_t, 3> when{};
  for (auto& i : when) i = 200 + random() % (messages - 200);
  for (std::uint64_t i = 0; i < messages; ++i) {
    const auto to = static_cast<rank_id>(random() % ep.size());
    const auto seed = static_cast<std::uint32_t>(random());
    if (random() % 2 == 0) {
      JOB_CHECK(ep.request_short(to, s, seed) == status::ok);
    } else {
      const std::size_t bytes = random() % (random() % 8 == 0 ? payload.size() + 1 : 200);
      test::fill({payload.data(), bytes}, seed);
      JOB_CHECK(ep.request_medium(to, m, std::span(payload).first(bytes), seed) == status::ok);
    }
    if (i < 150 && i + 1 >= 150) JOB_CHECK(ep.barrier() == status::ok);  // all are connected
    if (ep.rank() == 1)
      for (const auto at : when)
        if (at == i) scribble(some_ring(ep.internals(), random), random);
  }
  JOB_CHECK(ep.wait_until([&] { return me.answered == messages; }) == status::ok);
  JOB_CHECK(ep.barrier() == status::ok);
  return 0;
}
