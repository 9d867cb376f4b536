// The room of a completion queue of sends, as tickets. Each signalled work request takes one before
// it is posted, and the thread that takes completions out of the queue gives as many back. So the
// queue holds every completion that can come, however long no thread polls it (I6; claim 14 of
// credit/DEADLOCK.md).
//
//   free_: tickets that nobody holds; below zero for a moment while a refused taker puts its own
//   back
//
// Who with whom: any threads take and give. Effect: the subtraction in try_take. Requests leave a
// quarter of the tickets to replies, so that an answer never waits for requests to complete. A
// ticket comes back when its completion is polled, which takes no help of the peer's program: a
// taker who finds none polls the queue. Nothing is published by the count: what a work request
// holds is published by its completion (in_order.hpp). A refusal may come from another taker's
// refusal at the same moment; both are asked again. Cost: one RMW for a take in PAR, one for each
// batch that is given back, none in SEQ.
//
// The queue may have been made longer by a thread that takes no tickets (grow). The new tickets lie
// in fresh_ until a taker is refused, who adds them.
#pragma once

#include <atomic>
#include <cstdint>

#include "lib/base/assert.hpp"
#include "lib/base/mode.hpp"

namespace penstock::queues {

/// How many of the tickets a taker may use: the share of requests, or all, for work requests that
/// must not wait for requests.
enum class room_share : std::uint8_t { requests, all };

template <thread_mode M, template <class> class Atomic = std::atomic>
class completion_room {
 public:
  /// The smallest number of tickets with which both requests and replies get some.
  static constexpr std::uint32_t least = 16;

  /// To be called before any thread takes a ticket. tickets: the entries of the completion queue,
  /// at least 1, and `least` where requests and replies share them.
  void open(std::uint32_t tickets) noexcept {
    PENSTOCK_ASSERT(tickets, >=, 1u);
    // relaxed: set up before the threads that take
    tickets_.store(tickets, std::memory_order_relaxed);
    free_.store(static_cast<std::int32_t>(tickets), std::memory_order_relaxed);
    kept_.store(static_cast<std::int32_t>(tickets / 4), std::memory_order_relaxed);
    lowest_.store(static_cast<std::int32_t>(tickets), std::memory_order_relaxed);
  }

  [[nodiscard]] bool try_take(room_share s) noexcept {
    const std::int32_t kept = s == room_share::requests ? kept_.load(std::memory_order_relaxed) : 0;
    // relaxed, here and in give: the count carries nothing (see the head)
    const std::int32_t before = free_.fetch_sub(1, std::memory_order_relaxed);
    if (before <= lowest_.load(std::memory_order_relaxed))
      lowest_.store(before - 1, std::memory_order_relaxed);  // of several, the last one stays
    if (before > kept) [[likely]]
      return true;
    free_.fetch_add(1, std::memory_order_relaxed);
    // relaxed: a taker that misses new tickets now is asked again
    if (fresh_.load(std::memory_order_relaxed) == 0) [[likely]]
      return false;
    return add_fresh() && try_take(s);
  }
  /// The completion queue has that many entries more. Any one thread; it need take no tickets.
  void grow(std::uint32_t more) noexcept {
    // R1 grown  release fresh_  -> A1: the queue has been made longer
    fresh_.fetch_add(more, std::memory_order_release);
  }
  /// n completions were taken out of the queue, or a ticket was not used.
  void give(std::uint32_t n) noexcept {
    if (n == 0) return;
    const auto back = static_cast<std::int32_t>(n);
    [[maybe_unused]] const auto before = free_.fetch_add(back, std::memory_order_relaxed);
    PENSTOCK_ASSERT(before + back, <=, static_cast<std::int32_t>(tickets()));  // each was taken
  }

  [[nodiscard]] std::uint32_t tickets() const noexcept {
    return tickets_.load(std::memory_order_relaxed) + fresh_.load(std::memory_order_relaxed);
  }
  /// Most tickets that were taken at a time; when threads take at the same moment, one may be
  /// missed.
  [[nodiscard]] std::uint32_t most() const noexcept {
    const std::int32_t low = lowest_.load(std::memory_order_relaxed);
    const std::uint32_t all = tickets_.load(std::memory_order_relaxed);
    return low < 0 ? all : all - static_cast<std::uint32_t>(low);
  }
  /// Tickets that are free at this moment.
  [[nodiscard]] std::int32_t free() const noexcept { return free_.load(std::memory_order_relaxed); }

 private:
  // Adds the new tickets; false: another thread has them.
  [[gnu::cold, gnu::noinline]] bool add_fresh() noexcept {
    // A1 grown  acquire fresh_  <- R1
    const std::uint32_t more = fresh_.exchange(0, std::memory_order_acquire);
    if (more == 0) return false;
    const auto signed_more = static_cast<std::int32_t>(more);
    // relaxed: figures, which a taker may see a moment later
    const std::uint32_t all = tickets_.fetch_add(more, std::memory_order_relaxed) + more;
    kept_.store(static_cast<std::int32_t>(all / 4), std::memory_order_relaxed);
    lowest_.fetch_add(signed_more, std::memory_order_relaxed);
    free_.fetch_add(signed_more, std::memory_order_relaxed);
    return true;
  }

  std::atomic<std::uint32_t> tickets_{0};  // without those in fresh_
  std::atomic<std::int32_t> kept_{0};
  std::atomic<std::uint32_t> fresh_{0};
  alignas(cache_line) word<M, std::int32_t, Atomic> free_{0};
  std::atomic<std::int32_t> lowest_{0};  // of free_; only shown to the user
};

}  // namespace penstock::queues
