// Remote atomics of gasnetex.h: domains, and the operations that the inline functions of
// gasnet_ratomic.h leave to the library, over the engine's.
#include <gasnet_ratomic.h>

#include <bit>

#include "lib/base/log.hpp"
#include "lib/conduit/one_sided/atomic_calls.hpp"
#include "lib/gasnet/ex/objects.hpp"
#include "lib/gasnet/operations.hpp"
#include "lib/gasnet/reach.hpp"
#include "penstock/atomic.hpp"

namespace penstock::gasnet::PENSTOCK_ABI {
namespace {

struct pairing {
  gex_OP_t ex;
  atomic_ops engine;
};
constexpr pairing pairings[] = {
    {GEX_OP_ADD, atomic_ops::add},     {GEX_OP_SUB, atomic_ops::sub},
    {GEX_OP_MULT, atomic_ops::mult},   {GEX_OP_MIN, atomic_ops::min},
    {GEX_OP_MAX, atomic_ops::max},     {GEX_OP_INC, atomic_ops::inc},
    {GEX_OP_DEC, atomic_ops::dec},     {GEX_OP_SET, atomic_ops::set},
    {GEX_OP_SWAP, atomic_ops::swap},   {GEX_OP_CAS, atomic_ops::cas},
    {GEX_OP_AND, atomic_ops::bit_and}, {GEX_OP_OR, atomic_ops::bit_or},
    {GEX_OP_XOR, atomic_ops::bit_xor}, {GEX_OP_GET, atomic_ops::get},
};
constexpr gex_OP_t only_integers = GEX_OP_AND | GEX_OP_OR | GEX_OP_XOR;
constexpr gex_OP_t fetching = GEX_OP_TO_FETCHING(0xfff) | GEX_OP_GET;

// The engine's operations behind a set of gasnetex.h's. A swap is a set that fetches.
atomic_ops engine_ops(gex_OP_t ops) noexcept {
  std::uint32_t all = 0;
  for (const pairing& p : pairings) {
    const bool also_fetching = p.ex != GEX_OP_GET && p.ex != GEX_OP_SET && p.ex != GEX_OP_SWAP;
    if ((ops & (p.ex | (also_fetching ? GEX_OP_TO_FETCHING(p.ex) : 0))) != 0)
      all |= static_cast<std::uint32_t>(p.engine);
  }
  return static_cast<atomic_ops>(all);
}

// The type's number among the engine's types, whose order is GASNet's.
std::uint32_t type_of(gex_DT_t dt) noexcept {
  return static_cast<std::uint32_t>(std::countr_zero(dt));
}
std::uint32_t size_of(gex_DT_t dt) noexcept {
  return (dt & (GEX_DT_I32 | GEX_DT_U32 | GEX_DT_FLT)) != 0 ? 4 : 8;
}

const char* wrong_with(const gasnetc_ad& ad, gex_DT_t dt, gex_OP_t op) noexcept {
  if (dt != ad.gasnetc_dt) return "the domain is of another type";
  if (std::popcount(op) != 1 || (op & ad.gasnetc_ops) == 0)
    return "the operation is not one of the domain's";
  return nullptr;
}

op_counter& implicit(gex_OP_t op) noexcept {
  thread_operations& mine = my_operations();
  return op == GEX_OP_SET   ? mine.implicit_puts()
         : op == GEX_OP_GET ? mine.implicit_gets()
                            : mine.implicit_rmws();
}

// True if all members of the team share memory. The processor is faster than the device then, and
// all members come to this answer. No other domain uses a domain's words, so processor and device
// never change the same word.
bool all_near(gex_TM_t tm, gex_Rank_t size) noexcept {
  for (gex_Rank_t r = 0; r < size; ++r)
    if (!self.engine->maps(jobrank_of(tm, r, "gex_AD_Create"))) return false;
  return true;
}

}  // namespace
}  // namespace penstock::gasnet::PENSTOCK_ABI

using namespace penstock;
using namespace penstock::gasnet;

