/* What a configure script would have found, as far as clients ask for it, and the versions of the
 * interfaces that the headers offer. */
#ifndef PENSTOCK_GASNET_CONFIG_H
#define PENSTOCK_GASNET_CONFIG_H

/* ---- the interface release whose names are offered, and the documents that define them: a line
 * and a number each, as scripts read them ---- */
#define GASNET_RELEASE_VERSION_MAJOR 2025
#define GASNET_RELEASE_VERSION_MINOR 8
#define GASNET_RELEASE_VERSION_PATCH 0
#define GASNET_SPEC_VERSION_MAJOR 1
#define GASNET_SPEC_VERSION_MINOR 8
#define GEX_SPEC_VERSION_MAJOR 0
#define GEX_SPEC_VERSION_MINOR 19
#define GASNETT_SPEC_VERSION_MAJOR 1
#define GASNETT_SPEC_VERSION_MINOR 20
#define GASNETT_RELEASE_VERSION_MAJOR 2025
#define GASNETT_RELEASE_VERSION_MINOR 8
#define GASNETT_RELEASE_VERSION_PATCH 0

/* ---- sizes, for use in #if ---- */
#define SIZEOF_CHAR __SIZEOF_CHAR__
#ifndef __SIZEOF_CHAR__
#undef SIZEOF_CHAR
#define SIZEOF_CHAR 1
#endif
#define SIZEOF_SHORT __SIZEOF_SHORT__
#define SIZEOF_INT __SIZEOF_INT__
#define SIZEOF_LONG __SIZEOF_LONG__
#define SIZEOF_LONG_LONG __SIZEOF_LONG_LONG__
#define SIZEOF_VOID_P __SIZEOF_POINTER__
#define SIZEOF_SIZE_T __SIZEOF_SIZE_T__
#define SIZEOF_PTRDIFF_T __SIZEOF_PTRDIFF_T__
/* The widest unsigned integer that travels in a register is as wide as a pointer. */
#define SIZEOF_GASNET_REGISTER_VALUE_T __SIZEOF_POINTER__

/* ---- what the system has ---- */
#define HAVE_PTHREAD_H 1
#define HAVE_PTHREAD_SETCONCURRENCY 1
#define HAVE_MMAP 1
#define HAVE_INTTYPES_H 1
#define HAVE_STDINT_H 1
#define HAVE_USLEEP 1
#define HAVE_NANOSLEEP 1
#define HAVE_SCHED_YIELD 1
#define HAVE_CLOCK_GETTIME 1

/* Pages and cache lines, as compile-time constants. Where kernels differ in their pages the largest
 * counts, so that a program runs on all of them; gasnet_init refuses a system with larger ones. */
#if defined(__aarch64__) || defined(__powerpc64__)
#define GASNETT_PAGESHIFT 16
#else
#define GASNETT_PAGESHIFT 12
#endif
#define GASNETT_PAGESIZE (1 << GASNETT_PAGESHIFT)
#define GASNETT_CACHE_LINE_BYTES 64

#endif
