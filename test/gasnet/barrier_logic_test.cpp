// The logic of the barriers, in a world of N processes whose words are delivered in random order
// and at random times, and whose sends may be refused: none passes before all have arrived, all
// pass, and all learn the same. They share the counted barrier's word; overwriting it is detected.
#include <doctest/doctest.h>

#include <algorithm>
#include <deque>
#include <numeric>
#include <random>
#include <vector>

#include "lib/conduit/collective/counting.hpp"
#include "lib/conduit/collective/dissemination.hpp"
#include "lib/conduit/collective/staged.hpp"
#include "lib/conduit/collective/tree.hpp"

namespace {

using namespace penstock::conduit;

struct word_on_its_way {
  std::uint32_t to;
  unsigned parity, step;
  std::uint64_t word;
};

template <class Logic>
struct process {
  Logic logic;
  barrier_slots slots;
  unsigned notified = 0, passed = 0;
  explicit process(const Logic& l) : logic(l) {}
};

template <class Logic>
class world {
 public:
  // make(rank) is the logic of that rank.
  template <class Make>
  world(std::uint32_t size, std::uint32_t seed, bool lossless, Make make)
      : random_(seed), lossless_(lossless) {
    for (std::uint32_t r = 0; r < size; ++r) all_.emplace_back(make(r));
  }

  std::size_t size() const { return all_.size(); }
  process<Logic>& at(std::size_t r) { return all_[r]; }

  void notify(std::size_t r, const barrier_vote& v) {
    REQUIRE(at(r).notified == at(r).passed);
    ++at(r).notified;
    at(r).logic.begin(v);
    advance(r);
  }
  bool advance(std::size_t r) {
    auto& p = at(r);
    if (p.passed == p.notified) return true;
    const auto send = [this](unsigned, std::uint32_t to, unsigned parity, unsigned step,
                             std::uint64_t w) {
      if (!lossless_ && random_() % 3 == 0) return false;
      in_flight_.push_back({to, parity, step, w});
      return true;
    };
    if (!p.logic.advance(p.slots, send)) return false;
    ++p.passed;
    return true;
  }
  // One word arrives, any of those on their way; but words of one slot in order, as its sender is
  // one.
  void deliver() {
    if (in_flight_.empty()) return;
    const std::size_t pick = random_() % in_flight_.size();
    const auto same = [&](const word_on_its_way& a) {
      const auto& b = in_flight_[pick];
      return a.to == b.to && a.parity == b.parity && a.step == b.step;
    };
    const auto first = std::find_if(in_flight_.begin(), in_flight_.end(), same);
    at(first->to).slots.at[first->parity][first->step].write(first->word);
    in_flight_.erase(first);
  }
  std::uint32_t random() { return static_cast<std::uint32_t>(random_()); }

 private:
  std::mt19937 random_;
  bool lossless_;
  std::deque<process<Logic>> all_;
  std::deque<word_on_its_way> in_flight_;
};

// Runs one phase; every process votes what vote(rank) says. Returns what they learned.
template <class Logic, class Vote>
barrier_vote run_phase(world<Logic>& w, Vote vote) {
  const unsigned phase = w.at(0).notified;
  std::vector<std::size_t> late(w.size());
  for (std::size_t i = 0; i < late.size(); ++i) late[i] = i;
  for (std::uint64_t events = 0;; ++events) {
    REQUIRE(events < 1'000'000);  // else they wait for each other for ever
    if (!late.empty() && w.random() % 4 == 0) {
      const std::size_t k = w.random() % late.size();
      const std::size_t r = late[k];
      late.erase(late.begin() + static_cast<std::ptrdiff_t>(k));
      w.notify(r, vote(r));
    }
    w.deliver();
    const std::size_t r = w.random() % w.size();
    if (w.advance(r) && w.at(r).passed == phase + 1) REQUIRE(late.empty());
    bool all = late.empty();
    for (std::size_t i = 0; i < w.size() && all; ++i) all = w.at(i).passed == phase + 1;
    if (all) break;
  }
  const barrier_vote learned = w.at(0).logic.outcome();
  for (std::size_t i = 0; i < w.size(); ++i) REQUIRE(w.at(i).logic.outcome() == learned);
  return learned;
}

}  // namespace

TEST_CASE("combining votes does not depend on order or on counting one twice") {
  const barrier_vote votes[] = {{}, {1, true, false}, {2, true, false}, {0, false, true}};
  for (const auto& a : votes)
    for (const auto& b : votes) {
      CHECK(combine(a, b) == combine(b, a));
      CHECK(combine(a, a) == a);
      for (const auto& c : votes) CHECK(combine(combine(a, b), c) == combine(a, combine(b, c)));
    }
}