extern "C" {

void GASNETC_(ad_create)(gex_AD_t* ad_p, gex_TM_t tm, gex_DT_t dt, gex_OP_t ops,
                         gex_Flags_t flags) {
  constexpr gex_DT_t types = GEX_DT_USER - 1;
  const gex_Rank_t members = checked_team(tm, "gex_AD_Create").size;
  if (!self.attached || ad_p == nullptr) fatal(1, "gex_AD_Create: no job, or no place");
  if (std::popcount(dt) != 1 || (dt & types) == 0)
    fatal(1, "gex_AD_Create: type %#x is not one of the six", dt);
  const bool floats = (dt & (GEX_DT_FLT | GEX_DT_DBL)) != 0;
  const gex_OP_t known =
      (0xfffu | fetching) & ~(floats ? only_integers | GEX_OP_TO_FETCHING(only_integers) : 0u);
  if (ops == 0 || (ops & ~known) != 0)
    fatal(1, "gex_AD_Create: operations %#x on type %#x: %#x are known", ops, dt, known);
  const bool device = detail::atomics_by_device(*self.engine, type_of(dt), engine_ops(ops)) &&
                      !all_near(tm, members);
  auto* const ad = new gasnetc_ad{tm, ops, device ? 0 : 1, dt, flags, nullptr, {}};
  if (!device) ad->gasnetc_here[type_of(dt)] = ops;
  *ad_p = ad;
}

void GASNETC_(ad_destroy)(gex_AD_t ad) {
  if (ad == GEX_AD_INVALID)
    GASNETC_(mistake)(gasnetc_no_domain, "gex_AD_Destroy", GEX_RANK_INVALID, 0);
  delete ad;
}

gex_Event_t GASNETC_(ad_op)(int form, gex_AD_t ad, void* result, gex_Rank_t tgt, void* tgt_addr,
                            gex_DT_t dt, gex_OP_t op, uint64_t op1, uint64_t op2,
                            gex_Flags_t flags) {
  const char* const call = form == 1 ? "gex_AD_OpNB" : "gex_AD_OpNBI";
  if (ad == GEX_AD_INVALID) GASNETC_(mistake)(gasnetc_no_domain, call, tgt, 0);
  const gex_Rank_t to =
      (flags & GEX_FLAG_RANK_IS_JOBRANK) != 0 ? tgt : jobrank_of(ad->gasnetc_tm, tgt, call);
  if (const char* const why = wrong_with(*ad, dt, op))
    fatal(1, "%s to rank %u: operation %#x on type %#x: %s", call, to, op, dt, why);
  detail::atomic_call c;
  c.op = engine_ops(op);
  c.type = type_of(dt);
  c.size = size_of(dt);
  c.device = ad->gasnetc_by_processor == 0;
  c.at_once = (flags & GEX_FLAG_IMMEDIATE) != 0;
  c.to = to;
  c.word = to < GASNETC_(nodes) ? engine_address(to, tgt_addr) : tgt_addr;
  c.a = op1;
  c.b = op2;
  c.old = (op & fetching) != 0 ? result : nullptr;
  // If the segment can be mapped, later operations need no call.
  if (!c.device && !self.everything && conduit::running == nullptr)
    (void)map_segment(to < GASNETC_(nodes) ? to : 0);
  gasnet::operation* const op_event = form == 1 ? &my_operations().take() : nullptr;
  const status s = conduit::begin_atomic(*self.engine, c,
                                         op_event != nullptr ? op_event->pending : implicit(op));
  if (c.at_once && is_short(s)) {
    if (op_event != nullptr) (void)event_or_done(*op_event);
    return GEX_EVENT_NO_OP;
  }
  if (s == status::out_of_segment)
    fatal(1, "%s: %s", call, gasnet::not_in_segment(to, tgt_addr, c.size).c_str());
  if (s != status::ok) fatal(1, "%s to rank %u: %s", call, to, describe(s));
  return op_event != nullptr ? event_or_done(*op_event) : GEX_EVENT_INVALID;
}

}  // extern "C"
