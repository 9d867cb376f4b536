// The algorithms of reductions:
//
//   reduce          binomial tree; from rank 0 up in order where the order matters
//   reduce_all      recursive doubling while it is small; then a reduce and a broadcast
//   both, large     in pieces: each process puts one piece together, as the others' elements come
//                   (combiner.hpp), and the root, or all, get it; by the tree where so many
//                   processes would have pieces too small
#include <algorithm>
#include <bit>

#include "lib/gasnet/coll/messages.hpp"
#include "lib/gasnet/coll/planner.hpp"
#include "lib/gasnet/process.hpp"

namespace penstock::gasnet::PENSTOCK_ABI::coll {

// Reduces the elements of this process's images to acc.
void planner::reduce_images(std::byte* acc) {
  p.next_round();
  p.copy(acc, mine.front().src, bytes);
  for (std::size_t i = 1; i < mine.size(); ++i) {
    std::byte* spoilt = p.scratch(bytes);
    p.copy(spoilt, mine[i].src, bytes);
    p.combine_left(acc, spoilt, bytes);
  }
  p.next_round();
}
// Reduces up a tree whose ranks are in order behind `top`; v gets the result of v + 1 … v + 2^k -
// 1.
void planner::climb(std::uint32_t top, std::byte* acc) {
  const std::uint32_t v = down(top);
  for (std::uint32_t k = 0; (std::uint64_t{1} << k) < n; ++k) {
    const std::uint64_t bit = std::uint64_t{1} << k;
    p.next_round();
    if ((v & bit) != 0) {
      p.send(down(bit), up_tags + k, acc, bytes);
      p.next_round();
      return;
    }
    if (v + bit < n) p.receive_left(up(bit), up_tags + k, acc, bytes);
  }
  p.next_round();
}

// True for large reductions, in which each process reduces the piece of its rank, from all
// processes' elements in order.
bool planner::in_pieces() const noexcept {
  constexpr std::size_t least_piece = 512;  // less costs as much as a message of that size
  return n > 1 && bytes >= self.options.coll_large && elements() >= n && bytes / n >= least_piece;
}
std::size_t planner::elements() const noexcept { return bytes / o.how().element_bytes; }
std::size_t planner::piece_begin(std::uint32_t r) const noexcept {
  const std::size_t each = elements() / n, more = elements() % n;
  return (each * r + std::min<std::size_t>(r, more)) * o.how().element_bytes;
}
std::size_t planner::piece_bytes(std::uint32_t r) const noexcept {
  return piece_begin(r + 1) - piece_begin(r);
}
// The elements of this process, from which others get their pieces; its own piece is in acc, too.
// They stay where the only image has them, unless others can fetch from acc alone.
const std::byte* planner::elements_beside(std::byte* acc) {
  const std::byte* const src = mine.front().src;
  const auto others_reach = [&](const std::byte* at) {
    return reachable(t.job_rank(me), reinterpret_cast<std::uintptr_t>(at), bytes);
  };
  if (!alone() || (!others_reach(src) && others_reach(acc))) {
    reduce_images(acc);
    return acc;
  }
  p.next_round();
  p.copy(acc + piece_begin(me), src + piece_begin(me), piece_bytes(me));
  return src;
}
void planner::reduce_piece(std::byte* acc) {
  const std::byte* const from = elements_beside(acc);
  p.next_round();
  for (std::uint32_t k = 1; k < n; ++k)
    p.send(up(k), piece_tags, from + piece_begin(up(k)), piece_bytes(up(k)));
  std::byte* const piece = acc + piece_begin(me);
  for (std::uint32_t r = me; r-- > 0;) p.receive_right(r, piece_tags, piece, piece_bytes(me));
  for (std::uint32_t r = me + 1; r < n; ++r) p.receive_left(r, piece_tags, piece, piece_bytes(me));
  p.next_round();
}
void planner::collect_pieces(std::uint32_t at, std::byte* acc) {
  if (me != at) p.send(at, piece_tags + 1, acc + piece_begin(me), piece_bytes(me));
  for (std::uint32_t k = 1; k < n && me == at; ++k)
    p.receive(up(k), piece_tags + 1, acc + piece_begin(up(k)), piece_bytes(up(k)));
  p.next_round();
}
void planner::share_pieces(std::byte* acc) {
  for (std::uint32_t k = 1; k < n; ++k) {
    p.send(up(k), piece_tags + 1, acc + piece_begin(me), piece_bytes(me));
    p.receive(down(k), piece_tags + 1, acc + piece_begin(down(k)), piece_bytes(down(k)));
  }
  p.next_round();
}

void planner::reduce() {
  std::byte* const dst = me == root ? mine[root_image].dst : nullptr;
  std::byte* const acc = dst != nullptr ? dst : p.scratch(bytes);
  if (in_pieces()) {
    reduce_piece(acc);
    return collect_pieces(root, acc);
  }
  reduce_images(acc);
  if (o.how().commutative) return climb(root, acc);
  climb(0, acc);
  if (root == 0) return;
  if (me == 0) p.send(root, home_tag, acc, bytes);
  if (me == root) p.receive(0, home_tag, acc, bytes);
  p.next_round();
}

void planner::reduce_all() {
  std::byte* const acc = mine.front().dst;
  if (bytes > self.options.coll_small && in_pieces()) {
    reduce_piece(acc);
    share_pieces(acc);
  } else if (reduce_images(acc); bytes <= self.options.coll_small) {
    reduce_doubling(acc);
  } else {
    climb(0, acc);
    spread(0, acc, bytes);
  }
  p.next_round();
  keep(acc);
  p.next_round();
}
// Recursive doubling: neighbours at distance 1, 2, 4, … exchange what they have. Processes beyond
// the largest power of two send theirs to a neighbour first, and get the result from it last.
void planner::reduce_doubling(std::byte* acc) {
  const std::uint32_t whole = std::bit_floor(n), extra = n - whole;
  std::byte* const other = p.scratch(bytes);
  if (me < 2 * extra && me % 2 == 0) {
    p.send(me + 1, fold_tag, acc, bytes);
    p.next_round();
    p.receive(me + 1, back_tag, acc, bytes);
    p.next_round();
    return;
  }
  if (me < 2 * extra) {
    p.receive(me - 1, fold_tag, other, bytes);
    p.next_round();
    p.combine_right(acc, other, bytes);
    p.next_round();
  }
  const std::uint32_t v = me < 2 * extra ? me / 2 : me - extra;
  std::uint32_t k = 0;
  for (std::uint32_t bit = 1; bit < whole; bit *= 2, ++k) {
    const std::uint32_t w = v ^ bit;
    const std::uint32_t partner = w < extra ? 2 * w + 1 : w + extra;
    p.send(partner, double_tags + k, acc, bytes);
    p.receive(partner, double_tags + k, other, bytes);
    p.next_round();
    if (w < v)
      p.combine_right(acc, other, bytes);
    else
      p.combine_left(acc, other, bytes);
    p.next_round();
  }
  if (me < 2 * extra) p.send(me - 1, back_tag, acc, bytes);
  p.next_round();
}

}  // namespace penstock::gasnet::PENSTOCK_ABI::coll
