// The patterns. Figures follow the credit note where it gives them: six faces of 160 Mediums of
// 1 KiB for the ghost zones, fewer in large jobs so that a run stays within its time.
#include "perf/creditsim/pattern.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "lib/base/mix.hpp"
#include "perf/creditsim/script.hpp"

namespace penstock::creditsim {
namespace {

constexpr std::uint32_t medium = 4;           // credits of 1 KiB
constexpr std::uint32_t small_one = 1;        // and of a Short
constexpr std::uint64_t budget = 24'000'000;  // messages of a run, unless the user says otherwise

std::uint32_t or_else(std::uint32_t set, std::uint64_t otherwise) {
  return set != 0 ? set : static_cast<std::uint32_t>(otherwise);
}

/// Occasional Shorts to one of a few peers: traffic, but no demand for more credits.
class none final : public pattern {
 public:
  explicit none(const workload& w)
      : n_(w.nodes),
        each_(or_else(w.messages, std::clamp<std::uint64_t>(budget / w.nodes, 64, 5000))),
        sent_(w.nodes) {}
  bool next(std::uint32_t node, send_order& out) override {
    if (sent_[node] == each_) return false;
    const std::uint32_t reach = std::min(n_ - 1, 8U);
    out = {(node + 1 + sent_[node]++ % reach) % n_, small_one};
    return true;
  }
  std::uint32_t arrived(std::uint32_t, std::uint32_t) override { return nobody; }
  [[nodiscard]] std::uint64_t total() const override { return std::uint64_t{n_} * each_; }

 private:
  std::uint32_t n_, each_;
  std::vector<std::uint32_t> sent_;
};

/// A grid of patches; each step every node sends a face to each of its (up to six) neighbours, one
/// face after the other, and waits for theirs.
class ghost final : public pattern {
 public:
  explicit ghost(const workload& w) : n_(w.nodes), nodes_(w.nodes) {
    const auto side = static_cast<std::uint32_t>(std::lround(std::cbrt(n_)));
    std::uint32_t x = std::max(1U, side), y = x;
    while (n_ % x != 0) --x;
    while (n_ / x % y != 0) --y;
    const std::array<std::uint32_t, 3> strides{1, x, x * y};
    const std::array<std::uint32_t, 4> sizes{1, x, x * y, n_};
    for (std::uint32_t i = 0; i < n_; ++i) {
      for (std::size_t d = 0; d < 3; ++d) {
        const std::uint32_t low = i / sizes[d + 1] * sizes[d + 1];
        const std::uint32_t width = sizes[d + 1];
        for (const std::uint32_t step : {strides[d], width - strides[d]}) {
          const std::uint32_t peer = low + (i - low + step) % width;
          auto& faces = nodes_[i].faces;
          if (peer != i && std::find(faces.begin(), faces.end(), peer) == faces.end())
            faces.push_back(peer);
        }
      }
    }
    const std::uint64_t faces = std::max<std::uint64_t>(1, nodes_[0].faces.size());
    per_face_ = or_else(w.messages, std::clamp<std::uint64_t>(budget / n_ / faces / 5, 4, 160));
    steps_ =
        or_else(w.iterations, std::clamp<std::uint64_t>(budget / n_ / faces / per_face_, 5, 25));
  }
  bool next(std::uint32_t i, send_order& out) override {
    node& s = nodes_[i];
    const std::uint32_t step = s.faces.size() * per_face_;
    if (step == 0 || s.sent == step * steps_) return false;
    if (s.got < s.sent / step * step) return false;  // the neighbours are a step behind
    out = {s.faces[s.sent % step / per_face_], medium};
    ++s.sent;
    return true;
  }
  std::uint32_t arrived(std::uint32_t at, std::uint32_t) override {
    ++nodes_[at].got;
    return nodes_[at].got % per_face_ == 0 ? at : nobody;
  }
  [[nodiscard]] std::uint64_t total() const override {
    std::uint64_t sum = 0;
    for (const node& s : nodes_) sum += std::uint64_t{s.faces.size()} * per_face_ * steps_;
    return sum;
  }

