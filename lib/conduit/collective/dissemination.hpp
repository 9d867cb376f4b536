// The logic of a split-phase barrier by dissemination, without any communication: which word goes
// to which rank in which step, and what all votes say together. barrier.hpp moves the words.
//
//   step k (0 … ceil(log2 N) - 1): rank r sends what it knows to rank r + 2^k,
//                                  and waits for what rank r - 2^k knows
//
// What a process knows grows from its own vote to all votes: a step is sent when all before it have
// been received. Votes may be counted twice, since combine() is idempotent.
//
// A word carries its phase, so no slot has to be cleared. There are two sets of slots, one for each
// parity of the phase. (D1) A process sends for phase p + 1 only when it has passed p, and thus
// after all have notified p. (D2) No process notifies p + 2 before it has passed p + 1. So when a
// word for p + 2 arrives, the one for p in the same slot has been read. The words of one slot come
// from one sender, in the order of phases.
#pragma once

#include <cstdint>

#include "lib/conduit/collective/barrier_words.hpp"

namespace penstock::conduit {

/// One process's side. One thread at a time calls its functions; the slots may be written
/// meanwhile.
class dissemination {
 public:
  /// passed: the number of barriers that all processes have passed before.
  dissemination(std::uint32_t rank, std::uint32_t size, std::uint32_t passed = 0) noexcept
      : rank_(rank), size_(size), phase_(passed & phase_mask) {
    while (steps_ < barrier_steps_max && (std::uint64_t{1} << steps_) < size_) ++steps_;
  }

  [[nodiscard]] unsigned steps() const noexcept { return steps_; }
  /// The rank to which the step's word goes.
  [[nodiscard]] std::uint32_t partner(unsigned step) const noexcept {
    return static_cast<std::uint32_t>((rank_ + (std::uint64_t{1} << step)) % size_);
  }

  /// Arrives. Follow with advance().
  void begin(const barrier_vote& own) noexcept {
    phase_ = (phase_ + 1) & phase_mask;
    known_ = own;
    received_ = sent_ = 0;
  }

  /// Takes words that have arrived in `slots`, and sends those that may go then, by send(link, to,
  /// parity, slot, word). link numbers this process's partners, slot is the place at the receiver.
  /// If send() answers false, the next call of advance() tries again. True: all have arrived.
  template <class Send>
  bool advance(const barrier_slots& slots, Send&& send) noexcept {
    const unsigned parity = phase_ & 1;
    while (true) {
      if (sent_ == received_ && sent_ < steps_) {
        if (!send(sent_, partner(sent_), parity, sent_, pack_word(phase_, known_))) return false;
        ++sent_;
      }
      if (received_ == steps_) return true;
      std::uint64_t w = 0;
      if (!slots.at[parity][received_].read(phase_, w)) return false;
      known_ = combine(known_, vote_of(w));
      ++received_;
    }
  }

  /// Calls f with each rank to which this process sends words.
  template <class F>
  void each_partner(F&& f) const noexcept {
    for (unsigned k = 0; k < steps_; ++k) f(partner(k));
  }
  /// True while there are words that this process has yet to send, and that others wait for.
  [[nodiscard]] bool owes() const noexcept { return sent_ < steps_; }
  /// The slot that it looks at next; null: all have been received.
  [[nodiscard]] const barrier_slot* awaited(const barrier_slots& slots) const noexcept {
    return received_ < steps_ ? &slots.at[phase_ & 1][received_] : nullptr;
  }
  [[nodiscard]] std::uint32_t phase() const noexcept { return phase_; }
  /// The combined vote, after advance() was true.
  [[nodiscard]] const barrier_vote& outcome() const noexcept { return known_; }

 private:
  const std::uint32_t rank_, size_;
  std::uint32_t phase_;
  unsigned steps_ = 0;
  unsigned sent_ = 0, received_ = 0;
  barrier_vote known_;
};

}  // namespace penstock::conduit
