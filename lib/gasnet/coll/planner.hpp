// The data from which the plans of all operations are made, and what the algorithms share.
// algorithms.cpp and reductions.cpp use it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/gasnet/coll/team.hpp"

namespace penstock::gasnet::PENSTOCK_ABI::coll {

/// Tags name the purpose of a message: in an operation, two processes never exchange two messages
/// of one tag.
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

/// Makes the plan of one operation of this process.
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

  // ---- algorithms.cpp ----
  void meet(std::uint32_t tags);
  void spread(std::uint32_t from, void* at, std::size_t count, bool copies = false);
  void keep(const void* at);
  void spread_flat(std::uint32_t from, void* at, std::size_t count, bool copies);
  void spread_pieces(std::uint32_t from, void* at, std::size_t count, bool copies);
  void broadcast();
  void scatter();
  const std::byte* pack(std::byte* to);
  void gather();
  void gather_all();
  [[nodiscard]] bool is_small_of_many() const noexcept;
  void gather_doubling(std::byte* dst);
  void exchange();
  void exchange_images();

  // ---- reductions.cpp ----
  void reduce_images(std::byte* acc);
  void climb(std::uint32_t top, std::byte* acc);
  [[nodiscard]] bool in_pieces() const noexcept;
  [[nodiscard]] std::size_t elements() const noexcept;
  [[nodiscard]] std::size_t piece_begin(std::uint32_t r) const noexcept;
  [[nodiscard]] std::size_t piece_bytes(std::uint32_t r) const noexcept;
  const std::byte* elements_beside(std::byte* acc);
  void reduce_piece(std::byte* acc);
  void collect_pieces(std::uint32_t at, std::byte* acc);
  void share_pieces(std::byte* acc);
  void reduce();
  void reduce_all();
  void reduce_doubling(std::byte* acc);
};

}  // namespace penstock::gasnet::PENSTOCK_ABI::coll
