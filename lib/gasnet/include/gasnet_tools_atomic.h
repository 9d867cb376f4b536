/* Memory barriers, and atomic integers of 32 and 64 bits for the threads of one process. Part of
 * gasnet_tools.h.
 *
 * gasnett_strongatomic* are always atomic, also towards signal handlers. gasnett_atomic* are the
 * same in a threaded build and plain loads and stores in a single-threaded one. All are inline; a
 * locked instruction each in the strong form, where they change the word.
 *
 * Every operation takes flags: which barriers the caller needs before (PRE) and after (POST) it.
 * They are constants in practice, so the tests on them vanish. A write barrier here is the strong
 * kind of the tools' contract: stores before it are visible to all before any load or store after
 * it. On x86-64 a locked instruction is such a barrier by itself. */
#ifndef PENSTOCK_GASNET_TOOLS_ATOMIC_H
#define PENSTOCK_GASNET_TOOLS_ATOMIC_H

#include <gasnet_basic.h>

/* ---- barriers. Orders: the tools' contract names them, for the client's own words ---- */
#define gasnett_compiler_fence() __atomic_signal_fence(__ATOMIC_SEQ_CST)
#define gasnett_local_wmb() __atomic_thread_fence(__ATOMIC_SEQ_CST)
#define gasnett_local_rmb() __atomic_thread_fence(__ATOMIC_ACQUIRE)
#define gasnett_local_mb() __atomic_thread_fence(__ATOMIC_SEQ_CST)
#if GASNETT_THREAD_SAFE
#define gasnett_weak_wmb() gasnett_local_wmb()
#define gasnett_weak_rmb() gasnett_local_rmb()
#define gasnett_weak_mb() gasnett_local_mb()
#else
#define gasnett_weak_wmb() ((void)0)
#define gasnett_weak_rmb() ((void)0)
#define gasnett_weak_mb() ((void)0)
#endif

/* ---- flags ---- */
#define GASNETT_ATOMIC_NONE 0
#define GASNETT_ATOMIC_RMB_PRE 1
#define GASNETT_ATOMIC_WMB_PRE 2
#define GASNETT_ATOMIC_RMB_POST 4
#define GASNETT_ATOMIC_WMB_POST 8
#define GASNETT_ATOMIC_RMB_POST_IF_TRUE 16
#define GASNETT_ATOMIC_RMB_POST_IF_FALSE 32
#define GASNETT_ATOMIC_MB_PRE (GASNETT_ATOMIC_RMB_PRE | GASNETT_ATOMIC_WMB_PRE)
#define GASNETT_ATOMIC_MB_POST (GASNETT_ATOMIC_RMB_POST | GASNETT_ATOMIC_WMB_POST)
#define GASNETT_ATOMIC_REL GASNETT_ATOMIC_WMB_PRE
#define GASNETT_ATOMIC_ACQ GASNETT_ATOMIC_RMB_POST
#define GASNETT_ATOMIC_ACQ_IF_TRUE GASNETT_ATOMIC_RMB_POST_IF_TRUE
#define GASNETT_ATOMIC_ACQ_IF_FALSE GASNETT_ATOMIC_RMB_POST_IF_FALSE

#define GASNETT_HAVE_ATOMIC_CAS 1
#define GASNETT_HAVE_ATOMIC_ADD_SUB 1
#define GASNETT_HAVE_STRONGATOMIC_CAS 1
#define GASNETT_HAVE_STRONGATOMIC_ADD_SUB 1

