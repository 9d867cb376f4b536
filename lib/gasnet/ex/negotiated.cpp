// gasnetex.h's active messages with negotiated payload. A thread makes no other call that
// communicates between Prepare and Commit or Cancel, so it has two descriptors only: one for
// requests, and one for the replies of handlers that run while a Commit waits. Without a buffer of
// the client's both are written in place (message/draft.hpp).
#include <memory>
#include <utility>

#include "lib/base/log.hpp"
#include "lib/conduit/message/draft.hpp"
#include "lib/gasnet/ex/send.hpp"

namespace penstock::gasnet::PENSTOCK_ABI {
namespace {

constexpr const char* commit_names[] = {"gex_AM_CommitRequestMedium", "gex_AM_CommitRequestLong",
                                        "gex_AM_CommitReplyMedium", "gex_AM_CommitReplyLong"};
constexpr const char* prepare_names[] = {"gex_AM_PrepareRequestMedium", "gex_AM_PrepareRequestLong",
                                         "gex_AM_PrepareReplyMedium", "gex_AM_PrepareReplyLong"};
constexpr int long_kind = 1, reply_kind = 2;  // bits of a kind

struct descriptor : gasnetc_srcdesc {
  bool in_use = false;
  int kind = 0;
  unsigned numargs = 0;
  gex_Rank_t dest = 0;
  std::uint8_t endpoints = 0;  ///< of a request: addressee::flags
  gex_Token_t token = nullptr;
  void* dest_addr = nullptr;
  conduit::draft* written = nullptr;  ///< of a request that is written in place
  conduit::reply_place place;         ///< of a reply that is written in place
  struct block {
    alignas(16) std::byte bytes[largest_own_buffer];
  };
  std::unique_ptr<block> own;  ///< for others without a client's buffer; made at the first use
};

descriptor& mine(int kind) noexcept {
  static thread_local descriptor both[2];
  return both[(kind & reply_kind) != 0 ? 1 : 0];
}

struct wanted {
  const void* client_buf;
  std::size_t least, most;
  void* dest_addr;
  gex_Event_t* lc_opt;
  unsigned numargs;
};

using sort = conduit::wire::kind;
sort sort_of(int kind) noexcept { return (kind & long_kind) != 0 ? sort::long_ : sort::medium; }

gex_AM_SrcDesc_t prepare(descriptor& d, int kind, const wanted& w) {
  const char* const call = prepare_names[kind];
  const bool own = w.client_buf == nullptr;
  const std::size_t limit = GASNETC_(ex_max_payload)(
      kind, self.everything ? 1 : 0,
      own ? GEX_FLAG_AM_PREPARE_LEAST_ALLOC : GEX_FLAG_AM_PREPARE_LEAST_CLIENT);
  if (w.least > limit || w.most < w.least || w.numargs > gex_AM_MaxArgs())
    fatal(1, "%s to rank %u: least %zu, most %zu, %u arguments; least may be up to %zu", call,
          d.dest, w.least, w.most, w.numargs, limit);
  if (own && w.lc_opt != nullptr)
    fatal(1, "%s to rank %u: lc_opt without a buffer of the client's", call, d.dest);
  if (!own) check_lc_opt(w.lc_opt, call, d.dest, (kind & reply_kind) == 0);
  // A Long to memory outside the segment goes by a Medium, or by a put, and is not written in
  // place.
  const bool in_place = own && (kind & reply_kind) == 0 && self.attached &&
                        ((kind & long_kind) == 0 || !self.everything);
  if (in_place) {
    status why = status::ok;
    d.written =
        self.engine->in_place().reserve(d.dest,
                                        message(sort_of(kind), 0, w.numargs, nullptr, nullptr, 0,
                                                engine_address(d.dest, w.dest_addr)),
                                        w.least, std::min(w.most, limit), why);
    if (d.written == nullptr) fatal(1, "%s to rank %u: %s", call, d.dest, describe(why));
  } else if (own && self.attached && ((kind & long_kind) == 0 || !self.everything)) {
    d.place = conduit::reply_place::find(state_of(d.token),
                                         message(sort_of(kind), 0, w.numargs, nullptr, nullptr, 0,
                                                 engine_address(d.dest, w.dest_addr)),
                                         std::min(w.most, limit));
  }
  if (own && !in_place && d.place.payload == nullptr && d.own == nullptr)
    d.own.reset(new descriptor::block);
  d.in_use = true;
  d.kind = kind;
  d.numargs = w.numargs;
  d.dest_addr = w.dest_addr;
  d.gasnetc_addr = in_place                     ? d.written->payload
                   : d.place.payload != nullptr ? d.place.payload
                   : own                        ? d.own->bytes
                                                : const_cast<void*>(w.client_buf);
  d.gasnetc_size = in_place ? d.written->most : std::min(w.most, limit);
  // Commit copies the payload, before the client may look at the event.
  gasnetc_locally_complete(w.lc_opt);
  return &d;
}

// The descriptor behind sd, if it is the one that this thread has prepared.
descriptor& prepared(gex_AM_SrcDesc_t sd, int kind, const char* call) {
  descriptor& d = mine(kind);
  if (sd != &d || !d.in_use) fatal(1, "%s: nothing of the kind was prepared by this thread", call);
  if (d.kind != kind)
    fatal(1, "%s to rank %u: prepared by %s", call, d.dest, prepare_names[d.kind]);
  return d;
}

}  // namespace
}  // namespace penstock::gasnet::PENSTOCK_ABI

