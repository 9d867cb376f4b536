// Mediums by rendezvous at the sender, for both paths: the payload is copied to a buffer
// (peer/large_buffers.hpp), and a message of one credit says where it stands. How the target
// reads the payload depends on the path: ring_path/large.cpp, verbs_path/fetch.cpp. Large Mediums
// always go this way, others where credits are short or their lane is being made. requests.cpp,
// pending.cpp and drafts.cpp use it. Any threads.
#pragma once

#include <cstddef>

#include "lib/conduit/message/draft.hpp"
#include "lib/conduit/peer/large_buffers.hpp"
#include "lib/conduit/ways/ways.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

class large_mediums {
 public:
  large_mediums(core& c, ways& w) noexcept : core_(c), ways_(w) {}
  large_mediums(const large_mediums&) = delete;
  large_mediums& operator=(const large_mediums&) = delete;

  /// Copies m's payload to a buffer for that use and rank. False: none is free for it.
  [[nodiscard]] bool take(outgoing& m, rank_id to, large_buffers::use u) noexcept;
  /// Tries to send m, whose payload stands in its buffer. ok: the buffer is the message's; else it
  /// stays the caller's.
  status send(peer& p, const outgoing& m) noexcept;
  /// Copies the payload of m, which is not large, to a buffer and tries to send that. no_chunk: no
  /// buffer is free. The caller has asked the handlers' table.
  status offer(peer& p, const outgoing& m) noexcept;
  /// Answers t. It waits where more handlers run at once than there are buffers.
  status reply(token_state& t, outgoing m) noexcept;
  /// reserve() gives a draft a buffer, if one is free. end() ends the draft's hold of its buffer;
  /// unused: no message took the buffer.
  void reserve(draft& d, std::size_t most) noexcept;
  void end(draft& d, bool unused) noexcept;
  /// The same for the place of an answer to t, which no message has taken at its end.
  void reserve(token_state& t, reply_place& at) noexcept;
  void end(reply_place& at) noexcept { core_.large().give(at.buffer); }

 private:
  [[nodiscard]] bool describe(const peer& p, outgoing& m, wire::large_block& where) noexcept;
  status send_described(peer& p, const outgoing& m, const wire::large_block& where) noexcept;
  [[noreturn, gnu::cold]] static void no_memory(const outgoing& m) noexcept;

  core& core_;
  ways& ways_;
};

}  // namespace penstock::conduit::PENSTOCK_ABI
