#include "perf/creditsim/adversary.hpp"

#include <algorithm>
#include <random>

namespace penstock::creditsim {
namespace {

constexpr std::uint64_t most_messages = 40'000;  // of a script, so that a try takes milliseconds
constexpr unsigned patience = 60;                // changes for the worse, before a new climb begins

class dice {
 public:
  explicit dice(std::uint64_t seed) : engine_(seed) {}
  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(engine_() % n); }
  /// 1 … most, small ones as often as large ones.
  std::uint32_t scaled(std::uint32_t most) {
    std::uint32_t v = 1;
    while (v < most && below(8) != 0) v = v * 2 + below(2);
    return std::min(v, most);
  }

 private:
  std::mt19937_64 engine_;
};

void change(flow& f, unsigned what, std::uint32_t nodes, dice& d) {
  switch (what) {
    case 0:
      f.first = d.below(nodes);
      return;
    case 1:
      f.stride = 1 + d.below(std::min(nodes, 8U));
      return;
    case 2:
      f.senders = d.scaled(nodes);
      return;
    case 3:
      f.target = d.below(nodes);
      return;
    case 4:
      f.step = d.below(2) == 0 ? d.below(4) : d.below(nodes);
      return;
    case 5:
      f.burst = d.scaled(2048);
      return;
    case 6:
      f.bursts = d.scaled(64);
      return;
    default:
      f.mediums = d.below(4) != 0;
      return;
  }
}
constexpr unsigned changes = 8;

flow random_flow(std::uint32_t nodes, dice& d) {
  flow f;
  for (unsigned i = 0; i < changes; ++i) change(f, i, nodes, d);
  return f;
}

bool short_enough(const script& s, std::uint32_t nodes) {
  std::uint64_t sum = 0;
  for (const flow& f : s) sum += std::uint64_t{std::min(f.senders, nodes)} * f.burst * f.bursts;
  return sum <= most_messages;
}

script neighbour(const script& from, std::uint32_t nodes, dice& d) {
  script s = from;
  if (s.size() < most_flows && d.below(10) == 0)
    s.push_back(random_flow(nodes, d));
  else if (s.size() > 1 && d.below(10) == 0)
    s.erase(s.begin() + d.below(static_cast<std::uint32_t>(s.size())));
  else
    for (std::uint32_t times = 1 + d.below(2); times != 0; --times)
      change(s[d.below(static_cast<std::uint32_t>(s.size()))], d.below(changes), nodes, d);
  return s;
}

void keep_worst(std::vector<found>& worst, const found& f, std::size_t keep) {
  // Of one climb only the top is kept, since its steps are much alike.
  worst.push_back(f);
  std::stable_sort(worst.begin(), worst.end(),
                   [](const found& a, const found& b) { return a.regret > b.regret; });
  if (worst.size() > keep) worst.pop_back();
}

}  // namespace

std::vector<found> search_worst(std::uint32_t tries, std::uint32_t nodes, std::uint64_t seed,
                                std::size_t keep,
                                const std::function<double(const script&)>& regret_of) {
  dice d(seed);
  std::vector<found> worst;
  found here;
  unsigned in_vain = patience;
  for (std::uint32_t i = 0; i < tries;) {
    const bool anew = in_vain >= patience;
    if (anew && !here.what.empty()) {
      keep_worst(worst, here, keep);
      here = {};
    }
    const script s =
        anew || here.what.empty() ? script{random_flow(nodes, d)} : neighbour(here.what, nodes, d);
    if (!short_enough(s, nodes)) continue;
    ++i;
    const double regret = regret_of(s);
    if (here.what.empty() || regret > here.regret)
      here = {s, regret}, in_vain = 0;
    else
      ++in_vain;
  }
  if (!here.what.empty()) keep_worst(worst, here, keep);
  return worst;
}

}  // namespace penstock::creditsim