using namespace penstock;
using namespace penstock::gasnet;

extern "C" {

gex_AM_SrcDesc_t GASNETC_(prepare_request)(gex_TM_t tm, gex_Rank_t rank, int is_long,
                                           const void* client_buf, size_t least, size_t most,
                                           void* dest_addr, gex_Event_t* lc_opt, gex_Flags_t,
                                           unsigned int numargs) {
  descriptor& d = mine(is_long);
  if (d.in_use)
    fatal(1, "%s to rank %u: what was prepared before is not committed", prepare_names[is_long],
          rank);
  const addressee to = addressee_of(tm, rank, prepare_names[is_long]);
  d.dest = to.rank;
  d.endpoints = to.flags;
  if (d.dest >= GASNETC_(nodes))
    fatal(1, "%s: rank %u of %u", prepare_names[is_long], d.dest, GASNETC_(nodes));
  return prepare(d, is_long, {client_buf, least, most, dest_addr, lc_opt, numargs});
}

gex_AM_SrcDesc_t GASNETC_(prepare_reply)(gex_Token_t token, int is_long, const void* client_buf,
                                         size_t least, size_t most, void* dest_addr,
                                         gex_Event_t* lc_opt, gex_Flags_t, unsigned int numargs) {
  descriptor& d = mine(reply_kind);
  // A handler that has ended without a Commit has given up what it had prepared.
  d.in_use = false;
  d.place.drop(*self.engine, false);
  if (token == nullptr) fatal(1, "%s: no token", prepare_names[reply_kind | is_long]);
  d.token = token;
  d.dest = state_of(token).source();
  return prepare(d, reply_kind | is_long, {client_buf, least, most, dest_addr, lc_opt, numargs});
}

int GASNETC_(commit)(gex_AM_SrcDesc_t sd, int what, gex_AM_Index_t handler, size_t nbytes,
                     void* dest_addr, gex_Flags_t flags, unsigned n, const gex_AM_Arg_t* args) {
  const char* const call = commit_names[what];
  descriptor& d = prepared(sd, what, call);
  if (nbytes > d.gasnetc_size)
    fatal(1, "%s to rank %u: %zu bytes where %zu were prepared", call, d.dest, nbytes,
          d.gasnetc_size);
  if (n != d.numargs)
    fatal(1, "%s to rank %u: %u arguments where %u were prepared", call, d.dest, n, d.numargs);
  if (d.dest_addr != nullptr && d.dest_addr != dest_addr)
    fatal(1, "%s to rank %u: another destination than was prepared", call, d.dest);
  auto m = message(sort_of(what), handler, n, args, d.gasnetc_addr, nbytes, dest_addr);
  if (d.written != nullptr) {
    m.dest = engine_address(d.dest, m.dest);
    m.flags = d.endpoints;
    const bool wait = (flags & GEX_FLAG_IMMEDIATE) == 0;
    const status s = self.engine->in_place().commit(*d.written, m, wait);
    if (s == status::ok) d.written = nullptr, d.in_use = false;
    return ex_sent(s, d.dest, flags, call);
  }
  m.buffer = m.is_large() ? d.place.buffer : m.buffer;
  const int rc = (d.kind & reply_kind) != 0 ? ex_replied(send_reply(d.token, m), d.token, call)
                                            : ex_send({d.dest, d.endpoints}, m, flags, call);
  d.in_use = rc != 0;
  if (!d.in_use) d.place.drop(*self.engine, m.is_large());
  return rc;
}

int GASNETC_(cancel)(gex_AM_SrcDesc_t sd, int what, gex_Flags_t) {
  descriptor& d = prepared(sd, what, "gex_AM_Cancel");
  if (d.written != nullptr) self.engine->in_place().cancel(*std::exchange(d.written, nullptr));
  d.place.drop(*self.engine, false);
  d.in_use = false;
  return 0;
}

}  // extern "C"
