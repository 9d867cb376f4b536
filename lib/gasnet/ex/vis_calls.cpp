// The calls behind gasnet_vis.h with gasnetex.h's arguments, over vis/.
#include <gasnet_vis.h>

#include "lib/gasnet/ex/objects.hpp"
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

}  // namespace
}  // namespace penstock::gasnet::PENSTOCK_ABI

using namespace penstock::gasnet;
using vis::op_counter;

extern "C" {

gex_Event_t GASNETC_(ex_put_vector)(int form, gex_TM_t tm, gex_Rank_t rank, size_t dstcount,
                                    gex_Memvec_t const dst[], size_t srccount,
                                    gex_Memvec_t const src[]) {
  return vis::run_form(form, vector_put, true, [&](const char* call, op_counter& c) {
    vis::put_vector(call, jobrank_of(tm, rank, call), dstcount, pieces_of(dst), srccount,
                    pieces_of(src), c);
  });
}
gex_Event_t GASNETC_(ex_get_vector)(int form, gex_TM_t tm, size_t dstcount,
                                    gex_Memvec_t const dst[], gex_Rank_t rank, size_t srccount,
                                    gex_Memvec_t const src[]) {
  return vis::run_form(form, vector_get, false, [&](const char* call, op_counter& c) {
    vis::get_vector(call, dstcount, pieces_of(dst), jobrank_of(tm, rank, call), srccount,
                    pieces_of(src), c);
  });
}
gex_Event_t GASNETC_(ex_put_indexed)(int form, gex_TM_t tm, gex_Rank_t rank, size_t dstcount,
                                     void* const dst[], size_t dstlen, size_t srccount,
                                     void* const src[], size_t srclen) {
  return vis::run_form(form, indexed_put, true, [&](const char* call, op_counter& c) {
    vis::put_indexed(call, jobrank_of(tm, rank, call), dstcount, dst, dstlen, srccount, src, srclen,
                     c);
  });
}
gex_Event_t GASNETC_(ex_get_indexed)(int form, gex_TM_t tm, size_t dstcount, void* const dst[],
                                     size_t dstlen, gex_Rank_t rank, size_t srccount,
                                     void* const src[], size_t srclen) {
  return vis::run_form(form, indexed_get, false, [&](const char* call, op_counter& c) {
    vis::get_indexed(call, dstcount, dst, dstlen, jobrank_of(tm, rank, call), srccount, src, srclen,
                     c);
  });
}
gex_Event_t GASNETC_(ex_put_strided)(int form, gex_TM_t tm, gex_Rank_t rank, void* dstaddr,
                                     const ptrdiff_t dststrides[], void* srcaddr,
                                     const ptrdiff_t srcstrides[], size_t elemsz,
                                     const size_t count[], size_t levels) {
  if (of_nothing(elemsz, count, levels)) return GEX_EVENT_INVALID;
  return vis::run_form(form, strided_put, true, [&](const char* call, op_counter& c) {
    vis::put_strided(call, jobrank_of(tm, rank, call), dstaddr, dststrides, srcaddr, srcstrides,
                     elemsz, count, levels, c);
  });
}
gex_Event_t GASNETC_(ex_get_strided)(int form, gex_TM_t tm, void* dstaddr,
                                     const ptrdiff_t dststrides[], gex_Rank_t rank, void* srcaddr,
                                     const ptrdiff_t srcstrides[], size_t elemsz,
                                     const size_t count[], size_t levels) {
  if (of_nothing(elemsz, count, levels)) return GEX_EVENT_INVALID;
  return vis::run_form(form, strided_get, false, [&](const char* call, op_counter& c) {
    vis::get_strided(call, dstaddr, dststrides, jobrank_of(tm, rank, call), srcaddr, srcstrides,
                     elemsz, count, levels, c);
  });
}

}  // extern "C"
