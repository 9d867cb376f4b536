// The calls behind gasnet_vis.h with gasnetex.h's arguments, over vis/.
#include <gasnet_vis.h>

#include <cstring>
#include <utility>

#include "lib/gasnet/ex/objects.hpp"
#include "lib/gasnet/messages.hpp"
#include "lib/gasnet/vis/forms.hpp"
#include "lib/gasnet/vis/vis.hpp"

namespace penstock::gasnet::PENSTOCK_ABI {
namespace {

static_assert(sizeof(gex_Memvec_t) == sizeof(gasnet_memvec_t) &&
              offsetof(gex_Memvec_t, gex_len) == offsetof(gasnet_memvec_t, len));
const gasnet_memvec_t* pieces_of(const gex_Memvec_t* list) noexcept {
  return reinterpret_cast<const gasnet_memvec_t*>(list);
}

// The names of a call's three forms, for the lines that name a mistake.
#define PENSTOCK_FORMS(name) \
  { "gex_VIS_" name "Blocking", "gex_VIS_" name "NB", "gex_VIS_" name "NBI" }
constexpr const char* vector_put[3] = PENSTOCK_FORMS("VectorPut");
constexpr const char* vector_get[3] = PENSTOCK_FORMS("VectorGet");
constexpr const char* indexed_put[3] = PENSTOCK_FORMS("IndexedPut");
constexpr const char* indexed_get[3] = PENSTOCK_FORMS("IndexedGet");
constexpr const char* strided_put[3] = PENSTOCK_FORMS("StridedPut");
constexpr const char* strided_get[3] = PENSTOCK_FORMS("StridedGet");
#undef PENSTOCK_FORMS

// True if no byte is moved; no other argument is checked then.
bool of_nothing(size_t elemsz, const size_t count[], size_t levels) noexcept {
  for (size_t i = 0; i < levels && elemsz != 0 && count != nullptr; ++i)
    if (count[i] == 0) return true;
  return elemsz == 0;
}

// The message that follows the calling thread's next put; handler 0: none does.
struct peer_completion {
  gex_AM_Index_t handler = 0;
  std::uint8_t bytes = 0;
  std::byte payload[GEX_VIS_MAX_PEERCOMPLETION] = {};
};
thread_local peer_completion next_completion;

// Runs a call in the form that its first argument says.
template <class Go>
gex_Event_t run(int how, const char* const (&names)[3], bool put, Go&& go) {
  return vis::run_form(how & ~GASNETC_AT_ONCE, names, put, (how & GASNETC_AT_ONCE) != 0, go);
}

// Runs a put as run_form does, or to its end if a message is to follow it.
template <class Go>
gex_Event_t run_put(int how, const char* const (&names)[3], gex_TM_t tm, gex_Rank_t rank, Go&& go) {
  if (next_completion.handler == 0) [[likely]]
    return run(how, names, true, go);
  const int form = how & ~GASNETC_AT_ONCE;
  const peer_completion message = std::exchange(next_completion, {});
  operation op;
  vis::flight f{op.pending};
  go(names[form], f);
  wait_for(op);
  const gex_Rank_t to = jobrank_of(tm, rank, names[form]);
  const unsigned end = endpoint_index(tm, rank);
  if (end >= message_endpoints)
    fatal(1, "%s to rank %u: endpoint %u there has no handlers", names[form], to, end);
  began(names[form],
        send_unasked_reply(to, {0, end}, message.handler, message.payload, message.bytes));
  // Who only puts so would never handle what others send it meanwhile, and it would pile up.
  began(names[form], self.engine->poll());
  return GEX_EVENT_INVALID;
}

}  // namespace
}  // namespace penstock::gasnet::PENSTOCK_ABI

using namespace penstock;
using namespace penstock::gasnet;