TEST_CASE("a word keeps phase and vote") {
  for (const std::uint32_t phase : {1u, 77u, phase_mask})
    for (const auto& v :
         {barrier_vote{}, barrier_vote{~0u, true, false}, barrier_vote{0, false, true}}) {
      const auto w = pack_word(phase, v);
      CHECK(phase_of(w) == phase);
      CHECK(vote_of(w) == v);
    }
}

template <class Logic, class Make>
void check_shape(std::uint32_t size, std::uint32_t seed, Make make) {
  CAPTURE(size);
  CAPTURE(seed);
  world<Logic> w(size, seed, seed % 2 == 0, make);
  for (std::uint32_t phase = 0; phase < 6; ++phase) {
    const auto same = run_phase(w, [&](std::size_t) { return barrier_vote{phase, true, false}; });
    CHECK(same == barrier_vote{phase, true, false});
    const auto one_named = run_phase(w, [&](std::size_t r) {
      return r == phase % size ? barrier_vote{9, true, false} : barrier_vote{};
    });
    CHECK(one_named == barrier_vote{9, true, false});
    const auto nobody = run_phase(w, [](std::size_t) { return barrier_vote{}; });
    CHECK(nobody == barrier_vote{});
    if (size == 1) continue;
    const auto differ = run_phase(w, [&](std::size_t r) {
      return barrier_vote{r == phase % size ? 1u : 2u, true, false};
    });
    CHECK(differ.mismatch);
  }
}

TEST_CASE("dissemination: nobody passes early, all pass, all learn the same") {
  for (std::uint32_t size : {1u, 2u, 3u, 4u, 5u, 8u, 13u})
    for (std::uint32_t seed = 0; seed < 20; ++seed)
      check_shape<dissemination>(size, seed,
                                 [&](std::uint32_t r) { return dissemination(r, size); });
}

TEST_CASE("tree: nobody passes early, all pass, all learn the same") {
  for (std::uint32_t size : {1u, 2u, 3u, 4u, 8u, 13u})
    for (unsigned radix : {1u, 2u, 4u, 31u})
      for (std::uint32_t seed = 0; seed < 8; ++seed)
        check_shape<tree>(size, seed, [&](std::uint32_t r) { return tree(r, size, radix); });
}

// The same of hosts of these sizes; block: the ranks of a host follow each other, or go round.
TEST_CASE("stages: nobody passes early, all pass, all learn the same") {
  using sizes = std::vector<std::uint32_t>;
  for (const sizes& hosts : {sizes{1}, sizes{3}, sizes{2, 2}, sizes{3, 1}, sizes{1, 4, 2},
                             sizes{17, 40, 1, 2}, sizes{2, 2, 2, 2, 2}})
    for (const bool block : {true, false}) {
      std::vector<sizes> near(hosts.size());
      std::vector<std::size_t> host_of;
      for (sizes left = hosts; host_of.size() < std::accumulate(hosts.begin(), hosts.end(), 0u);)
        for (std::size_t h = 0; h < left.size(); ++h)
          for (; left[h] != 0; --left[h]) {
            near[h].push_back(static_cast<std::uint32_t>(host_of.size()));
            host_of.push_back(h);
            if (!block) {
              --left[h];
              break;
            }
          }
      sizes leaders;
      for (const sizes& n : near) leaders.push_back(n.front());
      std::sort(leaders.begin(), leaders.end());
      const auto size = static_cast<std::uint32_t>(host_of.size());
      for (std::uint32_t seed = 0; seed < 12; ++seed)
        check_shape<staged>(size, seed,
                            [&](std::uint32_t r) { return staged(r, near[host_of[r]], leaders); });
    }
}

namespace {

// A count as a shape of the world above: nothing is sent, and nobody is refused.
struct counting_side {
  counting side;
  barrier_vote said;
  void begin(const barrier_vote& own) { REQUIRE(side.arrive(own)); }
  template <class Send>
  bool advance(const barrier_slots&, Send&&) {
    const counting::look seen = side.see(said);
    REQUIRE(seen != counting::look::broken);
    return seen == counting::look::complete;
  }
  const barrier_vote& outcome() const { return said; }
};

}  // namespace

