// gasnetex.h's active messages with fixed payload. A wrong one ends the job, with a line that names
// the call and the rank. One that only lacks resources waits, unless it is to be immediate.
#include "lib/base/log.hpp"
#include "lib/gasnet/ex/send.hpp"

namespace penstock::gasnet::PENSTOCK_ABI {

int ex_sent_slow(status s, gex_Rank_t dest, gex_Flags_t flags, const char* call) {
  if (s == status::ok) {
    // As in gasnet.h: a process that only sends to itself would never handle others' messages. An
    // immediate message does not poll.
    if (dest == GASNETC_(mynode) && (flags & GEX_FLAG_IMMEDIATE) == 0) (void)GASNETC_(poll)();
    return 0;
  }
  if ((flags & GEX_FLAG_IMMEDIATE) != 0 && is_short(s)) return GASNET_ERR_NOT_READY;
  if (s == status::not_ready && !self.attached)
    fatal(1, "%s to rank %u: neither gasnet_attach nor gex_Client_Init was called", call, dest);
  fatal(1, "%s to rank %u: %s", call, dest, describe(s));
}

addressee addressee_slow(gex_TM_t tm, gex_Rank_t rank, const char* call) {
  const gex_Rank_t to = jobrank_of(tm, rank, call);
  const between e{local_endpoint(tm).index, endpoint_index(tm, rank)};
  if ((local_endpoint(tm).capabilities & GEX_EP_CAPABILITY_AM) == 0)
    fatal(1, "%s to rank %u: endpoint %u was created here without GEX_EP_CAPABILITY_AM", call, to,
          e.from);
  if (e.to >= message_endpoints)
    fatal(1, "%s to rank %u: endpoint %u there has no messages; those of index 0 to %u may have",
          call, to, e.to, message_endpoints - 1);
  return {to, e.flags()};
}

int ex_replied_slow(status s, gex_Token_t token, const char* call) {
  fatal(1, "%s to rank %u: %s", call, state_of(token).source(), describe(s));
}

namespace {

// Local completion of a message, whose payload has been copied when the call returns.
void complete_locally(gex_Event_t* lc_opt, const char* call, gex_Rank_t to, bool request) {
  gasnetc_locally_complete(lc_opt);
  check_lc_opt(lc_opt, call, to, request);
}

conduit::token_state& token_of(gex_Token_t token, const char* call) {
  if (token == nullptr) [[unlikely]]
    fatal(1, "%s: no token", call);
  return state_of(token);
}

}  // namespace
}  // namespace penstock::gasnet::PENSTOCK_ABI

using namespace penstock;
using namespace penstock::gasnet;
using conduit::wire::kind;

extern "C" {

int GASNETC_(ex_request_short)(gex_TM_t tm, gex_Rank_t rank, gex_AM_Index_t handler,
                               gex_Flags_t flags, unsigned n, const gex_AM_Arg_t* args) {
  const addressee to = addressee_of(tm, rank, "gex_AM_RequestShort");
  if ((flags | to.flags) == 0 && self.attached) [[likely]] {
    const status s = self.engine->request_short(to.rank, handler,
                                                reinterpret_cast<const std::uint32_t*>(args), n);
    return ex_sent(s, to.rank, 0, "gex_AM_RequestShort");
  }
  auto m = message(kind::short_, handler, n, args);
  return ex_send(to, m, flags, "gex_AM_RequestShort");
}

int GASNETC_(ex_request_medium)(gex_TM_t tm, gex_Rank_t rank, gex_AM_Index_t handler,
                                const void* source, size_t nbytes, gex_Event_t* lc_opt,
                                gex_Flags_t flags, unsigned n, const gex_AM_Arg_t* args) {
  const addressee to = addressee_of(tm, rank, "gex_AM_RequestMedium");
  complete_locally(lc_opt, "gex_AM_RequestMedium", rank, true);
  if ((flags | to.flags) == 0 && self.attached) [[likely]] {
    const status s = self.engine->request_medium(
        to.rank, handler, reinterpret_cast<const std::uint32_t*>(args), n, source, nbytes);
    return ex_sent(s, to.rank, 0, "gex_AM_RequestMedium");
  }
  auto m = message(kind::medium, handler, n, args, source, nbytes);
  return ex_send(to, m, flags, "gex_AM_RequestMedium");
}

int GASNETC_(ex_request_long)(gex_TM_t tm, gex_Rank_t rank, gex_AM_Index_t handler,
                              const void* source, size_t nbytes, void* dest_addr,
                              gex_Event_t* lc_opt, gex_Flags_t flags, unsigned n,
                              const gex_AM_Arg_t* args) {
  auto m = message(kind::long_, handler, n, args, source, nbytes, dest_addr);
  complete_locally(lc_opt, "gex_AM_RequestLong", rank, true);
  return ex_send(addressee_of(tm, rank, "gex_AM_RequestLong"), m, flags, "gex_AM_RequestLong");
}

int GASNETC_(ex_reply_short)(gex_Token_t token, gex_AM_Index_t handler, gex_Flags_t, unsigned n,
                             const gex_AM_Arg_t* args) {
  const status s = send_reply_short(token_of(token, "gex_AM_ReplyShort"), handler, n, args);
  return ex_replied(s, token, "gex_AM_ReplyShort");
}

int GASNETC_(ex_reply_medium)(gex_Token_t token, gex_AM_Index_t handler, const void* source,
                              size_t nbytes, gex_Event_t* lc_opt, gex_Flags_t, unsigned n,
                              const gex_AM_Arg_t* args) {
  conduit::token_state& t = token_of(token, "gex_AM_ReplyMedium");
  complete_locally(lc_opt, "gex_AM_ReplyMedium", t.source(), false);
  const status s = send_reply_medium(t, handler, n, args, source, nbytes);
  return ex_replied(s, token, "gex_AM_ReplyMedium");
}

int GASNETC_(ex_reply_long)(gex_Token_t token, gex_AM_Index_t handler, const void* source,
                            size_t nbytes, void* dest_addr, gex_Event_t* lc_opt, gex_Flags_t,
                            unsigned n, const gex_AM_Arg_t* args) {
  auto m = message(kind::long_, handler, n, args, source, nbytes, dest_addr);
  const conduit::token_state& t = token_of(token, "gex_AM_ReplyLong");
  complete_locally(lc_opt, "gex_AM_ReplyLong", t.source(), false);
  return ex_replied(send_reply(token, m), token, "gex_AM_ReplyLong");
}

size_t GASNETC_(ex_max_payload)(int category, int everything, gex_Flags_t flags) {
  if ((category & 1) == 0) return GASNETC_(max_medium);
  const size_t most = ((category & 2) != 0 ? GASNETC_(max_long_reply)
                                           : GASNETC_(max_long))[everything != 0 ? 1 : 0];
  return (flags & GEX_FLAG_AM_PREPARE_LEAST_ALLOC) != 0 ? std::min(most, largest_own_buffer) : most;
}

}  // extern "C"
