// The logic of a split-phase barrier by a tree of settable radix: votes go up, and the combined
// vote comes down. barrier.hpp moves the words. It takes 2 (N - 1) words in all, where
// dissemination takes N log2 N, but the tree goes up and down: twice its depth.
//
// The children of rank r are ranks r · radix + 1 … r · radix + radix. Slot c of a process receives
// from its child c, and the last slot from its parent. A child sends for phase p + 1 after it has
// passed p, and it passed p after its parent had read its word for p; the same holds downwards. So
// a slot is free when its next word comes.
#pragma once

#include <algorithm>
#include <cstdint>

#include "lib/conduit/collective/barrier_words.hpp"

namespace penstock::conduit {

/// One process's side; the same interface as dissemination.
class tree {
 public:
  static constexpr unsigned parent_link = barrier_steps_max - 1;

  /// A radix outside 1 … 31 is clamped to that range.
  tree(std::uint32_t rank, std::uint32_t size, unsigned radix, std::uint32_t passed = 0) noexcept
      : rank_(rank), radix_(std::clamp(radix, 1u, parent_link)), phase_(passed & phase_mask) {
    const std::uint64_t first = std::uint64_t{rank} * radix_ + 1;
    if (first < size)
      children_ = static_cast<unsigned>(std::min<std::uint64_t>(radix_, size - first));
  }

  void begin(const barrier_vote& own) noexcept {
    phase_ = (phase_ + 1) & phase_mask;
    known_ = own;
    gathered_ = released_ = 0;
    reported_ = told_ = rank_ == 0;
  }

  /// As dissemination::advance().
  template <class Send>
  bool advance(const barrier_slots& slots, Send&& send) noexcept {
    const unsigned parity = phase_ & 1;
    for (; gathered_ < children_; ++gathered_) {
      std::uint64_t w;
      if (!received(slots, gathered_, w)) return false;
      known_ = combine(known_, vote_of(w));
    }
    if (!reported_) {
      if (!send(parent_link, (rank_ - 1) / radix_, parity, (rank_ - 1) % radix_,
                pack_word(phase_, known_)))
        return false;
      reported_ = true;
    }
    if (!told_) {
      std::uint64_t w;
      if (!received(slots, parent_link, w)) return false;
      known_ = vote_of(w);
      told_ = true;
    }
    for (; released_ < children_; ++released_)
      if (!send(released_, rank_ * radix_ + 1 + released_, parity, parent_link,
                pack_word(phase_, known_)))
        return false;
    return true;
  }

  /// As dissemination::each_partner().
  template <class F>
  void each_partner(F&& f) const noexcept {
    if (rank_ != 0) f((rank_ - 1) / radix_);
    for (unsigned c = 0; c < children_; ++c) f(rank_ * radix_ + 1 + c);
  }
  [[nodiscard]] bool owes() const noexcept { return !reported_ || released_ < children_; }
  /// As dissemination::awaited().
  [[nodiscard]] const barrier_slot* awaited(const barrier_slots& slots) const noexcept {
    const unsigned slot = gathered_ < children_ ? gathered_ : parent_link;
    return gathered_ < children_ || !told_ ? &slots.at[phase_ & 1][slot] : nullptr;
  }
  [[nodiscard]] std::uint32_t phase() const noexcept { return phase_; }
  [[nodiscard]] const barrier_vote& outcome() const noexcept { return known_; }

 private:
  bool received(const barrier_slots& slots, unsigned slot, std::uint64_t& w) const noexcept {
    return slots.at[phase_ & 1][slot].read(phase_, w);
  }

  const std::uint32_t rank_;
  const unsigned radix_;
  std::uint32_t phase_;
  unsigned children_ = 0;
  unsigned gathered_ = 0, released_ = 0;  // children whose word came; children that were sent one
  bool reported_ = true, told_ = true;    // the word to the parent is sent; the parent's has come
  barrier_vote known_;
};

}  // namespace penstock::conduit
