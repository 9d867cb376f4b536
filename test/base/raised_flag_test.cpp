#include "lib/base/raised_flag.hpp"

#include <doctest/doctest.h>

#include <memory>

#include "test/model/model.hpp"

using namespace penstock;

TEST_CASE("who takes a flag down sees what all threads have told that raised it") {
  struct scene {
    raised_flag flag;
    model::scheduled<int> told[2];
    bool seen[2] = {};
    void tell(int i) {
      told[i].store(1, std::memory_order_relaxed);
      flag.raise();
    }
    void see() {
      if (!flag.take_down()) return;
      for (int i = 0; i < 2; ++i) seen[i] |= told[i].load(std::memory_order_relaxed) == 1;
    }
  };
  const auto r = model::search(
      [] {
        auto s = std::make_shared<scene>();
        return model::trial{{[s] { s->tell(0); }, [s] { s->tell(1); }, [s] { s->see(), s->see(); }},
                            nullptr,
                            // What is told is seen, or the flag is still up.
                            [s] { return s->flag.is_up() || (s->seen[0] && s->seen[1]); }};
      },
      10'000);
  CHECK_MESSAGE(r.ok(), r.text());
}
