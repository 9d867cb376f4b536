// Barriers in memory that processes share, by C++'s memory model: what a rank has done before it
// arrives is visible to all that have passed.
#include <doctest/doctest.h>

#include <memory>

#include "lib/conduit/collective/counting.hpp"
#include "test/model/model.hpp"

using namespace penstock;
using namespace penstock::conduit;

namespace {

constexpr std::uint32_t ranks = 3;
constexpr int most_looks = 40;  // a schedule may keep a rank waiting for ever

struct counted {
  counting_words words;
  model::var<int> done[ranks];
  // Arrives, and looks a while; after a barrier it reads what the others did before it.
  void run(std::uint32_t rank) {
    counting c(words, rank, ranks);
    for (int phase = 1; phase <= 2; ++phase) {
      done[rank] = phase;
      if (!c.arrive({})) return model::fail("an arrival finds the word written over");
      barrier_vote v;
      auto seen = counting::look::waiting;
      for (int i = 0; i < most_looks && seen == counting::look::waiting; ++i) seen = c.see(v);
      if (seen == counting::look::broken) return model::fail("a look finds the word written over");
      if (seen == counting::look::waiting) return;
      for (const auto& d : done)
        if (d != phase) model::fail("a rank has passed that another has not reached");
      if (!pass_again(c, v)) return;
    }
  }
  // Nobody writes for the next phase before all have read.
  bool pass_again(counting& c, barrier_vote& v) {
    if (!c.arrive({})) return model::fail("an arrival finds the word written over"), false;
    auto seen = counting::look::waiting;
    for (int i = 0; i < most_looks && seen == counting::look::waiting; ++i) seen = c.see(v);
    return seen == counting::look::complete;
  }
};

}  // namespace

TEST_CASE("who has passed a counting barrier sees what all did before they arrived") {
  const auto r = model::sample(
      [] {
        auto s = std::make_shared<counted>();
        return model::trial{{[s] { s->run(0); }, [s] { s->run(1); }, [s] { s->run(2); }},
                            nullptr,
                            nullptr,
                            {0, 1, 2}};
      },
      1, 4000);
  CHECK_MESSAGE(r.ok(), r.text());
}

TEST_CASE("a rank that waits long finds a healthy word credible, and has not missed a count") {
  // 1023 looks were in vain already: the next one checks.
  const auto r = model::sample(
      [] {
        struct scene {
          counting_words words;
          counting waits{words, 0, 2}, comes{words, 1, 2};
        };
        auto s = std::make_shared<scene>();
        barrier_vote v;
        (void)s->waits.arrive({});
        for (int i = 0; i < 1022; ++i) (void)s->waits.see(v);
        return model::trial{{[s] {
                               barrier_vote w;
                               for (int i = 0; i < 3; ++i)
                                 if (s->waits.see(w) == counting::look::broken)
                                   model::fail("a healthy word is called broken");
                             },
                             [s] { (void)s->comes.arrive({}); }},
                            nullptr,
                            nullptr,
                            {0, 1}};
      },
      1, 4000);
  CHECK_MESSAGE(r.ok(), r.text());
}

TEST_CASE("a word in a barrier's slot comes whole, and with what its sender did before") {
  const auto r = model::search([] {
    struct scene {
      barrier_slot slot;
      model::var<int> done{0};
    };
    auto s = std::make_shared<scene>();
    return model::trial{{[s] {
                           s->done = 1;
                           s->slot.write(pack_word(5, {}));
                         },
                         [s] {
                           std::uint64_t w;
                           for (int i = 0; i < 3; ++i) {
                             if (!s->slot.read(5, w)) continue;
                             if (s->done != 1) model::fail("not yet done");
                             return;
                           }
                           if (phase_of(w) == 5) model::fail("a whole word is not taken as such");
                         }},
                        nullptr,
                        nullptr,
                        {0, 1}};
  });
  CHECK_MESSAGE(r.ok(), r.text());
}