TEST_CASE("counting: nobody passes early, all pass, all learn the same") {
  for (std::uint32_t size : {1u, 2u, 3u, 8u, 13u, 70u, counting_words::most_ranks})
    for (std::uint32_t seed = 0; seed < (size > 100 ? 1u : 20u); ++seed)
      for (const std::uint32_t passed : {0u, 1u, 255u, 65533u}) {
        if (size > 100 && passed != 1) continue;
        counting_words shared;
        check_shape<counting_side>(size, seed, [&](std::uint32_t r) {
          return counting_side{counting(shared, r, size, passed), {}};
        });
      }
}

// What all of a count's processes see in the end when one has written rubbish there: never an
// endless wait.
TEST_CASE("counting: whatever is written over the words, it is passed or found broken") {
  constexpr std::uint32_t size = 5;
  std::mt19937_64 random(1);
  unsigned found = 0;
  for (unsigned round = 0; round < 3000; ++round) {
    counting_words shared;
    std::deque<counting> all;
    for (std::uint32_t r = 0; r < size; ++r) all.emplace_back(shared, r, size, 1);
    std::vector<unsigned> arrived(size), passed(size);
    const auto scribble_at = random() % 60;
    bool broken = false;
    constexpr unsigned barriers = 4;
    std::uint64_t steps = 0;
    const auto done = [&] {
      return std::all_of(passed.begin(), passed.end(), [](unsigned p) { return p == barriers; });
    };
    while (!broken && !done()) {
      REQUIRE(steps < 200'000);  // else it waits for ever
      if (steps++ == scribble_at) {
        auto& word = shared.word[random() % 2];
        const std::uint64_t w = word.load();
        switch (random() % 5) {
          case 0:
            word.store(random());
            break;
          case 1:
            word.store(w + (std::uint64_t{1} << 34));
            break;
          case 2:
            word.store(w - (std::uint64_t{1} << 34));
            break;
          case 3:
            word.store(w ^ std::uint64_t{1} << 48 << random() % 16);
            break;
          default:
            shared.came[random() % size].store(static_cast<std::uint8_t>(random()));
        }
      }
      const std::size_t r = random() % size;
      barrier_vote said;
      if (passed[r] == barriers) continue;
      if (arrived[r] == passed[r]) {
        ++arrived[r];
        broken = !all[r].arrive({});
      } else {
        const counting::look seen = all[r].see(said);
        broken = seen == counting::look::broken;
        if (seen == counting::look::complete) ++passed[r];
      }
    }
    found += broken ? 1 : 0;
  }
  CHECK(found > 500);
}

TEST_CASE("phases go on past the largest number a word can hold") {
  const auto late = [](std::uint32_t r) { return dissemination(r, 3, phase_mask - 2); };
  world<dissemination> w(3, 1, true, late);
  for (std::uint32_t phase = 0; phase < 6; ++phase)
    CHECK(run_phase(w, [&](std::size_t) {
            return barrier_vote{phase, true, false};
          }).value == phase);
}

TEST_CASE("a word of which some bytes have landed passes for none, whatever bytes they are") {
  using penstock::conduit::barrier_slot;
  using penstock::conduit::pack_word;
  using penstock::conduit::seal_of;
  std::mt19937_64 random(1);
  for (int round = 0; round < 2000; ++round) {
    const std::uint32_t phase = 3 + 2 * static_cast<std::uint32_t>(random() % 1000);
    const auto vote = [&] {
      return barrier_vote{.value = static_cast<std::uint32_t>(random() % 3 == 0 ? random() : 7),
                          .named = random() % 2 == 0,
                          .mismatch = false};
    };
    const std::uint64_t before = pack_word(phase - 2, vote()), after = pack_word(phase, vote());
    std::uint64_t landed[2] = {before, seal_of(before)};
    const std::uint64_t whole[2] = {after, seal_of(after)};
    unsigned order[16];
    for (unsigned i = 0; i < 16; ++i) order[i] = i;
    std::shuffle(order, order + 16, random);
    barrier_slot slot;
    for (const unsigned byte : order) {
      reinterpret_cast<unsigned char*>(landed)[byte] =
          reinterpret_cast<const unsigned char*>(whole)[byte];
      slot.word.store(landed[0], std::memory_order_relaxed);
      slot.seal.store(landed[1], std::memory_order_relaxed);
      std::uint64_t w = 0;
      const bool there = slot.read(phase, w);
      CHECK(there == (landed[0] == whole[0] && landed[1] == whole[1]));
      if (there) CHECK(w == after);
    }
  }
}
