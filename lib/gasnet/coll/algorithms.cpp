// The algorithm of each operation:
//
//   barriers        dissemination
//   broadcast       binomial tree; all from the root where that is a copy; large ones over several
//                   hosts in pieces: each process gets one from the root, then all from all
//   scatter, gather, exchange   straight between the two, all at once
//   gather_all      dissemination (each step doubles what one has) while it is small, or while many
//                   processes have little each; else straight
//   reduce          binomial tree; from rank 0 up in order where the order matters
//   reduce_all      recursive doubling while it is small; then a reduce and a broadcast
//   both, large     in pieces: each process puts one piece together, which the root, or all, get;
//                   by the tree where so many processes would have pieces too small
//
// Tags name the purpose of a message: in an operation, two processes never exchange two messages of
// one tag.
#include "lib/gasnet/coll/algorithms.hpp"

#include <algorithm>
#include <bit>

#include "lib/gasnet/coll/team.hpp"
#include "lib/gasnet/process.hpp"

namespace penstock::gasnet::PENSTOCK_ABI::coll {
namespace {

enum tag_base : std::uint32_t {
  in_tags = 0,
  out_tags = 64,
  tree_tags = 128,
  up_tags = 192,
  double_tags = 256,
  fold_tag = 320,
  back_tag,
  home_tag,
  piece_tags = 1024,
};

// The data from which all plans are made.
struct planner {
  explicit planner(operation& op) noexcept
      : o(op),
        p(op.plan),
        t(op.over()),
        n(t.size()),
        me(t.rank()),
        bytes(op.asked().bytes),
        mine(op.images()),
        by_image(op.lane() == team::by_image),
        root(by_image ? t.rank_of_image(op.asked().root) : op.asked().root),
        root_image(op.asked().root - first_image(root)) {}

  operation& o;
  schedule& p;
  const team& t;
  const std::uint32_t n, me;
  const std::size_t bytes;
  const std::vector<operation::buffers>& mine;
  const bool by_image;                   // each image of a process calls, not the process once
  const std::uint32_t root, root_image;  // the root's process, and its image there

  [[nodiscard]] std::uint32_t images_of(std::uint32_t r) const noexcept {
    return by_image ? t.images_of(r) : 1;
  }
  [[nodiscard]] std::uint32_t first_image(std::uint32_t r) const noexcept {
    return by_image ? t.first_image(r) : r;
  }
  [[nodiscard]] std::uint32_t images() const noexcept { return by_image ? t.images() : n; }

  [[nodiscard]] std::uint32_t up(std::uint64_t k) const noexcept {
    return static_cast<std::uint32_t>((me + k) % n);
  }
  [[nodiscard]] std::uint32_t down(std::uint64_t k) const noexcept {
    return static_cast<std::uint32_t>((me + n - k % n) % n);
  }
  [[nodiscard]] bool alone() const noexcept { return mine.size() == 1; }
  [[nodiscard]] std::size_t block_of(std::uint32_t r) const noexcept {
    return bytes * images_of(r);
  }
  [[nodiscard]] std::size_t place_of(std::uint32_t r) const noexcept {
    return bytes * first_image(r);
  }

  void meet(std::uint32_t tags) {
    for (std::uint32_t k = 0; (std::uint64_t{1} << k) < n; ++k) {
      p.next_round();
      p.send(up(std::uint64_t{1} << k), tags + k, nullptr, 0);
      p.receive(down(std::uint64_t{1} << k), tags + k, nullptr, 0);
    }
    p.next_round();
  }

