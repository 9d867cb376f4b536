/* The GASNet-EX interface (specification 0.19) over Penstock. The client's build defines exactly
 * one of GASNET_SEQ, GASNET_PARSYNC and GASNET_PAR, as for gasnet.h, and links the library of that
 * mode. Not here, but in headers of their own: gasnet_coll.h (collectives), gasnet_vis.h (vectors
 * and strides), gasnet_ratomic.h (remote atomics), gasnet_mk.h (kinds of memory), gasnet_fwd.h (the
 * types that a client may show in its own headers). */
#ifndef _GASNETEX_H
#define _GASNETEX_H

/* In this order: each stands on those before it. */
#include <gasnet_mode.h>

#include <gasnet_core.h>

#include <gasnet_extended.h>

#include <gasnet_ex_types.h>

#include <gasnet_ex_job.h>

#include <gasnet_ex_am.h>

#include <gasnet_ex_npam.h>

#include <gasnet_ex_rma.h>

#include <gasnet_ex_tools.h>

GASNETT_BEGIN_EXTERNC

/* ---- the barrier: the only collective that is not in gasnet_coll.h ---- */
extern gex_Event_t GASNETC_(ex_barrier)(gex_TM_t tm);
/* Begins a barrier of the members of tm. Collective. The event is complete when all have begun it.
 */
GASNETC_INLINE gex_Event_t gex_Coll_BarrierNB(gex_TM_t tm, gex_Flags_t flags) {
  (void)flags;
  return GASNETC_(ex_barrier)(tm);
}
/* The same, and waits; handlers run meanwhile. */
GASNETC_INLINE void gex_Coll_BarrierBlocking(gex_TM_t tm, gex_Flags_t flags) {
  gex_Event_Wait(gex_Coll_BarrierNB(tm, flags));
}

GASNETT_END_EXTERNC

#endif
