// A request that could not go at once: the message, what its last try lacked, and what it has asked
// for. Who waits for it steps it once a poll (../pending.hpp): its sender, or, where the
// request was handed over (handed_over.hpp), the thread that leaves the end, and polls. One step is
// one try, by one of four ways, which choose() decides from what the last step lacked:
//
//             ┌── credits, lane, place, of a Medium that may be offered ─► offer ─ no buffer ─┐
//             ├── credits for long, of a packed Long ───────────────────────► apart            │
//   ──► whole ┤                                                              │                 ▼
//         ▲   └── anything else: again                                       │                last
//         └── any other lack, or credits for all of it are there ◄───────────┴─────────────────┘
//
// Between steps it waits for what `lacks` says, a row of the table of waits (peer/waits.hpp).
#pragma once

#include "credit/credit.hpp"
#include "lib/conduit/message/outgoing.hpp"
#include "penstock/status.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

/// How a try goes about it: as it is; by rendezvous, for one credit; as a Long whose payload is
/// written beside its header, for one credit; or as it is, with the credits that are left to
/// offers, where no offer finds a buffer; or not at all, since no way has what it needs.
enum class way_out : std::uint8_t { whole, offer, apart, last, none };

struct pending {
  outgoing m;
  status lacks = status::ok;  ///< of the last step: is_short(), or ok before the first one
  way_out tried = way_out::whole;
  std::uint8_t short_of_credits = 0;  ///< steps that lacked them, up to patience
  bool has_buffer = false;            ///< m.buffer is this request's: given back, unless it is sent
  credit::stall stalled{};            ///< what its peer's ledger has been told

  /// Steps without credits after which a Long is no longer packed: a stream to a target that polls
  /// has its credits sooner, and packed it is faster.
  static constexpr std::uint8_t patience = 64;
};

}  // namespace penstock::conduit::PENSTOCK_ABI
