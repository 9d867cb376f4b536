#include "perf/creditsim/script.hpp"

#include <algorithm>
#include <cstdio>
#include <sstream>

namespace penstock::creditsim {
namespace {

class scripted final : public pattern {
 public:
  scripted(const script& s, std::uint32_t nodes) : script_(s), n_(nodes), nodes_(nodes) {
    for (std::uint32_t f = 0; f < script_.size(); ++f)
      for (std::uint32_t k = 0; k < std::min(script_[f].senders, n_); ++k) {
        node& who = nodes_[(script_[f].first + std::uint64_t{k} * script_[f].stride) % n_];
        if (std::find(who.parts.begin(), who.parts.end(), f) == who.parts.end())
          who.parts.push_back(f);
      }
    for (std::uint32_t i = 0; i < n_; ++i) {
      // A burst to oneself is left out, so it has to be asked.
      node copy = nodes_[i];
      for (send_order o; advance(i, copy, o);) ++total_;
    }
  }
  bool next(std::uint32_t i, send_order& out) override { return advance(i, nodes_[i], out); }
  std::uint32_t arrived(std::uint32_t, std::uint32_t) override { return nobody; }
  [[nodiscard]] std::uint64_t total() const override { return total_; }
  [[nodiscard]] std::uint32_t watched() const override { return script_[0].target % n_; }

 private:
  struct node {
    std::vector<std::uint32_t> parts;  // its flows
    std::uint32_t part = 0, burst = 0, sent = 0;
  };
  bool advance(std::uint32_t i, node& s, send_order& out) const {
    while (s.part < s.parts.size()) {
      const flow& f = script_[s.parts[s.part]];
      const auto to = static_cast<std::uint32_t>((f.target + std::uint64_t{s.burst} * f.step) % n_);
      if (s.burst == f.bursts) {
        ++s.part;
        s.burst = s.sent = 0;
      } else if (s.sent == f.burst || to == i) {
        ++s.burst;
        s.sent = 0;
      } else {
        ++s.sent;
        out = {to, f.mediums ? 4U : 1U};
        return true;
      }
    }
    return false;
  }
  const script script_;
  std::uint32_t n_;
  std::vector<node> nodes_;
  std::uint64_t total_ = 0;
};

}  // namespace

std::optional<script> parse_script(const std::string& text) {
  constexpr std::uint32_t most = 1'000'000;
  script s;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, '/');) {
    flow f;
    char kind = 0, rest = 0;
    if (std::sscanf(part.c_str(), "%u,%u,%u,%u,%u,%u,%u%c%c", &f.first, &f.stride, &f.senders,
                    &f.target, &f.step, &f.burst, &f.bursts, &kind, &rest) != 8 ||
        (kind != 'm' && kind != 's') || f.burst > most || f.bursts > most || f.senders == 0)
      return std::nullopt;
    f.mediums = kind == 'm';
    s.push_back(f);
  }
  if (s.empty() || s.size() > most_flows) return std::nullopt;
  return s;
}

std::string to_text(const script& s) {
  std::ostringstream out;
  for (const flow& f : s)
    out << (&f == s.data() ? "" : "/") << f.first << ',' << f.stride << ',' << f.senders << ','
        << f.target << ',' << f.step << ',' << f.burst << ',' << f.bursts
        << (f.mediums ? 'm' : 's');
  return out.str();
}

std::unique_ptr<pattern> make_script(const script& s, std::uint32_t nodes) {
  return std::make_unique<scripted>(s, nodes);
}

std::unique_ptr<pattern> make_script(const std::string& text, std::uint32_t nodes) {
  const auto s = parse_script(text);
  return s ? make_script(*s, nodes) : nullptr;
}

}  // namespace penstock::creditsim
