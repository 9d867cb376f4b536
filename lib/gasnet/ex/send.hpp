// The last step of sending gasnetex.h's messages. messages.cpp and negotiated.cpp include it.
#pragma once

#include <algorithm>
#include <cstddef>

#include "lib/gasnet/ex/objects.hpp"
#include "lib/gasnet/messages.hpp"
#include "lib/gasnet/reach.hpp"

namespace penstock::gasnet::PENSTOCK_ABI {

/// Largest payload of a Long for which the library has a buffer of its own.
inline constexpr std::size_t largest_own_buffer = std::size_t{64} << 10;

int ex_sent_slow(status s, gex_Rank_t dest, gex_Flags_t flags, const char* call);
[[noreturn]] int ex_replied_slow(status s, gex_Token_t token, const char* call);

/// Ends the job for an lc_opt that a message does not take: it takes NOW, the place of an event,
/// and in requests GROUP.
inline void check_lc_opt(const gex_Event_t* lc_opt, const char* call, gex_Rank_t to, bool request) {
  if (lc_opt == nullptr || lc_opt == GEX_EVENT_DEFER || (lc_opt == GEX_EVENT_GROUP && !request))
      [[unlikely]]
    GASNETC_(mistake)(gasnetc_bad_lc_opt, call, to, reinterpret_cast<std::uintptr_t>(lc_opt));
}

/// The return value of a request that ended with status s.
inline int ex_sent(status s, gex_Rank_t dest, gex_Flags_t flags, const char* call) {
  if (s == status::ok && dest != GASNETC_(mynode)) [[likely]]
    return 0;
  return ex_sent_slow(s, dest, flags, call);
}
/// The same for a reply.
inline int ex_replied(status s, gex_Token_t token, const char* call) {
  if (s == status::ok) [[likely]]
    return 0;
  ex_replied_slow(s, token, call);
}
/// Where a message goes: the job rank, and the flags that name its endpoints.
struct addressee {
  gex_Rank_t rank;
  std::uint8_t flags;
};
/// Ends the job for endpoints that have no messages.
addressee addressee_slow(gex_TM_t tm, gex_Rank_t rank, const char* call);
inline addressee addressee_of(gex_TM_t tm, gex_Rank_t rank, const char* call) {
  if (tm == GASNETC_(world)) [[likely]]
    return {rank, 0};
  return addressee_slow(tm, rank, call);
}

/// Sends m, which may be changed.
inline int ex_send(addressee to, conduit::outgoing& m, gex_Flags_t flags, const char* call) {
  const gex_Rank_t dest = to.rank;
  m.flags = to.flags;
  if (!self.attached) [[unlikely]]
    return ex_sent_slow(status::not_ready, dest, 0, call);
  const void* const at = m.dest;
  const status s = send_request(dest, m, (flags & GEX_FLAG_IMMEDIATE) != 0);
  if (s == status::out_of_segment) [[unlikely]]
    check_remote(dest, at, m.bytes, call);
  return ex_sent(s, dest, flags, call);
}

}  // namespace penstock::gasnet::PENSTOCK_ABI
