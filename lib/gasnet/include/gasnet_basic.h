/* What every header of this folder stands on: fixed-width integers, platform names, annotations,
 * and the small helper macros that clients have come to use. Declares no functions. */
#ifndef PENSTOCK_GASNET_BASIC_H
#define PENSTOCK_GASNET_BASIC_H

#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>

#include <gasnet_config.h>
#include <gasnet_portable_platform.h>

/* ---- text and tokens ---- */
#ifndef _CONCAT
#define _CONCAT_HELPER(a, b) a##b
#define _CONCAT(a, b) _CONCAT_HELPER(a, b)
#endif

/* A handler, of any signature: what the specification's tables hold. C programs that are compiled
 * with -Wstrict-prototypes, or by clang with -Wpedantic, are not to be warned of it. */
#ifndef __cplusplus
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
#endif
typedef void (*gasneti_any_function_t)();
#ifndef __cplusplus
#pragma GCC diagnostic pop
#endif

/* ---- arithmetic, and sizes in printf's formats ---- */
#ifndef MIN
#define MIN(x, y) ((x) < (y) ? (x) : (y))
#endif
#ifndef MAX
#define MAX(x, y) ((x) > (y) ? (x) : (y))
#endif
#ifndef PRIuSZ
#define PRIiSZ "zi"
#define PRIdSZ "zd"
#define PRIuSZ "zu"
#define PRIoSZ "zo"
#define PRIxSZ "zx"
#define PRIXSZ "zX"
#endif
#ifndef PRIuPD
#define PRIiPD "ti"
#define PRIdPD "td"
#define PRIuPD "tu"
#define PRIoPD "to"
#define PRIxPD "tx"
#define PRIXPD "tX"
#endif

/* ---- the C++ side of a C header ---- */
#ifdef __cplusplus
#define GASNETT_BEGIN_EXTERNC extern "C" {
#define GASNETT_END_EXTERNC }
#define GASNETT_EXTERNC extern "C"
#else
#define GASNETT_BEGIN_EXTERNC
#define GASNETT_END_EXTERNC
#define GASNETT_EXTERNC extern
#endif

/* ---- branches that are seldom (if_pf) or mostly (if_pt) taken ---- */
#define GASNETT_PREDICT_TRUE(expr) __builtin_expect(!!(expr), 1)
#define GASNETT_PREDICT_FALSE(expr) __builtin_expect(!!(expr), 0)
#ifndef if_pf
#define if_pf(cond) if (GASNETT_PREDICT_FALSE(cond))
#endif
#ifndef if_pt
#define if_pt(cond) if (GASNETT_PREDICT_TRUE(cond))
#endif

/* ---- annotations of declarations ---- */
#define GASNETT_INLINE(fnname) static __inline__ __attribute__((__unused__))
#define GASNETT_PLEASE_INLINE(fnname) static __inline__ __attribute__((__unused__))
#define GASNETT_NEVER_INLINE(fnname, definition) __attribute__((__noinline__)) definition
#define GASNETT_RESTRICT __restrict__
#define GASNETT_USED __attribute__((__used__))
#define GASNETT_UNUSED __attribute__((__unused__))
#define GASNETI_UNUSED GASNETT_UNUSED /* no specification has it, but clients write it */
#define GASNETT_NORETURN __attribute__((__noreturn__))
#define GASNETT_NORETURNP(fnname) /* for compilers that want a pragma; these do not */
#define GASNETT_MALLOC __attribute__((__malloc__))
#define GASNETT_MALLOCP(fnname)
#define GASNETT_PURE __attribute__((__pure__))
#define GASNETT_PUREP(fnname)
#define GASNETT_CONST __attribute__((__const__))
#define GASNETT_CONSTP(fnname)
#define GASNETT_HOT __attribute__((__hot__))
#define GASNETT_COLD __attribute__((__cold__))
#define GASNETT_WARN_UNUSED_RESULT __attribute__((__warn_unused_result__))
#define GASNETT_FORMAT_PRINTF(fnname, fmtarg, firstvararg, declarator) \
  __attribute__((__format__(__printf__, fmtarg, firstvararg))) declarator
#define GASNETT_FORMAT_PRINTF_FUNCPTR(fnname, fmtarg, firstvararg, declarator) \
  __attribute__((__format__(__printf__, fmtarg, firstvararg))) declarator
#define GASNETT_CURRENT_FUNCTION __func__
/* The place in the source as text, "file:line"; whether the compiler knows the value of x. */
#define GASNETI_TEXT_OF_LINE(line) #line
#define GASNETI_PLACE(file, line) file ":" GASNETI_TEXT_OF_LINE(line)
#define gasnett_current_loc GASNETI_PLACE(__FILE__, __LINE__)
#define gasnett_constant_p(x) __builtin_constant_p(x)
#define gasnett_unreachable() __builtin_unreachable()

/* An expression without a value in which a macro names the arguments that it does not use. */
#define GASNETT_UNUSED_ARGS1(a) ((void)(a))
#define GASNETT_UNUSED_ARGS2(a, b) (GASNETT_UNUSED_ARGS1(a), (void)(b))
#define GASNETT_UNUSED_ARGS3(a, b, c) (GASNETT_UNUSED_ARGS2(a, b), (void)(c))
#define GASNETT_UNUSED_ARGS4(a, b, c, d) (GASNETT_UNUSED_ARGS3(a, b, c), (void)(d))
#define GASNETT_UNUSED_ARGS5(a, b, c, d, e) (GASNETT_UNUSED_ARGS4(a, b, c, d), (void)(e))
#define GASNETT_UNUSED_ARGS6(a, b, c, d, e, f) (GASNETT_UNUSED_ARGS5(a, b, c, d, e), (void)(f))
#define GASNETT_UNUSED_ARGS7(a, b, c, d, e, f, g) \
  (GASNETT_UNUSED_ARGS6(a, b, c, d, e, f), (void)(g))
#define GASNETT_UNUSED_ARGS8(a, b, c, d, e, f, g, h) \
  (GASNETT_UNUSED_ARGS7(a, b, c, d, e, f, g), (void)(h))

/* Keeps a text in the binary, for ident(1) and strings(1). At file scope, followed by a semicolon.
 */
#define GASNETT_IDENT(identName, identText) \
  extern char const volatile identName[];   \
  char const volatile identName[] __attribute__((__used__)) = identText

/* A piece of local memory: the element of the vector operations. */
#ifndef _GASNET_MEMVEC_T
#define _GASNET_MEMVEC_T
typedef struct {
  void* addr;
  size_t len;
} gasnet_memvec_t;
#endif

#endif
