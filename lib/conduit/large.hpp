// Large Mediums at the door: what requests.cpp and reserve.cpp ask of large.cpp.
#pragma once

#include "lib/conduit/engine.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

struct large_mediums {
  /// request(), try_request() and reply() of a message that is_large(), to another process.
  static status request(engine& e, rank_id to, outgoing m) noexcept;
  static status try_request(engine& e, peer& p, outgoing m) noexcept;
  static status reply(engine& e, token_state& t, outgoing m) noexcept;
  /// A buffer for a draft; it may be left without. And its end; unused: it went with no message.
  static void reserve(engine& e, draft& d, std::size_t most) noexcept;
  static void end(engine& e, draft& d, bool unused) noexcept;
};

}  // namespace penstock::conduit::PENSTOCK_ABI
