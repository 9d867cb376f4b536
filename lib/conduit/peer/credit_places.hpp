// Where the credits of one channel lie, but for those that the ledger has. credit_flow.cpp moves
// them; a path takes from the lease and adds to what is owed.
//
//   here as the borrower (requests to the peer)          here as the lender (requests from it)
//   ledger ── lease ── ring limit ═══ request ═══>       token (while the handler runs)
//     ^                (ring_tx::allow)                    │
//     │                                                    v
//   returned <═══ reply, or a message of credits ═══     owed, grant
//
// Invariant (I2), for one pair (and claim 6: they come back). Of the credits that a lender has lent
// to a borrower, each is in one of these at any moment:
//   at the borrower   ledger: free, or to be given back | lease | ring limit | returned
//   on the way        request | reply, message of credits | system message
//   at the lender     token.cost, token.grant | owed | grant
// They move along the arrows only, each by the thread inside the owner that is named below, so none
// is counted twice. Before a REVOKE is answered, the ring limit (recall), the lease and what has
// returned are the ledger's again.
#pragma once

#include <atomic>
#include <cstdint>

#include "credit/credit.hpp"
#include "lib/base/assert.hpp"
#include "lib/conduit/peer/rights.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

struct credit_places {
  shown<end_of::request_in, std::atomic<std::uint32_t>> owed;  ///< to be given back to the peer
  guarded<end_of::request_in, std::uint32_t> grant;   ///< lent to it, and not yet announced
  guarded<end_of::request_out, std::uint32_t> lease;  ///< taken from the ledger, not yet spent
  /// Come back, and not yet known to the ledger.
  guarded<end_of::reply_in, std::uint32_t> returned;
  /// `owed` from which a message of its own is sent; set when the peer begins.
  std::atomic<std::uint16_t> return_batch{0};
  std::atomic<std::uint8_t> say{0};  ///< bits E and XXX of the credit byte, for the next request

  [[nodiscard]] std::uint32_t due() const noexcept {
    return owed.seen().load(std::memory_order_relaxed);
  }
  /// The peer is owed `cost` further credits, and is lent `more`.
  void owe(inside<end_of::request_in> in, std::uint32_t cost, std::uint32_t more) noexcept {
    PENSTOCK_ASSERT(due() + cost, <=, credit::counter_max);  // no loan is larger
    PENSTOCK_ASSERT(grant[in] + more, <=, credit::counter_max);
    owed[in].store(due() + cost, std::memory_order_relaxed);
    grant[in] += more;
  }
  /// A message has taken along all that is owed.
  void settled(inside<end_of::request_in> in) noexcept {
    owed[in].store(0, std::memory_order_relaxed);
  }
  /// True when the credits owed are enough for a message of their own.
  [[nodiscard]] bool batch_is_due() const noexcept {
    return due() >= return_batch.load(std::memory_order_relaxed);
  }
};
static_assert(sizeof(credit_places) == 20);

}  // namespace penstock::conduit::PENSTOCK_ABI
