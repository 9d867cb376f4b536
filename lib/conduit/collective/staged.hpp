// The logic of a split-phase barrier in stages, for jobs of several hosts with several processes
// each. The votes of a host's processes go up to its first process, the first processes of all
// hosts disseminate them among themselves, and the combined vote comes down. barrier.hpp moves the
// words: by stores between processes of a host, so that only the middle stage uses the device.
// There each host sends one word a step, however many processes it has.
//
//   slot 0 … 15    step of the dissemination (dissemination.hpp) among the hosts' first processes
//   slot 16 … 30   child in the tree of the host (tree.hpp)
//   slot 31        parent in it
//
// No process passes phase p before all have notified it, and one that passes p has read all its
// words for p. A process that sends for p + 2 has passed p + 1, so all have notified p + 1 and thus
// passed p. So by then every slot's word for p has been read.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "lib/conduit/collective/barrier_words.hpp"

namespace penstock::conduit {

/// One process's side; the same interface as dissemination.
class staged {
 public:
  static constexpr unsigned most_steps = 16, radix = 15;
  static constexpr unsigned first_child = most_steps, parent_link = barrier_steps_max - 1;
  static_assert(first_child + radix == parent_link);
  /// The most hosts that a job may have.
  static constexpr std::uint32_t most_hosts = 1u << most_steps;

  /// near: the ranks of this process's host, in ascending order, its own among them. leaders: the
  /// first ranks of all hosts, in ascending order, at most most_hosts.
  staged(std::uint32_t rank, std::span<const std::uint32_t> near,
         std::vector<std::uint32_t> leaders, std::uint32_t passed = 0)
      : near_(near.begin(), near.end()),
        leaders_(std::move(leaders)),
        place_(place_of(near_, rank)),
        host_(place_of(leaders_, near_.front())),
        phase_(passed & phase_mask) {
    const std::uint64_t first = std::uint64_t{place_} * radix + 1;
    if (first < near_.size())
      children_ = static_cast<unsigned>(std::min<std::uint64_t>(radix, near_.size() - first));
    while (place_ == 0 && (std::size_t{1} << steps_) < leaders_.size()) ++steps_;
  }

  void begin(const barrier_vote& own) noexcept {
    phase_ = (phase_ + 1) & phase_mask;
    known_ = own;
    gathered_ = released_ = sent_ = received_ = 0;
    reported_ = told_ = place_ == 0;
  }

  /// As dissemination::advance().
  template <class Send>
  bool advance(const barrier_slots& slots, Send&& send) noexcept {
    const unsigned parity = phase_ & 1;
    std::uint64_t w;
    for (; gathered_ < children_; ++gathered_) {
      if (!received(slots, first_child + gathered_, w)) return false;
      known_ = combine(known_, vote_of(w));
    }
    if (!reported_) {
      if (!send(parent_link, near_[(place_ - 1) / radix], parity,
                first_child + (place_ - 1) % radix, pack_word(phase_, known_)))
        return false;
      reported_ = true;
    }
    for (; received_ < steps_; ++received_) {
      if (sent_ == received_) {
        if (!send(sent_, partner(sent_), parity, sent_, pack_word(phase_, known_))) return false;
        ++sent_;
      }
      if (!received(slots, received_, w)) return false;
      known_ = combine(known_, vote_of(w));
    }
    if (!told_) {
      if (!received(slots, parent_link, w)) return false;
      known_ = vote_of(w);
      told_ = true;
    }
    for (; released_ < children_; ++released_)
      if (!send(first_child + released_, near_[place_ * radix + 1 + released_], parity, parent_link,
                pack_word(phase_, known_)))
        return false;
    return true;
  }

  /// As dissemination::each_partner().
  template <class F>
  void each_partner(F&& f) const noexcept {
    if (place_ != 0) f(near_[(place_ - 1) / radix]);
    for (unsigned k = 0; k < steps_; ++k) f(partner(k));
    for (unsigned c = 0; c < children_; ++c) f(near_[place_ * radix + 1 + c]);
  }
  [[nodiscard]] bool owes() const noexcept {
    return !reported_ || sent_ < steps_ || released_ < children_;
  }
  /// As dissemination::awaited().
  [[nodiscard]] const barrier_slot* awaited(const barrier_slots& slots) const noexcept {
    const unsigned slot = gathered_ < children_ ? first_child + gathered_
                          : received_ < steps_  ? received_
                                                : parent_link;
    const bool all = gathered_ == children_ && received_ == steps_ && told_;
    return all ? nullptr : &slots.at[phase_ & 1][slot];
  }
  [[nodiscard]] std::uint32_t phase() const noexcept { return phase_; }
  [[nodiscard]] const barrier_vote& outcome() const noexcept { return known_; }

 private:
  using ranks = std::vector<std::uint32_t>;
  static std::uint32_t place_of(const ranks& all, std::uint32_t rank) noexcept {
    return static_cast<std::uint32_t>(std::lower_bound(all.begin(), all.end(), rank) - all.begin());
  }
  [[nodiscard]] std::uint32_t partner(unsigned step) const noexcept {
    return leaders_[(host_ + (std::size_t{1} << step)) % leaders_.size()];
  }
  bool received(const barrier_slots& slots, unsigned slot, std::uint64_t& w) const noexcept {
    return slots.at[phase_ & 1][slot].read(phase_, w);
  }

  ranks near_, leaders_;
  std::uint32_t place_, host_;  // this process's index in near_, and its host's in leaders_
  std::uint32_t phase_;
  unsigned children_ = 0, steps_ = 0;
  unsigned gathered_ = 0, released_ = 0;  // children whose word came; children that were sent one
  unsigned sent_ = 0, received_ = 0;      // steps
  bool reported_ = true, told_ = true;    // the word to the parent is sent; the parent's has come
  barrier_vote known_;
};

}  // namespace penstock::conduit
