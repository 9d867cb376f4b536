/* What gasnet.h and gasnetex.h begin with: the client's mode and segment, the names that follow
 * from them, and what this conduit and its versions are called. */
#ifndef _IN_PENSTOCK_GASNET_MODE_H
#define _IN_PENSTOCK_GASNET_MODE_H

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
#define GASNETC_SEGMENT_NAME "EVERYTHING"
#define GASNETC_EVERYTHING 1
#elif defined(GASNET_SEGMENT_LARGE)
#undef GASNET_SEGMENT_LARGE
#define GASNET_SEGMENT_LARGE 1
#define GASNETI_SEGMENT_CONFIG large
#define GASNETC_SEGMENT_NAME "LARGE"
#define GASNETC_EVERYTHING 0
#else
#undef GASNET_SEGMENT_FAST
#define GASNET_SEGMENT_FAST 1
#define GASNETI_SEGMENT_CONFIG fast
#define GASNETC_SEGMENT_NAME "FAST"
#define GASNETC_EVERYTHING 0
#endif
/* Each process's segment lies where it lies; only its size is agreed on. */
#define GASNET_ALIGNED_SEGMENTS 0

/* ---- with the client's own checks or without: exactly one is 1 ---- */
#define GASNETC_CHECKS 2
#if defined(GASNET_DEBUG)
#undef GASNET_DEBUG
#define GASNET_DEBUG 1
#define GASNETC_CHECKED GASNETC_CHECKS
#else
#undef GASNET_NDEBUG
#define GASNET_NDEBUG 1
#define GASNETC_CHECKED 0
#endif

/* Clients rely on these. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <gasnet_basic.h>

/* gasnetc_seq_name, gasnetc_parsync_name or gasnetc_par_name */
#define GASNETC_(name) _CONCAT(GASNETC_PREFIX, name)

/* ---- what this is ---- */
#define GASNET_VERSION GASNET_SPEC_VERSION_MAJOR
/* A client that knows only GASNet's own conduits may ask for the name of one: by
 * GASNETC_CONDUIT_AS_ARIES, _IBV, _MPI, _OFI, _SMP, _UCX or _UDP. Nothing else changes by it. */
#if defined(GASNETC_CONDUIT_AS_ARIES) + defined(GASNETC_CONDUIT_AS_IBV) +   \
        defined(GASNETC_CONDUIT_AS_MPI) + defined(GASNETC_CONDUIT_AS_OFI) + \
        defined(GASNETC_CONDUIT_AS_SMP) + defined(GASNETC_CONDUIT_AS_UCX) + \
        defined(GASNETC_CONDUIT_AS_UDP) >                                   \
    1
#error define at most one of GASNETC_CONDUIT_AS_ARIES, _IBV, _MPI, _OFI, _SMP, _UCX, _UDP
#endif
#if defined(GASNETC_CONDUIT_AS_ARIES)
#define GASNET_CONDUIT_ARIES 1
#define GASNET_CONDUIT_NAME ARIES
#elif defined(GASNETC_CONDUIT_AS_IBV)
#define GASNET_CONDUIT_IBV 1
#define GASNET_CONDUIT_NAME IBV
#elif defined(GASNETC_CONDUIT_AS_MPI)
#define GASNET_CONDUIT_MPI 1
#define GASNET_CONDUIT_NAME MPI
#elif defined(GASNETC_CONDUIT_AS_OFI)
#define GASNET_CONDUIT_OFI 1
#define GASNET_CONDUIT_NAME OFI
#elif defined(GASNETC_CONDUIT_AS_SMP)
#define GASNET_CONDUIT_SMP 1
#define GASNET_CONDUIT_NAME SMP
#elif defined(GASNETC_CONDUIT_AS_UCX)
#define GASNET_CONDUIT_UCX 1
#define GASNET_CONDUIT_NAME UCX
#elif defined(GASNETC_CONDUIT_AS_UDP)
#define GASNET_CONDUIT_UDP 1
#define GASNET_CONDUIT_NAME UDP
#else
#define GASNET_CONDUIT_PENSTOCK 1
#define GASNET_CONDUIT_NAME PENSTOCK
#endif
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

/* ---- the same in the client's program, where upcxx-run, GASNet's test harness and ident(1) look
 * for it. A shared library would hide it; of several objects' strings the linker keeps one ---- */
#define GASNETC_IN_PROGRAM(name, text)                                                            \
  extern __attribute__((__weak__, __visibility__("hidden"))) char const GASNETC_(ident_##name)[]; \
  char const GASNETC_(ident_##name)[] __attribute__((__used__)) = "$GASNet" text " $"
GASNETT_BEGIN_EXTERNC
GASNETC_IN_PROGRAM(conduit, "ConduitName: " GASNET_CONDUIT_NAME_STR);
GASNETC_IN_PROGRAM(threads, "ThreadModel: GASNET_" _STRINGIFY(GASNETI_THREAD_MODEL));
GASNETC_IN_PROGRAM(segment, "Segment: GASNET_SEGMENT_" GASNETC_SEGMENT_NAME);
GASNETC_IN_PROGRAM(version, "APIVersion: " _STRINGIFY(GASNET_SPEC_VERSION_MAJOR));
GASNETC_IN_PROGRAM(ex_version, "EXAPIVersion: " _STRINGIFY(GEX_SPEC_VERSION_MAJOR) "." _STRINGIFY(
                                   GEX_SPEC_VERSION_MINOR));
GASNETC_IN_PROGRAM(core, "CoreLibraryName: " GASNET_CORE_NAME_STR);
GASNETC_IN_PROGRAM(extended, "ExtendedLibraryName: " GASNET_EXTENDED_NAME_STR);
GASNETC_IN_PROGRAM(program, "Config: (libgasnet.a) " GASNET_CONFIG_STRING);
GASNETT_END_EXTERNC

#endif