 private:
  struct node {
    std::vector<std::uint32_t> faces;
    std::uint32_t sent = 0, got = 0;
  };
  std::uint32_t n_, per_face_ = 0, steps_ = 0;
  std::vector<node> nodes_;
};

/// Reductions and broadcasts over a tree of radix 4: segments go up to the root, then down.
class tree final : public pattern {
 public:
  explicit tree(const workload& w)
      : n_(w.nodes),
        segments_(or_else(w.messages, 16)),
        steps_(
            or_else(w.iterations, std::clamp<std::uint64_t>(budget / n_ / 2 / segments_, 4, 200))),
        nodes_(w.nodes) {}
  bool next(std::uint32_t i, send_order& out) override {
    node& s = nodes_[i];
    const std::uint32_t first = i * radix + 1;
    const std::uint32_t children = first >= n_ ? 0 : std::min(radix, n_ - first);
    for (;;) {
      if (s.step == steps_ || n_ == 1) return false;
      const std::uint32_t due = (s.step + 1) * segments_;
      if (s.from_below < due * children) return false;
      if (i != 0 && s.up < segments_) {
        ++s.up;
        out = {(i - 1) / radix, medium};
        return true;
      }
      if (i != 0 && s.from_above < due) return false;
      if (s.down < segments_ * children) {
        out = {first + s.down++ % children, medium};
        return true;
      }
      ++s.step;
      s.up = s.down = 0;
    }
  }
  std::uint32_t arrived(std::uint32_t at, std::uint32_t from) override {
    ++(from > at ? nodes_[at].from_below : nodes_[at].from_above);
    return at;
  }
  [[nodiscard]] std::uint64_t total() const override {
    return 2ULL * (n_ - 1) * segments_ * steps_;
  }

 private:
  static constexpr std::uint32_t radix = 4;
  struct node {
    std::uint32_t step = 0, up = 0, down = 0, from_below = 0, from_above = 0;
  };
  std::uint32_t n_, segments_, steps_;
  std::vector<node> nodes_;
};

/// Shorts to peers drawn at random.
class random_peers final : public pattern {
 public:
  explicit random_peers(const workload& w)
      : n_(w.nodes),
        each_(or_else(w.messages, std::clamp<std::uint64_t>(budget / 4 / n_, 48, 20000))),
        seed_(w.seed),
        sent_(w.nodes) {}
  bool next(std::uint32_t i, send_order& out) override {
    if (sent_[i] == each_) return false;
    const std::uint64_t r =
        mix(seed_ * 0x9e3779b97f4a7c15U + (std::uint64_t{i} << 32 | sent_[i]++));
    out = {static_cast<std::uint32_t>((i + 1 + r % (n_ - 1)) % n_), small_one};
    return true;
  }
  std::uint32_t arrived(std::uint32_t, std::uint32_t) override { return nobody; }
  [[nodiscard]] std::uint64_t total() const override { return std::uint64_t{n_} * each_; }

 private:
  std::uint32_t n_, each_;
  std::uint64_t seed_;
  std::vector<std::uint32_t> sent_;
};

/// Up to 16 nodes send bursts of Mediums to one, two of them at a time, in turn: as many as it can
/// handle. Then the hot spot moves, and other nodes send.
class hotspot final : public pattern {
 public:
  explicit hotspot(const workload& w)
      : n_(w.nodes),
        senders_(std::min(16U, n_ - 1)),
        moves_(or_else(w.iterations, 4)),
        bursts_(or_else(w.messages, 20 * 1024 / burst)),
        seed_(w.seed),
        due_(senders_) {
    begin_phase();
  }
  bool next(std::uint32_t i, send_order& out) override {
    const std::uint32_t away = (i + n_ - watched() - 1) % n_;  // n-1 for the hot spot itself
    const std::uint32_t place = away / stride();
    if (phase_ == moves_ || away % stride() != 0 || place >= senders_ || away == n_ - 1)
      return false;
    if (due_[place] == 0) return false;
    --due_[place];
    out = {watched(), medium};
    return true;
  }
  std::uint32_t arrived(std::uint32_t, std::uint32_t) override {
    if (++got_ % burst != 0) return nobody;
    if (got_ == std::uint64_t{bursts_} * burst) {
      got_ = 0;
      if (++phase_ < moves_) begin_phase();
      return nobody;
    }
    return begin_burst();
  }
  [[nodiscard]] std::uint64_t total() const override {
    return std::uint64_t{bursts_} * burst * moves_;
  }
  [[nodiscard]] bool local() const override { return false; }  // a burst ends, another begins
  [[nodiscard]] std::uint32_t phase() const override { return phase_; }
  [[nodiscard]] std::uint32_t watched() const override {
    return static_cast<std::uint32_t>(mix(seed_ + std::min(phase_, moves_ - 1)) % n_);
  }
  [[nodiscard]] bool watches_one() const override { return true; }