extern "C" {

gex_Event_t GASNETC_(ex_put_vector)(int form, gex_TM_t tm, gex_Rank_t rank, size_t dstcount,
                                    gex_Memvec_t const dst[], size_t srccount,
                                    gex_Memvec_t const src[]) {
  return run_put(form, vector_put, tm, rank, [&](const char* call, vis::flight& f) {
    vis::put_vector(call, jobrank_of(tm, rank, call), dstcount, pieces_of(dst), srccount,
                    pieces_of(src), f);
  });
}
gex_Event_t GASNETC_(ex_get_vector)(int form, gex_TM_t tm, size_t dstcount,
                                    gex_Memvec_t const dst[], gex_Rank_t rank, size_t srccount,
                                    gex_Memvec_t const src[]) {
  return run(form, vector_get, false, [&](const char* call, vis::flight& f) {
    vis::get_vector(call, dstcount, pieces_of(dst), jobrank_of(tm, rank, call), srccount,
                    pieces_of(src), f);
  });
}
gex_Event_t GASNETC_(ex_put_indexed)(int form, gex_TM_t tm, gex_Rank_t rank, size_t dstcount,
                                     void* const dst[], size_t dstlen, size_t srccount,
                                     void* const src[], size_t srclen) {
  return run_put(form, indexed_put, tm, rank, [&](const char* call, vis::flight& f) {
    vis::put_indexed(call, jobrank_of(tm, rank, call), dstcount, dst, dstlen, srccount, src, srclen,
                     f);
  });
}
gex_Event_t GASNETC_(ex_get_indexed)(int form, gex_TM_t tm, size_t dstcount, void* const dst[],
                                     size_t dstlen, gex_Rank_t rank, size_t srccount,
                                     void* const src[], size_t srclen) {
  return run(form, indexed_get, false, [&](const char* call, vis::flight& f) {
    vis::get_indexed(call, dstcount, dst, dstlen, jobrank_of(tm, rank, call), srccount, src, srclen,
                     f);
  });
}
gex_Event_t GASNETC_(ex_put_strided)(int form, gex_TM_t tm, gex_Rank_t rank, void* dstaddr,
                                     const ptrdiff_t dststrides[], void* srcaddr,
                                     const ptrdiff_t srcstrides[], size_t elemsz,
                                     const size_t count[], size_t levels) {
  return run_put(form, strided_put, tm, rank, [&](const char* call, vis::flight& f) {
    if (of_nothing(elemsz, count, levels)) return;
    vis::put_strided(call, jobrank_of(tm, rank, call), dstaddr, dststrides, srcaddr, srcstrides,
                     elemsz, count, levels, f);
  });
}
gex_Event_t GASNETC_(ex_get_strided)(int form, gex_TM_t tm, void* dstaddr,
                                     const ptrdiff_t dststrides[], gex_Rank_t rank, void* srcaddr,
                                     const ptrdiff_t srcstrides[], size_t elemsz,
                                     const size_t count[], size_t levels) {
  if (of_nothing(elemsz, count, levels)) return GEX_EVENT_INVALID;
  return run(form, strided_get, false, [&](const char* call, vis::flight& f) {
    vis::get_strided(call, dstaddr, dststrides, jobrank_of(tm, rank, call), srcaddr, srcstrides,
                     elemsz, count, levels, f);
  });
}

void GASNETC_(ex_set_peer_completion)(gex_AM_Index_t handler, const void* source, size_t nbytes) {
  constexpr const char* call = "gex_VIS_SetPeerCompletionHandler";
  peer_completion message;
  if (nbytes > sizeof message.payload)
    fatal(1, "%s: %zu bytes; a put's message takes at most %zu", call, nbytes,
          sizeof message.payload);
  if (nbytes != 0 && source == nullptr && handler != 0)
    fatal(1, "%s: %zu bytes at a null pointer", call, nbytes);
  if (handler != 0) {
    message.handler = handler;
    message.bytes = static_cast<std::uint8_t>(nbytes);
    if (nbytes != 0) std::memcpy(message.payload, source, nbytes);
  }
  next_completion = message;
}

}  // extern "C"
