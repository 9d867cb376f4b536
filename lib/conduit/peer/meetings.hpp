// Which ranks this process has met in a domain, and what became of the start loans of the others.
// To meet a rank is to make the queue pairs to it for the first time. A rank that was never met
// holds its start loan only by the plan: it can send nothing before this process's first hello has
// reached it. So what the bank needs of such a loan is taken without a question, and that hello
// says so (hello::lowered). Whom this process has met is asked by a REVOKE.
//
//   start loan of r, no buffers ── meet() ──> start loan, buffers          (connector)
//             │
//             └── reach(): buffers, the rest to the bank ──> the minimum   (a poll)
//
// Invariants: (M-a) A loan is lowered before the rank is met, or never: so all hellos to it say the
//   same, and it is told before it can spend a credit. (M-b) The loan of a rank has buffers from
//   the moment it is met, lowered or has gone; they are made once. By rings there are none to make.
// Who with whom: the connector meets, polls lower; one at a time by the lock, which no message's
//   way takes. It is held while buffers are made (message_queues::admit_peer).
#pragma once

#include <cstdint>
#include <mutex>

#include "credit/credit.hpp"
#include "lib/base/assert.hpp"
#include "lib/base/result.hpp"
#include "lib/base/zero_pages.hpp"

namespace penstock::conduit {

class meetings {
 public:
  void open(std::uint32_t ranks) { what_ = zero_array<std::uint8_t>(ranks); }

  /// Rank r is met now, or was before. Fails as make_room() does, which makes the buffers for one
  /// loan.
  template <class Room>
  result<void> meet(std::uint32_t r, Room&& make_room) {
    const std::lock_guard alone(lock_);
    if (auto made = admit(r, make_room); !made) return made;
    what_[r] |= met;
    return {};
  }

  /// What a walk of the ledger's does about the loan of r. take: it is lowered from now on.
  template <class Room>
  [[nodiscard]] credit::reach reach(std::uint32_t r, Room&& make_room) noexcept {
    const std::lock_guard alone(lock_);
    if ((what_[r] & (met | lowered)) != 0) return credit::reach::ask;
    if (!admit(r, make_room)) return credit::reach::leave;
    PENSTOCK_ASSERT(what_[r], ==, admitted);  // never met, and not lowered twice
    what_[r] |= lowered;
    return credit::reach::take;
  }

  /// Rank r has gone, and its loan is to return to the bank. False: there are no buffers for it.
  template <class Room>
  [[nodiscard]] bool may_return(std::uint32_t r, Room&& make_room) noexcept {
    const std::lock_guard alone(lock_);
    return bool{admit(r, make_room)};
  }

  /// True if r was lent the minimum alone when it was met. Any thread.
  [[nodiscard]] bool was_lowered(std::uint32_t r) noexcept {
    const std::lock_guard alone(lock_);
    return (what_[r] & lowered) != 0;
  }

 private:
  enum bits : std::uint8_t { admitted = 1, met = 2, lowered = 4 };

  template <class Room>
  result<void> admit(std::uint32_t r, Room& make_room) {
    if ((what_[r] & admitted) != 0) return {};
    if (auto made = make_room(); !made) return made;
    what_[r] |= admitted;
    return {};
  }

  std::mutex lock_;
  zero_array<std::uint8_t> what_;  // by rank
};

}  // namespace penstock::conduit
