// The algorithm of each operation:
//
//   barriers        dissemination
//   broadcast       binomial tree; all from the root where that is a copy; large ones over several
//                   hosts in blocks of pieces: each process gets one piece from the root, then all
//                   from all, while the pieces of the next block come
//   scatter, gather, exchange   straight between the two, all at once
//   gather_all      dissemination (each step doubles what one has) while it is small, or while many
//                   processes have little each; else straight
#include "lib/gasnet/coll/algorithms.hpp"

#include <algorithm>
#include <bit>

#include "lib/gasnet/coll/planner.hpp"
#include "lib/gasnet/process.hpp"

namespace penstock::gasnet::PENSTOCK_ABI::coll {

void planner::meet(std::uint32_t tags) {
  for (std::uint32_t k = 0; (std::uint64_t{1} << k) < n; ++k) {
    p.next_round();
    p.send(up(std::uint64_t{1} << k), tags + k, nullptr, 0);
    p.receive(down(std::uint64_t{1} << k), tags + k, nullptr, 0);
  }
  p.next_round();
}

// Brings the bytes of rank `from` to every process's `at`. In the tree the root is 0; v receives
// from v without its highest bit, and sends to v + 2^k for all 2^k above v.
void planner::spread(std::uint32_t from, void* at, std::size_t count, bool copies) {
  const bool large = count >= self.options.coll_large && n > 2;
  p.next_round();
  if (large && !t.one_host()) return spread_pieces(from, at, count, copies);
  if (large) return spread_flat(from, at, count, copies);
  const std::uint32_t v = down(from);
  if (v != 0) {
    const std::uint32_t parent = v - std::bit_floor(v);
    p.receive((parent + from) % n, tree_tags, at, count);
    p.next_round();
  }
  for (std::uint64_t k = v == 0 ? 1 : std::uint64_t{std::bit_floor(v)} * 2; v + k < n; k *= 2)
    p.send(static_cast<std::uint32_t>((v + k + from) % n), tree_tags, at, count);
  if (copies) keep(at);
  p.next_round();
}
// Copies to this process's images, while other processes fetch.
void planner::keep(const void* at) {
  for (const auto& i : mine) p.copy(i.dst, at, bytes);
}
void planner::spread_flat(std::uint32_t from, void* at, std::size_t count, bool copies) {
  if (me != from)
    p.receive(from, tree_tags, at, count);
  else
    for (std::uint32_t r = 0; r < n; ++r)
      if (r != from) p.send(r, tree_tags, at, count);
  if (copies) keep(at);
  p.next_round();
}
// In blocks: while the pieces of one block come from the root, those of the block before go from
// each process to all.
void planner::spread_pieces(std::uint32_t from, void* at, std::size_t count, bool copies) {
  constexpr std::size_t least_piece = std::size_t{64} << 10, most_blocks = 8;
  const std::size_t blocks = std::clamp<std::size_t>(count / n / least_piece, 1, most_blocks);
  const std::size_t piece = (count / blocks / n + 63) & ~std::size_t{63};
  // Piece r of block b; the last one has what is left.
  const auto begin = [&](std::size_t b, std::uint32_t r) {
    return std::min((b * n + r) * piece, count);
  };
  const auto length = [&](std::size_t b, std::uint32_t r) {
    return b + 1 == blocks && r + 1 == n ? count - begin(b, r) : begin(b, r + 1) - begin(b, r);
  };
  auto* const base = static_cast<std::byte*>(at);
  const auto tag = [&](std::size_t b, std::uint32_t of) {
    return static_cast<std::uint32_t>(piece_tags + b * n + of);
  };
  for (std::size_t b = 0; b <= blocks; ++b) {
    if (b < blocks && me != from) {
      p.receive(from, tag(b, me), base + begin(b, me), length(b, me));
    } else if (b < blocks) {
      for (std::uint32_t k = 1; k < n; ++k)
        p.send(up(k), tag(b, up(k)), base + begin(b, up(k)), length(b, up(k)));
    }
    for (std::uint32_t k = 1; k < n && b != 0; ++k) {
      const std::size_t c = b - 1;
      if (up(k) != from) p.send(up(k), tag(c, me), base + begin(c, me), length(c, me));
      if (me != from)
        p.receive(down(k), tag(c, down(k)), base + begin(c, down(k)), length(c, down(k)));
    }
    if (b == blocks && copies) keep(at);
    p.next_round();
  }
}

void planner::broadcast() {
  if (me == root) return spread(root, const_cast<std::byte*>(mine[root_image].src), bytes, true);
  spread(root, mine.front().dst, bytes);
  keep(mine.front().dst);
  p.next_round();
}

void planner::scatter() {
  p.next_round();
  if (me == root) {
    const std::byte* const src = mine[root_image].src;
    for (std::uint32_t k = 1; k < n; ++k)
      p.send(up(k), piece_tags, src + place_of(up(k)), block_of(up(k)));
    for (std::size_t i = 0; i < mine.size(); ++i)
      p.copy(mine[i].dst, src + place_of(me) + i * bytes, bytes);
  } else {
    std::byte* const to = alone() ? mine.front().dst : p.scratch(block_of(me));
    p.receive(root, piece_tags, to, block_of(me));
    p.next_round();
    if (!alone())
      for (std::size_t i = 0; i < mine.size(); ++i) p.copy(mine[i].dst, to + i * bytes, bytes);
  }
  p.next_round();
}

// Packs this process's blocks into one piece, at `to` if it is not null.
const std::byte* planner::pack(std::byte* to) {
  if (to == nullptr && alone()) return mine.front().src;
  if (to == nullptr) to = p.scratch(block_of(me));
  for (std::size_t i = 0; i < mine.size(); ++i) p.copy(to + i * bytes, mine[i].src, bytes);
  return to;
}

void planner::gather() {
  p.next_round();
  if (me == root) {
    std::byte* const dst = mine[root_image].dst;
    (void)pack(dst + place_of(me));
    for (std::uint32_t k = 1; k < n; ++k)
      p.receive(up(k), piece_tags, dst + place_of(up(k)), block_of(up(k)));
  } else {
    const std::byte* const from = pack(nullptr);
    p.next_round();
    p.send(root, piece_tags, from, block_of(me));
  }
  p.next_round();
}

void planner::gather_all() {
  std::byte* const dst = mine.front().dst;
  p.next_round();
  (void)pack(dst + place_of(me));
  p.next_round();
  if (n > 2 && n == images() && (bytes * n <= self.options.coll_small || is_small_of_many()))
    gather_doubling(dst);
  else
    for (std::uint32_t k = 1; k < n; ++k) {
      p.send(up(k), piece_tags, dst + place_of(me), block_of(me));
      p.receive(down(k), piece_tags, dst + place_of(down(k)), block_of(down(k)));
    }
  p.next_round();
  for (const auto& i : mine) p.copy(i.dst, dst, bytes * images());
  p.next_round();
}
// Straight, each of many processes would send, and be connected, to all others: the ranks of a
// split, say, have 24 bytes each. Then steps in log n are better, though each copies more.
bool planner::is_small_of_many() const noexcept {
  constexpr std::uint32_t many = 32;
  constexpr std::size_t small = 256;
  return n >= many && bytes <= small;
}
// Gathers by doubling: with each step a process has twice as many blocks, its own first.
void planner::gather_doubling(std::byte* dst) {
  std::byte* const all = p.scratch(bytes * n);
  p.copy(all, dst + place_of(me), bytes);
  std::uint32_t k = 0;
  for (std::uint64_t have = 1; have < n; have *= 2, ++k) {
    const auto more = static_cast<std::size_t>(std::min<std::uint64_t>(have, n - have));
    p.next_round();
    p.send(down(have), double_tags + k, all, more * bytes);
    p.receive(up(have), double_tags + k, all + have * bytes, more * bytes);
  }
  p.next_round();
  p.copy(dst + me * bytes, all, (n - me) * bytes);
  p.copy(dst, all + (n - me) * bytes, me * bytes);
}

void planner::exchange() {
  p.next_round();
  if (n == images()) {
    const auto& i = mine.front();
    for (std::uint32_t k = 1; k < n; ++k) {
      p.send(up(k), piece_tags, i.src + up(k) * bytes, bytes);
      p.receive(down(k), piece_tags, i.dst + down(k) * bytes, bytes);
    }
    p.copy(i.dst + me * bytes, i.src + me * bytes, bytes);
  } else {
    exchange_images();
  }
  p.next_round();
}
// Exchanges, between each two processes, the blocks of all images of the sender for all images of
// the receiver.
void planner::exchange_images() {
  const std::size_t images = mine.size();
  std::vector<std::byte*> in(n);
  for (std::uint32_t k = 0; k < n; ++k) {
    const std::uint32_t r = up(k);
    std::byte* const out = p.scratch(images * block_of(r));
    for (std::size_t i = 0; i < images; ++i)
      p.copy(out + i * block_of(r), mine[i].src + place_of(r), block_of(r));
    in[r] = r == me ? out : p.scratch(images * block_of(r));
    if (r == me) continue;
    p.send(r, piece_tags, out, images * block_of(r));
    p.receive(r, piece_tags, in[r], images * block_of(r));
  }
  p.next_round();
  for (std::uint32_t r = 0; r < n; ++r)
    for (std::size_t from = 0; from < images_of(r); ++from)
      for (std::size_t i = 0; i < images; ++i)
        p.copy(mine[i].dst + place_of(r) + from * bytes, in[r] + (from * images + i) * bytes,
               bytes);
}

void make_plan(operation& o) {
  planner plan(o);
  const unsigned sync = o.asked().sync;
  if ((sync & in_all) != 0) plan.meet(in_tags);
  switch (o.asked().what) {
    case kind::none:
      break;
    case kind::barrier:
      plan.meet(tree_tags);
      break;
    case kind::broadcast:
      plan.broadcast();
      break;
    case kind::scatter:
      plan.scatter();
      break;
    case kind::gather:
      plan.gather();
      break;
    case kind::gather_all:
      plan.gather_all();
      break;
    case kind::exchange:
      plan.exchange();
      break;
    case kind::reduce:
      plan.reduce();
      break;
    case kind::reduce_all:
      plan.reduce_all();
      break;
  }
  if ((sync & out_all) != 0) plan.meet(out_tags);
}

}  // namespace penstock::gasnet::PENSTOCK_ABI::coll