 private:
  static constexpr std::uint32_t burst = 64;
  [[nodiscard]] std::uint32_t stride() const { return (n_ - 1) / senders_; }
  void begin_phase() {
    begun_ = 0;
    begin_burst();
    begin_burst();
  }
  /// The next in turn may send; answers which node that is.
  std::uint32_t begin_burst() {
    if (begun_ == bursts_) return nobody;
    const std::uint32_t place = begun_++ % senders_;
    due_[place] += burst;
    return (watched() + 1 + place * stride()) % n_;
  }
  std::uint32_t n_, senders_, moves_, bursts_;
  std::uint64_t seed_, got_ = 0;
  std::uint32_t phase_ = 0, begun_ = 0;
  std::vector<std::uint32_t> due_;
};

/// All nodes stream Mediums at node 0.
class all_to_one final : public pattern {
 public:
  explicit all_to_one(const workload& w)
      : n_(w.nodes),
        each_(or_else(w.messages, std::clamp<std::uint64_t>(1'000'000 / n_, 8, 20000))),
        sent_(w.nodes) {}
  bool next(std::uint32_t i, send_order& out) override {
    if (i == 0 || sent_[i] == each_) return false;
    ++sent_[i];
    out = {0, medium};
    return true;
  }
  std::uint32_t arrived(std::uint32_t, std::uint32_t) override { return nobody; }
  [[nodiscard]] std::uint64_t total() const override { return std::uint64_t{n_ - 1} * each_; }
  [[nodiscard]] bool watches_one() const override { return true; }

 private:
  std::uint32_t n_, each_;
  std::vector<std::uint32_t> sent_;
};

/// Each node streams at the next, then at the one after it, and back again, just as the lenders'
/// epochs end: what was lent is always in the wrong place.
class oscillate final : public pattern {
 public:
  explicit oscillate(const workload& w)
      : n_(w.nodes),
        burst_(or_else(w.messages, std::clamp<std::uint64_t>(budget / n_ / 8, 16, 1024))),
        moves_(or_else(w.iterations, std::clamp<std::uint64_t>(budget / n_ / burst_, 4, 24))),
        sent_(w.nodes) {}
  bool next(std::uint32_t i, send_order& out) override {
    if (sent_[i] == burst_ * moves_) return false;
    const std::uint32_t away = n_ < 3 ? 1 : 1 + sent_[i]++ / burst_ % 2;
    if (n_ < 3) ++sent_[i];
    out = {(i + away) % n_, medium};
    return true;
  }
  std::uint32_t arrived(std::uint32_t, std::uint32_t) override { return nobody; }
  [[nodiscard]] std::uint64_t total() const override { return std::uint64_t{n_} * burst_ * moves_; }

 private:
  std::uint32_t n_, burst_, moves_;
  std::vector<std::uint32_t> sent_;
};

}  // namespace

std::unique_ptr<pattern> make_pattern(const workload& w) {
  if (w.pattern == "none") return std::make_unique<none>(w);
  if (w.pattern == "ghost") return std::make_unique<ghost>(w);
  if (w.pattern == "tree") return std::make_unique<tree>(w);
  if (w.pattern == "random") return std::make_unique<random_peers>(w);
  if (w.pattern == "hotspot") return std::make_unique<hotspot>(w);
  if (w.pattern == "alltoone") return std::make_unique<all_to_one>(w);
  if (w.pattern == "script") return make_script(w.script, w.nodes);
  if (w.pattern == "oscillate") return std::make_unique<oscillate>(w);
  return nullptr;
}

const std::vector<std::string>& pattern_names() {
  static const std::vector<std::string> names{"none",    "ghost",    "tree",      "random",
                                              "hotspot", "alltoone", "oscillate", "script"};
  return names;
}

}  // namespace penstock::creditsim
