// Mediums by rendezvous at the sender: what requests.cpp and reserve.cpp ask of large.cpp.
#pragma once

#include "lib/conduit/engine.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

struct large_mediums {
  /// engine::request(), try_request() and reply() for a message that is_large(), to another
  /// process.
  static status request(engine& e, rank_id to, outgoing m) noexcept;
  static status try_request(engine& e, peer& p, const outgoing& m) noexcept;
  static status reply(engine& e, token_state& t, outgoing m) noexcept;
  /// True if m, which lacks credits for p, goes by rendezvous once it finds a buffer and one
  /// credit. offer() and the wait for credits ask this alone: a message that is not offered has to
  /// ask for credits urgently, else nothing that it waits for would come (claim 22).
  [[nodiscard]] static bool offers(const engine& e, const peer& p, const outgoing& m) noexcept;
  /// For a request whose Medium is not large, and for which p has too few credits, or no lane yet;
  /// why: which of these (no_credit, not_ready). The Medium goes by rendezvous, for one credit, and
  /// p is asked for more if it lacked any. If no buffer is free, the credits that are left to
  /// offers serve the message itself. It never waits.
  static status offer(engine& e, peer& p, const outgoing& m, status why) noexcept;
  /// reserve() gives a draft a buffer, if one is free. end() ends the draft's hold of its buffer;
  /// unused: no message took the buffer.
  static void reserve(engine& e, draft& d, std::size_t most) noexcept;
  static void end(engine& e, draft& d, bool unused) noexcept;
  /// The same for the place of an answer to t, which no message has taken at its end.
  static void reserve(engine& e, token_state& t, reply_place& at) noexcept;
  static void end(engine& e, reply_place& at) noexcept;

 private:
  [[nodiscard]] static bool has_credit(engine& e, peer& p) noexcept;
  static status offer_meanwhile(engine& e, peer& p, const outgoing& m) noexcept;
  static status send(engine& e, peer& p, outgoing m, large_buffers::use u) noexcept;
  [[nodiscard]] static bool describe(engine& e, const peer& p, outgoing& m,
                                     wire::large_block& where) noexcept;
  [[noreturn, gnu::cold]] static void no_memory(const outgoing& m) noexcept;
};

}  // namespace penstock::conduit::PENSTOCK_ABI