#if defined(__x86_64__)
#define GASNETI_RMW_IS_FENCE 1
#else
#define GASNETI_RMW_IS_FENCE 0
#endif
/* Orders: those that the client asks for by flags. */
GASNETT_INLINE(gasneti_fence_pre) void gasneti_fence_pre(int flags) {
  if (flags & GASNETT_ATOMIC_WMB_PRE)
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
  else if (flags & GASNETT_ATOMIC_RMB_PRE)
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
}
GASNETT_INLINE(gasneti_fence_post) void gasneti_fence_post(int flags) {
  if (flags & GASNETT_ATOMIC_WMB_POST)
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
  else if (flags & ~(GASNETT_ATOMIC_MB_PRE))
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
}
/* Before a plain store, ordering it behind the stores before it is all that can be seen. */
GASNETT_INLINE(gasneti_fence_store) void gasneti_fence_store(int flags) {
  if (flags & GASNETT_ATOMIC_MB_PRE) __atomic_thread_fence(__ATOMIC_RELEASE);
}
GASNETT_INLINE(gasneti_fence_rmw_pre) void gasneti_fence_rmw_pre(int flags) {
  if (!GASNETI_RMW_IS_FENCE) gasneti_fence_pre(flags);
}
GASNETT_INLINE(gasneti_fence_rmw_post) void gasneti_fence_rmw_post(int flags) {
  if (!GASNETI_RMW_IS_FENCE) gasneti_fence_post(flags);
}

/* ---- types: exactly the natural storage, and castable from integers and floats of that size ----
 */
typedef uint32_t __attribute__((__may_alias__)) gasneti_word32_t;
typedef uint64_t __attribute__((__may_alias__)) gasneti_word64_t;
typedef struct {
  volatile gasneti_word32_t gasneti_v;
} __attribute__((__may_alias__)) gasnett_strongatomic32_t;
typedef struct {
  volatile gasneti_word64_t gasneti_v;
} __attribute__((__may_alias__)) gasnett_strongatomic64_t;
typedef gasnett_strongatomic32_t gasnett_strongatomic_t;
typedef gasnett_strongatomic32_t gasnett_atomic32_t;
typedef gasnett_strongatomic64_t gasnett_atomic64_t;
typedef gasnett_strongatomic32_t gasnett_atomic_t;
typedef uint32_t gasnett_atomic_val_t;
typedef int32_t gasnett_atomic_sval_t;

#define GASNETT_ATOMIC_MAX ((gasnett_atomic_val_t)0xFFFFFFFFu)
#define GASNETT_ATOMIC_SIGNED_MIN ((gasnett_atomic_sval_t)(-2147483647 - 1))
#define GASNETT_ATOMIC_SIGNED_MAX ((gasnett_atomic_sval_t)2147483647)
#define gasnett_atomic_signed(v) ((gasnett_atomic_sval_t)(v))

#define gasnett_strongatomic_init(v) \
  { (uint32_t)(v) }
#define gasnett_strongatomic32_init(v) \
  { (uint32_t)(v) }
#define gasnett_strongatomic64_init(v) \
  { (uint64_t)(v) }
#define gasnett_atomic_init(v) gasnett_strongatomic_init(v)
#define gasnett_atomic32_init(v) gasnett_strongatomic32_init(v)
#define gasnett_atomic64_init(v) gasnett_strongatomic64_init(v)

/* One family of operations. name: prefix; T: value type. Orders: RMWs are fences on some. */
#define GASNETI_STRONG_ATOMICS(name, T)                                                     \
  GASNETT_INLINE(name##_read) T name##_read(name##_t* p, int flags) {                       \
    T v;                                                                                    \
    gasneti_fence_pre(flags);                                                               \
    v = __atomic_load_n(&p->gasneti_v, __ATOMIC_RELAXED);                                   \
    gasneti_fence_post(flags);                                                              \
    return v;                                                                               \
  }                                                                                         \
  GASNETT_INLINE(name##_set) void name##_set(name##_t* p, T v, int flags) {                 \
    gasneti_fence_store(flags);                                                             \
    __atomic_store_n(&p->gasneti_v, v, __ATOMIC_RELAXED);                                   \
    gasneti_fence_post(flags);                                                              \
  }                                                                                         \
  GASNETT_INLINE(name##_add) T name##_add(name##_t* p, T op, int flags) {                   \
    T v;                                                                                    \
    gasneti_fence_rmw_pre(flags);                                                           \
    v = __atomic_add_fetch(&p->gasneti_v, op, __ATOMIC_SEQ_CST);                            \
    gasneti_fence_rmw_post(flags);                                                          \
    return v;                                                                               \
  }                                                                                         \
  GASNETT_INLINE(name##_swap) T name##_swap(name##_t* p, T v, int flags) {                  \
    T old;                                                                                  \
    gasneti_fence_rmw_pre(flags);                                                           \
    old = __atomic_exchange_n(&p->gasneti_v, v, __ATOMIC_SEQ_CST);                          \
    gasneti_fence_rmw_post(flags);                                                          \
    return old;                                                                             \
  }                                                                                         \
  GASNETT_INLINE(name##_compare_and_swap)                                                   \
  int name##_compare_and_swap(name##_t* p, T oldval, T newval, int flags) {                 \
    int done;                                                                               \
    gasneti_fence_rmw_pre(flags);                                                           \
    done = __atomic_compare_exchange_n(&p->gasneti_v, &oldval, newval, 0, __ATOMIC_SEQ_CST, \
                                       __ATOMIC_SEQ_CST);                                   \
    gasneti_fence_rmw_post(flags);                                                          \
    return done;                                                                            \
  }                                                                                         \
  GASNETI_DERIVED_ATOMICS(name, T)

