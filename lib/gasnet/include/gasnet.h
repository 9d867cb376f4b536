/* The GASNet-1 interface (specification 1.8) over Penstock, beside gasnetex.h, which is included:
 * the two may be used in one program. The client's build defines exactly one of GASNET_SEQ (one
 * thread calls GASNet), GASNET_PARSYNC (many threads do, one at a time) and GASNET_PAR (many
 * threads do, at once), and links the library of that mode (gasnet-penstock-seq, -parsync, -par).
 * With GASNET_SEGMENT_EVERYTHING all memory of every process is remotely accessible; without it,
 * the segment made by gasnet_attach is. */
#ifndef _GASNET_H
#define _GASNET_H
#define _INCLUDED_GASNET_H

/* In this order: each stands on those before it. */
#include <gasnetex.h>

#include <gasnet_am.h>

#include <gasnet_coll.h>

#include <gasnet_tools.h>

#include <gasnet_internal_names.h>

GASNETT_BEGIN_EXTERNC

extern void GASNETC_(query_objects)(gex_Client_t* client, gex_EP_t* ep, gex_TM_t* tm,
                                    gex_Segment_t* segment);

/* The objects of gasnetex.h behind a job that either interface has begun. NULL: not wanted. */
GASNETC_INLINE void gasnet_QueryGexObjects(gex_Client_t* client, gex_EP_t* ep, gex_TM_t* tm,
                                           gex_Segment_t* segment) {
  GASNETC_(query_objects)(client, ep, tm, segment);
}

GASNETT_END_EXTERNC

#endif
