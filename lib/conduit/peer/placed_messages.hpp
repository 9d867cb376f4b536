// By queue pairs: where the messages above 256 bytes between this process and one peer lie, in both
// directions. Each side has a block of registered memory: a word that the peer writes, in which it
// says what it has freed, and behind that the space for the peer's messages
// (queues/placed_ring.hpp).
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include "lib/base/result.hpp"
#include "lib/base/shortage.hpp"
#include "queues/queues.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

struct placed_messages {
  /// Takes a block of q for the peer. Null: q has none, since no messages are placed in this job.
  static result<std::unique_ptr<placed_messages>> begin(queues::message_queues& q) noexcept {
    std::byte* const block = q.block_of_next();
    if (block == nullptr) return std::unique_ptr<placed_messages>();
    std::unique_ptr<placed_messages> p(new (std::nothrow) placed_messages(block));
    if (p == nullptr ||
        (q.size.space != 0 && !p->rx.open(block + queues::placing::unit, q.size.space)))
      return failure{"no memory for what messages of a peer take", ENOMEM, what_to_raise(ENOMEM)};
    q.take_block();
    return p;
  }
  explicit placed_messages(std::byte* here) noexcept : block(here) {}
  /// What the peer's hello says of its own block. The first one counts.
  void heard(std::uint64_t base, std::uint32_t rkey, std::uint32_t space) noexcept {
    if (word_base != 0 || base == 0) return;
    word_base = base;
    word_rkey = rkey;
    if (space != 0)
      tx.open(base + queues::placing::unit, rkey, space, reinterpret_cast<std::uint64_t*>(block));
  }
  /// What is to be written into the peer's word. It may be sent later: a newer value does as well.
  [[nodiscard]] ibv_sge say(std::uint32_t freed, std::uint32_t lkey) const noexcept {
    auto* const own = reinterpret_cast<std::uint64_t*>(block) + 1;
    // relaxed: the post carries it
    std::atomic_ref(*own).store(queues::placing::word_of(freed), std::memory_order_relaxed);
    return {reinterpret_cast<std::uintptr_t>(own), sizeof *own, lkey};
  }

  queues::placed_tx tx;              // (request_out)
  queues::placed_rx<build_mode> rx;  // collect() and say(): (reply_out)
  std::byte* const block;
  std::uint64_t word_base = 0;  // the peer's word; told before a lane is bound
  std::uint32_t word_rkey = 0;
};

}  // namespace penstock::conduit::PENSTOCK_ABI