#define GASNETI_PLAIN_ATOMICS(name, T)                                      \
  GASNETT_INLINE(name##_read) T name##_read(name##_t* p, int flags) {       \
    (void)flags;                                                            \
    return p->gasneti_v;                                                    \
  }                                                                         \
  GASNETT_INLINE(name##_set) void name##_set(name##_t* p, T v, int flags) { \
    (void)flags;                                                            \
    p->gasneti_v = v;                                                       \
  }                                                                         \
  GASNETT_INLINE(name##_add) T name##_add(name##_t* p, T op, int flags) {   \
    const T v = (T)(p->gasneti_v + op);                                     \
    (void)flags;                                                            \
    p->gasneti_v = v;                                                       \
    return v;                                                               \
  }                                                                         \
  GASNETT_INLINE(name##_swap) T name##_swap(name##_t* p, T v, int flags) {  \
    const T old = p->gasneti_v;                                             \
    (void)flags;                                                            \
    p->gasneti_v = v;                                                       \
    return old;                                                             \
  }                                                                         \
  GASNETT_INLINE(name##_compare_and_swap)                                   \
  int name##_compare_and_swap(name##_t* p, T oldval, T newval, int flags) { \
    const int same = (p->gasneti_v == oldval);                              \
    (void)flags;                                                            \
    if (same) p->gasneti_v = newval;                                        \
    return same;                                                            \
  }                                                                         \
  GASNETI_DERIVED_ATOMICS(name, T)

#define GASNETI_DERIVED_ATOMICS(name, T)                                            \
  GASNETT_INLINE(name##_subtract) T name##_subtract(name##_t* p, T op, int flags) { \
    return name##_add(p, (T)(0 - op), flags);                                       \
  }                                                                                 \
  GASNETT_INLINE(name##_increment) void name##_increment(name##_t* p, int flags) {  \
    (void)name##_add(p, 1, flags);                                                  \
  }                                                                                 \
  GASNETT_INLINE(name##_decrement) void name##_decrement(name##_t* p, int flags) {  \
    (void)name##_add(p, (T)(0 - (T)1), flags);                                      \
  }                                                                                 \
  GASNETT_INLINE(name##_decrement_and_test)                                         \
  int name##_decrement_and_test(name##_t* p, int flags) {                           \
    return name##_add(p, (T)(0 - (T)1), flags) == 0;                                \
  }

GASNETT_BEGIN_EXTERNC
GASNETI_STRONG_ATOMICS(gasnett_strongatomic, uint32_t)
GASNETI_STRONG_ATOMICS(gasnett_strongatomic32, uint32_t)
GASNETI_STRONG_ATOMICS(gasnett_strongatomic64, uint64_t)
#if GASNETT_THREAD_SAFE
GASNETI_STRONG_ATOMICS(gasnett_atomic, uint32_t)
GASNETI_STRONG_ATOMICS(gasnett_atomic32, uint32_t)
GASNETI_STRONG_ATOMICS(gasnett_atomic64, uint64_t)
#else
GASNETI_PLAIN_ATOMICS(gasnett_atomic, uint32_t)
GASNETI_PLAIN_ATOMICS(gasnett_atomic32, uint32_t)
GASNETI_PLAIN_ATOMICS(gasnett_atomic64, uint64_t)
#endif
GASNETT_END_EXTERNC

#endif
