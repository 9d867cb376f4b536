// The state behind a token: what is known of a message while its handler runs, and where its reply
// may go. The code that takes a message out of a queue makes it, on its stack.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "lib/conduit/message/outgoing.hpp"
#include "nic/shm/ring.hpp"
#include "penstock/penstock.hpp"
#include "queues/queues.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

class engine;
struct peer;

/// A message from a process to itself, packed, which is kept until its handler runs. The object is
/// large, so that only the stack of one call holds it.
struct kept_message {
  alignas(16) std::byte bytes[wire::full_bytes(max_eager)];
  std::unique_ptr<std::byte[]> large;  ///< the payload of a large Medium, large_bytes long
  std::size_t large_bytes = 0;
  /// Encodes m, and copies a Long's payload to its place. out_of_segment: that place is outside the
  /// segment. no_space: there is no memory for a large Medium.
  status keep(const outgoing& m, std::span<std::byte> segment) noexcept;
};

/// The state behind a token while a handler runs.
struct token_state {
  conduit::engine* engine = nullptr;
  peer* from = nullptr;  ///< null when a process sends to itself
  wire::header header;
  std::uint32_t cost = 0;  ///< credits that the reply gives back
  std::uint8_t grant = 0;  ///< credits lent beyond these, which the reply announces
  bool request = false;
  bool replied = true;
  std::uint16_t reply_chunk = queues::no_chunk;  ///< verbs path: where the reply is built
  kept_message* own_reply = nullptr;             ///< from itself: where the reply is kept
  nic::shm::ring_tx* lane = nullptr;  ///< by rings: where a plain reply may be written at once

  token_state() = default;
  token_state(conduit::engine& e, peer& p, const wire::header& h, bool is_request) noexcept
      : engine(&e), from(&p), header(h), request(is_request), replied(!is_request) {}
  token make() noexcept { return token(*this); }
  /// The number of argument words, and the rank that sent the message.
  [[nodiscard]] unsigned nargs() const noexcept { return header.nargs(); }
  [[nodiscard]] std::uint32_t source() const noexcept;
};

/// The state of the handler that this thread runs now, or null.
extern thread_local constinit token_state* running __attribute__((tls_model("initial-exec")));

}  // namespace penstock::conduit::PENSTOCK_ABI
