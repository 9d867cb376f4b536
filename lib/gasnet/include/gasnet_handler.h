/* Macros for handlers whose arguments hold pointers, each of which takes as many arguments as it
 * has 32-bit words: two here. They are GASNet's own, and clients of its version 1 (UPC++ 0.1) use
 * them. Where a macro has both a cnt32 and a cnt64, the latter counts. */
#ifndef _IN_GASNET_HANDLER_H
#define _IN_GASNET_HANDLER_H

#include <gasnet.h>

/* ---- a pointer as two arguments, and back ---- */
#define PACK(ptr)                                         \
  (gasnet_handlerarg_t) GASNETI_HIWORD((uintptr_t)(ptr)), \
      (gasnet_handlerarg_t)GASNETI_LOWORD((uintptr_t)(ptr))
#define UNPACK2(hi, lo) ((void*)(uintptr_t)GASNETI_MAKEWORD((uint32_t)(hi), (uint32_t)(lo)))

/* ---- messages: args is the whole list in parentheses ---- */
#define SHORT_REQ(cnt32, cnt64, args) _CONCAT(gasnet_AMRequestShort, cnt64) args
#define SHORT_REP(cnt32, cnt64, args) _CONCAT(gasnet_AMReplyShort, cnt64) args
#define MEDIUM_REQ(cnt32, cnt64, args) _CONCAT(gasnet_AMRequestMedium, cnt64) args
#define MEDIUM_REP(cnt32, cnt64, args) _CONCAT(gasnet_AMReplyMedium, cnt64) args
#define LONG_REQ(cnt32, cnt64, args) _CONCAT(gasnet_AMRequestLong, cnt64) args
#define LONG_REP(cnt32, cnt64, args) _CONCAT(gasnet_AMReplyLong, cnt64) args
#define LONGASYNC_REQ(cnt32, cnt64, args) _CONCAT(gasnet_AMRequestLongAsync, cnt64) args

/* ---- lists of parameters and of their names, each behind a comma ---- */
#define ARGS0
#define ARGS1 ARGS0, gasnet_handlerarg_t a0
#define ARGS2 ARGS1, gasnet_handlerarg_t a1
#define ARGS3 ARGS2, gasnet_handlerarg_t a2
#define ARGS4 ARGS3, gasnet_handlerarg_t a3
#define ARGS5 ARGS4, gasnet_handlerarg_t a4
#define ARGS6 ARGS5, gasnet_handlerarg_t a5
#define ARGS7 ARGS6, gasnet_handlerarg_t a6
#define ARGS8 ARGS7, gasnet_handlerarg_t a7
#define ARGS9 ARGS8, gasnet_handlerarg_t a8
#define ARGS10 ARGS9, gasnet_handlerarg_t a9
#define ARGS11 ARGS10, gasnet_handlerarg_t a10
#define ARGS12 ARGS11, gasnet_handlerarg_t a11
#define ARGS13 ARGS12, gasnet_handlerarg_t a12
#define ARGS14 ARGS13, gasnet_handlerarg_t a13
#define ARGS15 ARGS14, gasnet_handlerarg_t a14
#define ARGS16 ARGS15, gasnet_handlerarg_t a15
#define ARGNAMES0
#define ARGNAMES1 ARGNAMES0, a0
#define ARGNAMES2 ARGNAMES1, a1
#define ARGNAMES3 ARGNAMES2, a2
#define ARGNAMES4 ARGNAMES3, a3
#define ARGNAMES5 ARGNAMES4, a4
#define ARGNAMES6 ARGNAMES5, a5
#define ARGNAMES7 ARGNAMES6, a6
#define ARGNAMES8 ARGNAMES7, a7
#define ARGNAMES9 ARGNAMES8, a8
#define ARGNAMES10 ARGNAMES9, a9
#define ARGNAMES11 ARGNAMES10, a10
#define ARGNAMES12 ARGNAMES11, a11
#define ARGNAMES13 ARGNAMES12, a12
#define ARGNAMES14 ARGNAMES13, a13
#define ARGNAMES15 ARGNAMES14, a14
#define ARGNAMES16 ARGNAMES15, a15

/* ---- handlers ---- */
/* The storage class of the handlers. */
#ifndef GASNETI_HANDLER_SCOPE
#define GASNETI_HANDLER_SCOPE extern
#endif
#define GASNETC_SHORT_HANDLER_HEAD(name, cnt) \
  GASNETI_HANDLER_SCOPE void name(gasnet_token_t token _CONCAT(ARGS, cnt))
#define GASNETC_PAYLOAD_HANDLER_HEAD(name, cnt)                     \
  GASNETI_HANDLER_SCOPE void name(gasnet_token_t token, void* addr, \
                                  size_t nbytes _CONCAT(ARGS, cnt))
/* Defines the handler NAME_64 with cnt64 arguments a0, a1, ... as a call of NAME_inner with the
 * list in64, such as (token, a0, UNPACK2(a1, a2)). A semicolon follows. */
#define SHORT_HANDLER(name, cnt32, cnt64, in32, in64)                                   \
  GASNETC_SHORT_HANDLER_HEAD(_CONCAT(name, _64), cnt64) { _CONCAT(name, _inner) in64; } \
  GASNETC_SHORT_HANDLER_HEAD(_CONCAT(name, _64), cnt64)
#define MEDIUM_HANDLER(name, cnt32, cnt64, in32, in64)                                    \
  GASNETC_PAYLOAD_HANDLER_HEAD(_CONCAT(name, _64), cnt64) { _CONCAT(name, _inner) in64; } \
  GASNETC_PAYLOAD_HANDLER_HEAD(_CONCAT(name, _64), cnt64)
#define LONG_HANDLER MEDIUM_HANDLER
/* Declares such a handler. */
#define SHORT_HANDLER_DECL(name, cnt32, cnt64) GASNETC_SHORT_HANDLER_HEAD(_CONCAT(name, _64), cnt64)
#define MEDIUM_HANDLER_DECL(name, cnt32, cnt64) \
  GASNETC_PAYLOAD_HANDLER_HEAD(_CONCAT(name, _64), cnt64)
#define LONG_HANDLER_DECL MEDIUM_HANDLER_DECL
/* Declares a handler without pointers, of the same name on every machine. */
#define SHORT_HANDLER_NOBITS_DECL(name, cnt) GASNETC_SHORT_HANDLER_HEAD(name, cnt)
#define MEDIUM_HANDLER_NOBITS_DECL(name, cnt) GASNETC_PAYLOAD_HANDLER_HEAD(name, cnt)
#define LONG_HANDLER_NOBITS_DECL MEDIUM_HANDLER_NOBITS_DECL

#endif
