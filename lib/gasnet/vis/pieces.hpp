// The pieces of a put or get: the two sides are walked together, as runs that lie in one piece on
// both. This file knows no node and no way to move bytes. vis.cpp uses it.
//
// match() walks two lists whose pieces may end at different offsets. A strided pair needs no
// matching: both sides have the same shape, which is folded first, so that bytes that lie in one
// piece are one run.
#pragma once

#include <gasnet.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "lib/gasnet/vis/runs.hpp"
#include "penstock/mode.hpp"

namespace penstock::gasnet::PENSTOCK_ABI::vis {

/// The pieces of a vector, in order; empty ones are left out.
class vector_pieces {
 public:
  vector_pieces(const gasnet_memvec_t* list, std::size_t count) noexcept
      : next_(list), left_(count) {
    skip_empty();
  }
  [[nodiscard]] bool more() const noexcept { return left_ != 0; }
  [[nodiscard]] std::byte* at() const noexcept {
    return static_cast<std::byte*>(next_->addr) + done_;
  }
  [[nodiscard]] std::size_t bytes() const noexcept { return next_->len - done_; }
  void advance(std::size_t n) noexcept {
    if ((done_ += n) < next_->len) return;
    ++next_, --left_, done_ = 0;
    skip_empty();
  }

 private:
  void skip_empty() noexcept {
    while (left_ != 0 && next_->len == 0) ++next_, --left_;
  }
  const gasnet_memvec_t* next_;
  std::size_t left_, done_ = 0;
};

/// Pieces of one length, in order.
class indexed_pieces {
 public:
  indexed_pieces(void* const* list, std::size_t count, std::size_t length) noexcept
      : next_(list), left_(length == 0 ? 0 : count), length_(length) {}
  [[nodiscard]] bool more() const noexcept { return left_ != 0; }
  [[nodiscard]] std::byte* at() const noexcept { return static_cast<std::byte*>(*next_) + done_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return length_ - done_; }
  void advance(std::size_t n) noexcept {
    if ((done_ += n) < length_) return;
    ++next_, --left_, done_ = 0;
  }

 private:
  void* const* next_;
  std::size_t left_;
  const std::size_t length_;
  std::size_t done_ = 0;
};

/// Calls move(to, from, bytes) for every run; runs that touch each other on both sides become one.
template <class Pieces, class Move>
void match(Pieces to, Pieces from, Move&& move) {
  std::byte *dst = nullptr, *src = nullptr;
  std::size_t run = 0;
  while (to.more() && from.more()) {
    const std::size_t n = std::min(to.bytes(), from.bytes());
    if (run != 0 && dst + run == to.at() && src + run == from.at()) {
      run += n;
    } else {
      if (run != 0) move(dst, src, run);
      dst = to.at(), src = from.at(), run = n;
    }
    to.advance(n);
    from.advance(n);
  }
  if (run != 0) move(dst, src, run);
}

/// A regular array of runs, on both sides at once.
class grid {
 public:
  /// elem bytes, counts[0] times at strides[0], all that counts[1] times at strides[1], and so on.
  /// Strides are in bytes, of any sign and order; the stride of a dimension of one element is not
  /// used.
  grid(std::size_t elem, const std::ptrdiff_t* dst_strides, const std::ptrdiff_t* src_strides,
       const std::size_t* counts, std::size_t levels) noexcept
      : run_(elem) {
    for (std::size_t i = 0; i < levels; ++i)
      if (counts[i] == 0) run_ = 0;
    for (std::size_t i = 0; i < levels && run_ != 0; ++i)
      if (counts[i] != 1) add({counts[i], dst_strides[i], src_strides[i]});
  }

  [[nodiscard]] bool empty() const noexcept { return run_ == 0; }
  /// Bytes of each run.
  [[nodiscard]] std::size_t run() const noexcept { return run_; }

  /// Offsets from the address of element 0: the lowest byte touched, and one past the highest; one
  /// that is no std::ptrdiff_t is the nearest that is.
  struct extent {
    std::ptrdiff_t low = 0, high = 0;
  };
  [[nodiscard]] extent dst_extent() const noexcept { return extent_of(&dimension::dst); }
  [[nodiscard]] extent src_extent() const noexcept { return extent_of(&dimension::src); }

  /// Calls copy(runs) for every row of the innermost dimension.
  template <class Copy>
  void each_row(std::byte* dst, const std::byte* src, Copy&& copy) const {
    if (run_ == 0) return;
    std::size_t at[most] = {};
    const dimension inner = dims_ != 0 ? dim_[0] : dimension{1, 0, 0};
    while (true) {
      copy(runs{dst, inner.dst, src, inner.src, run_, inner.count});
      unsigned i = 1;
      for (; i < dims_; ++i) {
        dst += dim_[i].dst, src += dim_[i].src;
        if (++at[i] < dim_[i].count) break;
        dst -= static_cast<std::ptrdiff_t>(at[i]) * dim_[i].dst;
        src -= static_cast<std::ptrdiff_t>(at[i]) * dim_[i].src;
        at[i] = 0;
      }
      if (i >= dims_) return;
    }
  }

 private:
  struct dimension {
    std::size_t count;
    std::ptrdiff_t dst, src;
  };
  // Each dimension has two elements or more, so more dimensions would have more elements than
  // memory has bytes.
  static constexpr unsigned most = 64;

  // What a client gives may be any numbers: a dimension whose product overflows is not folded.
  void add(const dimension& d) noexcept {
    const auto follows = [&d](std::size_t bytes) {
      return d.dst > 0 && d.src == d.dst && static_cast<std::size_t>(d.dst) == bytes;
    };
    std::size_t product = 0;
    if (dims_ == 0 && follows(run_) && !__builtin_mul_overflow(run_, d.count, &product)) {
      run_ = product;
      return;
    }
    if (dims_ != 0) {
      dimension& last = dim_[dims_ - 1];
      std::ptrdiff_t to = 0, from = 0;
      if (!__builtin_mul_overflow(last.dst, last.count, &to) && d.dst == to &&
          !__builtin_mul_overflow(last.src, last.count, &from) && d.src == from &&
          !__builtin_mul_overflow(last.count, d.count, &product)) {
        last.count = product;
        return;
      }
    }
    if (dims_ < most) dim_[dims_++] = d;
  }
  extent extent_of(std::ptrdiff_t dimension::*stride) const noexcept {
    using limit = std::numeric_limits<std::ptrdiff_t>;
    extent e{0,
             run_ > std::size_t{limit::max()} ? limit::max() : static_cast<std::ptrdiff_t>(run_)};
    for (unsigned i = 0; i < dims_; ++i) {
      const bool down = dim_[i].*stride < 0;
      std::ptrdiff_t& end = down ? e.low : e.high;
      std::ptrdiff_t span = 0;
      if (__builtin_mul_overflow(dim_[i].*stride, dim_[i].count - 1, &span) ||
          __builtin_add_overflow(end, span, &end))
        end = down ? limit::min() : limit::max();
    }
    return e;
  }

  std::size_t run_;
  unsigned dims_ = 0;
  dimension dim_[most];
};

}  // namespace penstock::gasnet::PENSTOCK_ABI::vis
