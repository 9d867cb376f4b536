// The tree along which ranks ask for the order to leave, and pass it on. The parent of a rank is
// the rank without its lowest bit: so each edge joins two partners of a barrier by dissemination,
// and after a barrier the order needs no new connection. Rank r has the children r + 1, r + 2,
// r + 4 … below its lowest bit; rank 0 has at most log2 N.
//
//   0 ── 1            One rank may be out of reach. Its parent takes its children; in place of rank
//   ├─── 2 ── 3       0, rank 1, which has no others, becomes the root.
//   └─── 4 ── 5
//        └─── 6 ── 7
#pragma once

#include <cstdint>

namespace penstock::gasnet {

class leave_tree {
 public:
  static constexpr std::uint32_t none = ~0u;

  /// out_of_reach: a rank that is passed over, or none.
  constexpr explicit leave_tree(std::uint32_t size, std::uint32_t out_of_reach = none) noexcept
      : size_(size), hole_(out_of_reach) {}

  [[nodiscard]] constexpr std::uint32_t root() const noexcept { return hole_ == 0 ? 1 : 0; }
  /// The rank that r asks; none: r is the root.
  [[nodiscard]] constexpr std::uint32_t parent(std::uint32_t r) const noexcept {
    if (r == root()) return none;
    const std::uint32_t p = above(r);
    return p != hole_ ? p : hole_ == 0 ? root() : above(hole_);
  }
  /// Calls f with each rank next to r: its parent, and its children.
  template <class F>
  constexpr void each_neighbour(std::uint32_t r, F&& f) const {
    if (const std::uint32_t p = parent(r); p != none) f(p);
    const auto child = [&](std::uint32_t c) {
      if (c == hole_)
        each_below(c, f);
      else if (c != r)
        f(c);
    };
    each_below(r, child);
    if (hole_ == 0 && r == root()) each_below(0, child);
  }

 private:
  static constexpr std::uint32_t above(std::uint32_t r) noexcept { return r & (r - 1); }
  template <class F>
  constexpr void each_below(std::uint32_t r, F&& f) const {
    const std::uint64_t end = r == 0 ? size_ : r & (~r + 1);
    for (std::uint64_t d = 1; d < end && r + d < size_; d *= 2)
      f(static_cast<std::uint32_t>(r + d));
  }

  std::uint32_t size_, hole_;
};

}  // namespace penstock::gasnet
