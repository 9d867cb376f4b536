// The calls behind gasnet_vis.h: their handles, and GASNet-1's rules for strides, over vis/.
#include "lib/base/log.hpp"
#include "lib/gasnet/vis/forms.hpp"
#include "lib/gasnet/vis/vis.hpp"

namespace penstock::gasnet::PENSTOCK_ABI {
namespace {

// The names of a call's three forms, for the lines that name a mistake.
#define PENSTOCK_FORMS(name) \
  { "gasnet_" name "_bulk", "gasnet_" name "_nb_bulk", "gasnet_" name "_nbi_bulk" }
constexpr const char* putv_names[3] = PENSTOCK_FORMS("putv");
constexpr const char* getv_names[3] = PENSTOCK_FORMS("getv");
constexpr const char* puti_names[3] = PENSTOCK_FORMS("puti");
constexpr const char* geti_names[3] = PENSTOCK_FORMS("geti");
constexpr const char* puts_names[3] = PENSTOCK_FORMS("puts");
constexpr const char* gets_names[3] = PENSTOCK_FORMS("gets");
#undef PENSTOCK_FORMS

// Checks that each repetition begins behind the one before, so that no destination is written
// twice.
void check_strides(const char* call, const size_t strides[], const size_t count[], size_t levels) {
  for (size_t i = 0; i <= levels; ++i)
    if (count[i] == 0) return;
  std::size_t reach = count[0];  // bytes from the first to the end of the last repetition
  for (size_t i = 0; i < levels; ++i) {
    if (count[i + 1] == 1) continue;
    if (strides[i] < reach)
      fatal(1,
            "%s: the destination overlaps itself: strides[%zu] is %zu, what is repeated %zu bytes",
            call, i, strides[i], reach);
    reach += (count[i + 1] - 1) * strides[i];
  }
}

const std::ptrdiff_t* as_signed(const size_t strides[]) {
  return reinterpret_cast<const std::ptrdiff_t*>(strides);
}

}  // namespace
}  // namespace penstock::gasnet::PENSTOCK_ABI

using namespace penstock::gasnet;

extern "C" {

gasnet_handle_t GASNETC_(putv)(int how, gasnet_node_t dstnode, size_t dstcount,
                               gasnet_memvec_t const dstlist[], size_t srccount,
                               gasnet_memvec_t const srclist[]) {
  return vis::run_form(how, putv_names, true, false, [&](const char* call, vis::flight& f) {
    vis::put_vector(call, dstnode, dstcount, dstlist, srccount, srclist, f);
  });
}

gasnet_handle_t GASNETC_(getv)(int how, size_t dstcount, gasnet_memvec_t const dstlist[],
                               gasnet_node_t srcnode, size_t srccount,
                               gasnet_memvec_t const srclist[]) {
  return vis::run_form(how, getv_names, false, false, [&](const char* call, vis::flight& f) {
    vis::get_vector(call, dstcount, dstlist, srcnode, srccount, srclist, f);
  });
}

gasnet_handle_t GASNETC_(puti)(int how, gasnet_node_t dstnode, size_t dstcount,
                               void* const dstlist[], size_t dstlen, size_t srccount,
                               void* const srclist[], size_t srclen) {
  return vis::run_form(how, puti_names, true, false, [&](const char* call, vis::flight& f) {
    vis::put_indexed(call, dstnode, dstcount, dstlist, dstlen, srccount, srclist, srclen, f);
  });
}

gasnet_handle_t GASNETC_(geti)(int how, size_t dstcount, void* const dstlist[], size_t dstlen,
                               gasnet_node_t srcnode, size_t srccount, void* const srclist[],
                               size_t srclen) {
  return vis::run_form(how, geti_names, false, false, [&](const char* call, vis::flight& f) {
    vis::get_indexed(call, dstcount, dstlist, dstlen, srcnode, srccount, srclist, srclen, f);
  });
}

gasnet_handle_t GASNETC_(puts)(int how, gasnet_node_t dstnode, void* dstaddr,
                               const size_t dststrides[], void* srcaddr, const size_t srcstrides[],
                               const size_t count[], size_t stridelevels) {
  return vis::run_form(how, puts_names, true, false, [&](const char* call, vis::flight& f) {
    check_strides(call, dststrides, count, stridelevels);
    vis::put_strided(call, dstnode, dstaddr, as_signed(dststrides), srcaddr, as_signed(srcstrides),
                     count[0], count + 1, stridelevels, f);
  });
}

gasnet_handle_t GASNETC_(gets)(int how, void* dstaddr, const size_t dststrides[],
                               gasnet_node_t srcnode, void* srcaddr, const size_t srcstrides[],
                               const size_t count[], size_t stridelevels) {
  return vis::run_form(how, gets_names, false, false, [&](const char* call, vis::flight& f) {
    check_strides(call, dststrides, count, stridelevels);
    vis::get_strided(call, dstaddr, as_signed(dststrides), srcnode, srcaddr, as_signed(srcstrides),
                     count[0], count + 1, stridelevels, f);
  });
}

}  // extern "C"
