/* The GASNet-1 interface (specification 1.8) over Penstock. The client's build defines exactly one
 * of GASNET_SEQ      one thread calls GASNet, GASNET_PARSYNC  many threads do, one at a time,
 *   GASNET_PAR      many threads do, at once,
 * and links the library of that mode (gasnet-penstock-seq, -parsync, -par). With
 * GASNET_SEGMENT_EVERYTHING all memory of every process is remotely accessible; without it, the
 * segment made by gasnet_attach is. Include before gasnet_tools.h. */
#ifndef _GASNET_H
#define _GASNET_H
#define _INCLUDED_GASNET_H
#ifdef _INCLUDED_GASNET_TOOLS_H
#error include gasnet.h before gasnet_tools.h
#endif

/* ---- the mode: in the names of everything the library defines, so that a client compiled for one
 * mode does not link with the library of another ---- */
#if defined(GASNET_SEQ) + defined(GASNET_PARSYNC) + defined(GASNET_PAR) != 1
#error define exactly one of GASNET_SEQ, GASNET_PARSYNC and GASNET_PAR
#endif
#if defined(GASNET_SEQ)
#undef GASNET_SEQ
#define GASNET_SEQ 1
#define GASNETI_THREAD_MODEL SEQ
#define GASNETC_PREFIX gasnetc_seq_
#elif defined(GASNET_PARSYNC)
#undef GASNET_PARSYNC
#define GASNET_PARSYNC 1
#define GASNETI_THREAD_MODEL PARSYNC
#define GASNETC_PREFIX gasnetc_parsync_
#else
#undef GASNET_PAR
#define GASNET_PAR 1
#define GASNETI_THREAD_MODEL PAR
#define GASNETC_PREFIX gasnetc_par_
#endif

/* ---- the segment ---- */
#if defined(GASNET_SEGMENT_FAST) + defined(GASNET_SEGMENT_LARGE) + \
        defined(GASNET_SEGMENT_EVERYTHING) >                       \
    1
#error define at most one of GASNET_SEGMENT_FAST, GASNET_SEGMENT_LARGE, GASNET_SEGMENT_EVERYTHING
#endif
#if defined(GASNET_SEGMENT_EVERYTHING)
#undef GASNET_SEGMENT_EVERYTHING
#define GASNET_SEGMENT_EVERYTHING 1
#define GASNETI_SEGMENT_CONFIG everything
#define GASNETC_EVERYTHING 1
#elif defined(GASNET_SEGMENT_LARGE)
#undef GASNET_SEGMENT_LARGE
#define GASNET_SEGMENT_LARGE 1
#define GASNETI_SEGMENT_CONFIG large
#define GASNETC_EVERYTHING 0
#else
#undef GASNET_SEGMENT_FAST
#define GASNET_SEGMENT_FAST 1
#define GASNETI_SEGMENT_CONFIG fast
#define GASNETC_EVERYTHING 0
#endif
/* Each process's segment lies where it lies; only its size is agreed on. */
#define GASNET_ALIGNED_SEGMENTS 0

#include <string.h>
#include <unistd.h> /* clients rely on it */

#include <gasnet_basic.h>

/* gasnetc_seq_name, gasnetc_parsync_name or gasnetc_par_name */
#define GASNETC_(name) _CONCAT(GASNETC_PREFIX, name)

/* ---- what this is ---- */
#define GASNET_VERSION GASNET_SPEC_VERSION_MAJOR
#define GASNET_CONDUIT_PENSTOCK 1
#define GASNET_CONDUIT_NAME PENSTOCK
#define GASNET_CONDUIT_NAME_STR _STRINGIFY(GASNET_CONDUIT_NAME)
#define GASNET_CORE_NAME PENSTOCK
#define GASNET_CORE_NAME_STR _STRINGIFY(GASNET_CORE_NAME)
#define GASNET_CORE_VERSION 0.1
#define GASNET_CORE_VERSION_STR _STRINGIFY(GASNET_CORE_VERSION)
#define GASNET_EXTENDED_NAME PENSTOCK
#define GASNET_EXTENDED_NAME_STR _STRINGIFY(GASNET_EXTENDED_NAME)
#define GASNET_EXTENDED_VERSION GASNET_CORE_VERSION
#define GASNET_EXTENDED_VERSION_STR _STRINGIFY(GASNET_EXTENDED_VERSION)
#define GASNET_PAGESIZE GASNETT_PAGESIZE
#define GASNET_MAXNODES 0x7fffffffu
#define GASNET_CONFIG_STRING \
  "RELEASE=" _STRINGIFY(GASNET_RELEASE_VERSION_MAJOR) "." _STRINGIFY(                       \
      GASNET_RELEASE_VERSION_MINOR) "." _STRINGIFY(GASNET_RELEASE_VERSION_PATCH)            \
      ",SPEC=" _STRINGIFY(GASNET_SPEC_VERSION_MAJOR) "." _STRINGIFY(                        \
          GASNET_SPEC_VERSION_MINOR) ",CONDUIT=" GASNET_CONDUIT_NAME_STR                    \
      "(" GASNET_CORE_NAME_STR "-" GASNET_CORE_VERSION_STR "/" GASNET_EXTENDED_NAME_STR     \
      "-" GASNET_EXTENDED_VERSION_STR "),THREADMODEL=" _STRINGIFY(GASNETI_THREAD_MODEL)     \
      ",SEGMENT=" _STRINGIFY(GASNETI_SEGMENT_CONFIG) ",PTR=" _STRINGIFY(SIZEOF_VOID_P) "bytes,noalign"

/* In this order: each stands on those before it. */
#include <gasnet_core.h>

#include <gasnet_am.h>

#include <gasnet_extended.h>

#include <gasnet_coll.h>

#endif
