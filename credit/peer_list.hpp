// An intrusive lock-free queue of peer indexes: first come first served, each peer in it at most
// once. The ledger keeps two: peers that may be asked to give credits back, and peers that wait for
// credits. The link lives in the peer's record; membership is a bit that the caller keeps.
//
//   front: [tag|a] → b → c → nil        back: [z] → y → nil      (z came last)
//   pop takes a; when front is empty, the whole back is taken, turned round, and becomes front.
//
// Who with whom: any thread may run any operation with any other.
//   (L-a) A peer is pushed only by the thread that set its membership bit, or that popped it: so no
//         peer is in the queue twice and no two threads write one link.
//   (L-b) Every change of front gives it a new tag, so a pop whose link went stale fails its CAS.
//   (L-c) back is only pushed to one by one and taken as a whole, so a returning head value there
//         is harmless: the link written names exactly the head that the CAS replaced.
// Effect: push at P1, push_front at F1, pop at X1, turning round at B1 and F1.
// Memory: links are indexes into the caller's array and never freed; a stale one is read, and then
//   thrown away by L-b. A thread stopped between B1 and F1 keeps what it took out of sight; others
//   see an emptier queue and go on. Full: cannot be, by L-a.
// Cost: push 1 RMW, pop 1 RMW (2 and a walk when it turns the back round).
#pragma once

#include <cstdint>

#include "lib/base/assert.hpp"
#include "lib/base/mode.hpp"

namespace penstock::credit {

inline constexpr std::uint32_t no_peer = 0xffffffff;

/// link(p) must return the word<M, std::uint32_t, Atomic>& of peer p.
template <thread_mode M, template <class> class Atomic = std::atomic>
class peer_list {
 public:
  using link_word = word<M, std::uint32_t, Atomic>;

  /// Puts p last. The caller owns p (L-a).
  template <class Link>
  void push(std::uint32_t p, Link&& link) noexcept {
    std::uint32_t head = back_.load(std::memory_order_relaxed);
    PENSTOCK_ASSERT(p, !=, head);  // (L-a): whoever pushes it owns it, so it is in no list
    do {
      link(p).store(head, std::memory_order_relaxed);
      // P1 push  cas-release back  -> B1: the link is visible
    } while (!back_.compare_exchange_weak(head, p, std::memory_order_release,
                                          std::memory_order_relaxed));
  }

  /// Puts p first: for one that was popped and could not be served. The caller owns p (L-a).
  template <class Link>
  void push_front(std::uint32_t p, Link&& link) noexcept {
    put_front(p, p, link);
  }

  /// Takes the first, or no_peer. The caller then owns it, and clears its bit or pushes it again.
  template <class Link>
  [[nodiscard]] std::uint32_t pop(Link&& link) noexcept {
    for (;;) {
      // A1 read  load-acquire front  <- F1: the link of its head is visible
      std::uint64_t head = front_.load(std::memory_order_acquire);
      const auto p = static_cast<std::uint32_t>(head);
      if (p == no_peer) {
        if (!turn_round(link)) return no_peer;
        continue;
      }
      const std::uint32_t next = link(p).load(std::memory_order_relaxed);
      // X1 pop  cas relaxed front: as a read-modify-write it continues F1's release for later A1s
      if (front_.compare_exchange_weak(head, tagged(head, next), std::memory_order_relaxed,
                                       std::memory_order_relaxed))
        return p;
    }
  }

  /// The first of those that a pop would find without turning the back round, or no_peer. Another
  /// thread may just be taking it.
  [[nodiscard]] std::uint32_t first() const noexcept {
    // A2 first  load-acquire front  <- F1: what was said of it before it was pushed is visible
    return static_cast<std::uint32_t>(front_.load(std::memory_order_acquire));
  }

 private:
  static constexpr std::uint64_t tagged(std::uint64_t old, std::uint32_t p) noexcept {
    return ((old >> 32) + 1) << 32 | p;
  }

  template <class Link>
  void put_front(std::uint32_t first, std::uint32_t last, Link& link) noexcept {
    std::uint64_t head = front_.load(std::memory_order_relaxed);
    PENSTOCK_ASSERT(first != no_peer && last != no_peer, ==, true);
    do {
      link(last).store(static_cast<std::uint32_t>(head), std::memory_order_relaxed);
      // F1 push  cas-release front  -> A1, A2: the links are visible
    } while (!front_.compare_exchange_weak(head, tagged(head, first), std::memory_order_release,
                                           std::memory_order_relaxed));
  }

  /// Makes the back the front, oldest first. False if there was nothing.
  template <class Link>
  bool turn_round(Link& link) noexcept {
    if (back_.load(std::memory_order_relaxed) == no_peer) return false;
    // B1 take  exchange-acquire back  <- P1: the links of all that were pushed are visible
    std::uint32_t p = back_.exchange(no_peer, std::memory_order_acquire);
    if (p == no_peer) return false;
    const std::uint32_t newest = p;
    std::uint32_t oldest = no_peer;
    while (p != no_peer) {
      const std::uint32_t next = link(p).load(std::memory_order_relaxed);
      link(p).store(oldest, std::memory_order_relaxed);
      oldest = p;
      p = next;
    }
    put_front(oldest, newest, link);
    return true;
  }

  word<M, std::uint64_t, Atomic> front_{std::uint64_t{no_peer}};
  word<M, std::uint32_t, Atomic> back_{no_peer};
};

}  // namespace penstock::credit
