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

#endif