  // Brings the bytes of rank `from` to every process's `at`. In the tree the root is 0; v receives
  // from v without its highest bit, and sends to v + 2^k for all 2^k above v.
  void spread(std::uint32_t from, void* at, std::size_t count, bool copies = false) {
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
  void keep(const void* at) {
    for (const auto& i : mine) p.copy(i.dst, at, bytes);
  }
  void spread_flat(std::uint32_t from, void* at, std::size_t count, bool copies) {
    if (me != from)
      p.receive(from, tree_tags, at, count);
    else
      for (std::uint32_t r = 0; r < n; ++r)
        if (r != from) p.send(r, tree_tags, at, count);
    if (copies) keep(at);
    p.next_round();
  }
  void spread_pieces(std::uint32_t from, void* at, std::size_t count, bool copies) {
    const std::size_t piece = (count / n + 63) & ~std::size_t{63};
    auto* const base = static_cast<std::byte*>(at);
    const auto begin = [&](std::uint32_t r) { return std::min(piece * r, count); };
    const auto length = [&](std::uint32_t r) {
      return r + 1 == n ? count - begin(r) : begin(r + 1) - begin(r);
    };
    if (me == from) {
      for (std::uint32_t k = 1; k < n; ++k)
        p.send(up(k), tree_tags, base + begin(up(k)), length(up(k)));
    } else {
      p.receive(from, tree_tags, base + begin(me), length(me));
      p.next_round();
    }
    for (std::uint32_t k = 1; k < n; ++k) {
      if (up(k) != from) p.send(up(k), piece_tags + me, base + begin(me), length(me));
      if (me != from)
        p.receive(down(k), piece_tags + down(k), base + begin(down(k)), length(down(k)));
    }
    if (copies) keep(at);
    p.next_round();
  }

  void broadcast() {
    if (me == root) return spread(root, const_cast<std::byte*>(mine[root_image].src), bytes, true);
    spread(root, mine.front().dst, bytes);
    keep(mine.front().dst);
    p.next_round();
  }

  void scatter() {
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
  const std::byte* pack(std::byte* to) {
    if (to == nullptr && alone()) return mine.front().src;
    if (to == nullptr) to = p.scratch(block_of(me));
    for (std::size_t i = 0; i < mine.size(); ++i) p.copy(to + i * bytes, mine[i].src, bytes);
    return to;
  }

  void gather() {
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

  void gather_all() {
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
  [[nodiscard]] bool is_small_of_many() const noexcept {
    constexpr std::uint32_t many = 32;
    constexpr std::size_t small = 256;
    return n >= many && bytes <= small;
  }
  // Gathers by doubling: with each step a process has twice as many blocks, its own first.
  void gather_doubling(std::byte* dst) {
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

  void exchange() {
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
  void exchange_images() {
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

  // Reduces the elements of this process's images to acc.
  void reduce_images(std::byte* acc) {
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
  void climb(std::uint32_t top, std::byte* acc) {
    const std::uint32_t v = down(top);
    std::byte* other = nullptr;
    for (std::uint32_t k = 0; (std::uint64_t{1} << k) < n; ++k) {
      const std::uint64_t bit = std::uint64_t{1} << k;
      p.next_round();
      if ((v & bit) != 0) {
        p.send(down(bit), up_tags + k, acc, bytes);
        p.next_round();
        return;
      }
      if (v + bit >= n) continue;
      if (other == nullptr) other = p.scratch(bytes);
      p.receive(up(bit), up_tags + k, other, bytes);
      p.next_round();
      p.combine_left(acc, other, bytes);
    }
    p.next_round();
  }

  // True for large reductions, in which each process reduces the piece of its rank, from all
  // processes' elements in order.
  [[nodiscard]] bool in_pieces() const noexcept {
    constexpr std::size_t least_piece = 512;  // less costs as much as a message of that size
    return n > 1 && bytes >= self.options.coll_large && elements() >= n && bytes / n >= least_piece;
  }
  [[nodiscard]] std::size_t elements() const noexcept { return bytes / o.how().element_bytes; }
  [[nodiscard]] std::size_t piece_begin(std::uint32_t r) const noexcept {
    const std::size_t each = elements() / n, more = elements() % n;
    return (each * r + std::min<std::size_t>(r, more)) * o.how().element_bytes;
  }
  [[nodiscard]] std::size_t piece_bytes(std::uint32_t r) const noexcept {
    return piece_begin(r + 1) - piece_begin(r);
  }
  void reduce_piece(std::byte* acc) {
    std::vector<std::byte*> his(n);
    p.next_round();
    for (std::uint32_t k = 1; k < n; ++k) {
      p.send(up(k), piece_tags, acc + piece_begin(up(k)), piece_bytes(up(k)));
      his[down(k)] = p.scratch(piece_bytes(me));
      p.receive(down(k), piece_tags, his[down(k)], piece_bytes(me));
    }
    p.next_round();
    std::byte* const piece = acc + piece_begin(me);
    for (std::uint32_t r = me; r-- > 0;) p.combine_right(piece, his[r], piece_bytes(me));
    for (std::uint32_t r = me + 1; r < n; ++r) p.combine_left(piece, his[r], piece_bytes(me));
    p.next_round();
  }
  void collect_pieces(std::uint32_t at, std::byte* acc) {
    if (me != at) p.send(at, piece_tags + 1, acc + piece_begin(me), piece_bytes(me));
    for (std::uint32_t k = 1; k < n && me == at; ++k)
      p.receive(up(k), piece_tags + 1, acc + piece_begin(up(k)), piece_bytes(up(k)));
    p.next_round();
  }
  void share_pieces(std::byte* acc) {
    for (std::uint32_t k = 1; k < n; ++k) {
      p.send(up(k), piece_tags + 1, acc + piece_begin(me), piece_bytes(me));
      p.receive(down(k), piece_tags + 1, acc + piece_begin(down(k)), piece_bytes(down(k)));
    }
    p.next_round();
  }

  void reduce() {
    std::byte* const dst = me == root ? mine[root_image].dst : nullptr;
    std::byte* const acc = dst != nullptr ? dst : p.scratch(bytes);
    reduce_images(acc);
    if (in_pieces()) {
      reduce_piece(acc);
      return collect_pieces(root, acc);
    }
    if (o.how().commutative) return climb(root, acc);
    climb(0, acc);
    if (root == 0) return;
    if (me == 0) p.send(root, home_tag, acc, bytes);
    if (me == root) p.receive(0, home_tag, acc, bytes);
    p.next_round();
  }

  void reduce_all() {
    std::byte* const acc = mine.front().dst;
    reduce_images(acc);
    if (bytes <= self.options.coll_small) {
      reduce_doubling(acc);
    } else if (in_pieces()) {
      reduce_piece(acc);
      share_pieces(acc);
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
  void reduce_doubling(std::byte* acc) {
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
};

}  // namespace

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
