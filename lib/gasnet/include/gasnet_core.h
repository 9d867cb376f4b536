/* The core interface of gasnet.h but for the messages: types, errors, the job, its segments,
 * waiting, handler-safe locks. Specification chapters 1 and 2. */
#ifndef _IN_PENSTOCK_GASNET_CORE_H
#define _IN_PENSTOCK_GASNET_CORE_H
#ifndef _IN_PENSTOCK_GASNET_MODE_H
#error include gasnet.h or gasnetex.h
#endif

#include <gasnet_fwd.h>
#if !GASNET_SEQ
#include <errno.h>
#include <pthread.h>
#endif

#define GASNETC_INLINE static __inline__ __attribute__((__unused__))

/* ---- errors: what many functions return (1.6) ---- */
#define GASNET_OK 0
#define GASNET_ERR_NOT_INIT 10001
#define GASNET_ERR_RESOURCE 10002
#define GASNET_ERR_BAD_ARG 10003
#define GASNET_ERR_NOT_READY 10004
#define GASNET_ERR_BARRIER_MISMATCH 10005

/* ---- types (1.7) ---- */
typedef gex_Rank_t gasnet_node_t;
typedef uint8_t gasnet_handler_t;
typedef int32_t gasnet_handlerarg_t;
typedef struct gasnetc_token_state* gasnet_token_t;
typedef uintptr_t gasnet_register_value_t;
typedef void* gasnet_threadinfo_t;
typedef gex_Event_t gasnet_handle_t;
#define GASNET_INVALID_HANDLE ((gasnet_handle_t)0)

typedef struct {
  gasnet_handler_t index; /* 0: the library chooses, and writes its choice here */
#if GASNET_USE_STRICT_PROTOTYPES
  void* fnptr;
#else
  gasneti_any_function_t fnptr;
#endif
} gasnet_handlerentry_t;

typedef struct {
  void* addr;
  uintptr_t size;
} gasnet_seginfo_t;

typedef struct {
  gasnet_node_t host;      /* processes of one host have the same number, from 0 */
  gasnet_node_t supernode; /* processes that share memory have the same number, from 0 */
} gasnet_nodeinfo_t;

GASNETT_BEGIN_EXTERNC

extern char* gasnet_ErrorName(int errval); /* "GASNET_ERR_BAD_ARG" */
extern char* gasnet_ErrorDesc(int errval); /* a few words of English */
extern char* gasnet_getenv(const char* name);

/* ---- what the library of this mode defines ---- */
extern gasnet_node_t GASNETC_(mynode), GASNETC_(nodes);
extern size_t GASNETC_(max_medium);
extern size_t GASNETC_(max_long)[2], GASNETC_(max_long_reply)[2]; /* [1]: segment everything */
extern int GASNETC_(init)(int* argc, char*** argv);
/* The same for clients compiled with GASNET_DEBUG: from here on more is checked. */
extern int GASNETC_(init_checked)(int* argc, char*** argv);
/* Ends the job where a put or get must not be made, such as in a handler. Clients compiled with
 * GASNET_DEBUG call it before each one, since copies to mapped memory do not come to the library.
 */
extern void GASNETC_(check_transfer)(gasnet_node_t node, const void* addr, size_t nbytes);
/* Ends the job for a mistake that the client's own code has seen, where a library's function is
 * inlined. number: the bytes of a value, or the number that was passed as lc_opt. */
enum gasnetc_mistake { gasnetc_no_domain, gasnetc_value_bytes, gasnetc_bad_lc_opt };
extern void GASNETC_(mistake)(enum gasnetc_mistake what, const char* call, gasnet_node_t rank,
                              uintptr_t number) GASNETT_NORETURN;
extern int GASNETC_(attach)(gasnet_handlerentry_t* table, int numentries, uintptr_t segsize,
                            uintptr_t minheapoffset, int everything);
extern void GASNETC_(exit)(int exitcode) GASNETT_NORETURN;
extern uintptr_t GASNETC_(max_local_segment)(void);
extern uintptr_t GASNETC_(max_global_segment)(void);
extern int GASNETC_(segment_info)(gasnet_seginfo_t* table, int numentries);
extern int GASNETC_(node_info)(gasnet_nodeinfo_t* table, int numentries);
extern int GASNETC_(set_waitmode)(int mode);
extern int GASNETC_(poll)(void);
/* Does one step of a wait: it polls, and yields the core when no message has come for a while.
 * *empty counts the polls that found nothing, and begins with 0. */
extern void GASNETC_(wait_step)(unsigned* empty);
extern int GASNETC_(source)(gasnet_token_t token, gasnet_node_t* srcindex);
extern void GASNETC_(lock_failed)(int error) GASNETT_NORETURN;
/* What gasnet_attach() calls at its end, with the own segment; the client sets it. */
extern void (*GASNETC_(attach_hook))(void* base, uintptr_t size);

/* ---- the job (2.1, 2.2) ---- */
#if defined(GASNET_DEBUG)
#define gasnet_init(argc, argv) GASNETC_(init_checked)((argc), (argv))
#else
#define gasnet_init(argc, argv) GASNETC_(init)((argc), (argv))
#endif
#define gasnet_attach(table, numentries, segsize, minheapoffset) \
  GASNETC_(attach)((table), (numentries), (segsize), (minheapoffset), GASNETC_EVERYTHING)
#define gasnet_exit(exitcode) GASNETC_(exit)(exitcode)
#define gasnet_mynode() ((gasnet_node_t)GASNETC_(mynode))
#define gasnet_nodes() ((gasnet_node_t)GASNETC_(nodes))
#if GASNET_SEGMENT_EVERYTHING
#define gasnet_getMaxLocalSegmentSize() (~(uintptr_t)0)
#define gasnet_getMaxGlobalSegmentSize() (~(uintptr_t)0)
#else
#define gasnet_getMaxLocalSegmentSize() GASNETC_(max_local_segment)()
#define gasnet_getMaxGlobalSegmentSize() GASNETC_(max_global_segment)()
#endif
#define gasnet_getSegmentInfo(table, numentries) GASNETC_(segment_info)((table), (numentries))
#define gasnet_getNodeInfo(table, numentries) GASNETC_(node_info)((table), (numentries))

/* The client's function that is called with its segment when that is attached; NULL if none is. */
#define gasnet_client_attach_hook GASNETC_(attach_hook)

/* ---- polling and waiting (2.3.5, 3.6.2) ---- */
GASNETC_INLINE int gasnet_AMPoll(void) { return GASNETC_(poll)(); }
#define gasnet_AMGetMsgSource(token, srcindex) GASNETC_(source)((token), (srcindex))
#define GASNET_WAIT_SPIN 0
#define GASNET_WAIT_BLOCK 1
#define GASNET_WAIT_SPINBLOCK 2
#define gasnet_set_waitmode(wait_mode) GASNETC_(set_waitmode)(wait_mode)
/* Polls until cond holds. Afterwards everything is visible that handlers wrote before they made it
 * true. */
#define GASNET_BLOCKUNTIL(cond)                          \
  do {                                                   \
    unsigned gasnetc_empty = 0;                          \
    while (!(cond)) GASNETC_(wait_step)(&gasnetc_empty); \
    /* acquire: what handlers wrote before */            \
    __atomic_thread_fence(__ATOMIC_ACQUIRE);             \
  } while (0)

/* ---- no-interrupt sections (2.4.2) do nothing, since handlers run in polls only ---- */
#define gasnet_hold_interrupts() ((void)0)
#define gasnet_resume_interrupts() ((void)0)

/* ---- handler-safe locks (2.4.4). In SEQ they do nothing: handlers run only where the one thread
 * polls, and it must not poll while it holds a lock ---- */
#if GASNET_SEQ
typedef struct {
  char gasnetc_none;
} gasnet_hsl_t;
#define GASNET_HSL_INITIALIZER \
  { 0 }
/* Makes a lock that is free. One that has GASNET_HSL_INITIALIZER needs no call. */
GASNETC_INLINE void gasnet_hsl_init(gasnet_hsl_t* hsl) { (void)hsl; }
/* Ends a lock that is free and that no thread uses any more. */
GASNETC_INLINE void gasnet_hsl_destroy(gasnet_hsl_t* hsl) { (void)hsl; }
/* Does nothing in SEQ, also with GASNET_DEBUG. The holder must not poll, and releases locks in the
 * order opposite to that of taking. */
GASNETC_INLINE void gasnet_hsl_lock(gasnet_hsl_t* hsl) { (void)hsl; }
/* Does nothing in SEQ. */
GASNETC_INLINE void gasnet_hsl_unlock(gasnet_hsl_t* hsl) { (void)hsl; }
/* Always GASNET_OK in SEQ. */
GASNETC_INLINE int gasnet_hsl_trylock(gasnet_hsl_t* hsl) {
  (void)hsl;
  return GASNET_OK;
}
#else
typedef struct {
  pthread_mutex_t gasnetc_mutex;
  pthread_t gasnetc_holder; /* with GASNET_DEBUG the thread that holds it, or 0 */
} gasnet_hsl_t;
#define GASNET_HSL_INITIALIZER \
  { PTHREAD_MUTEX_INITIALIZER, 0 }
GASNETC_INLINE void gasnetc_lock_check(int error) {
  if_pf(error != 0) GASNETC_(lock_failed)(error);
}
#if defined(GASNET_DEBUG)
/* Ends the job with the error unless this thread holds the lock (holds: 1), or holds it not (0). */
GASNETC_INLINE void gasnetc_hsl_check(gasnet_hsl_t* hsl, int holds, int error) {
  const pthread_t holder = __atomic_load_n(&hsl->gasnetc_holder, __ATOMIC_RELAXED);
  gasnetc_lock_check((holder == pthread_self()) == holds ? 0 : error);
}
/* relaxed: only the thread itself has to find its own name there */
GASNETC_INLINE void gasnetc_hsl_set_holder(gasnet_hsl_t* hsl, pthread_t holder) {
  __atomic_store_n(&hsl->gasnetc_holder, holder, __ATOMIC_RELAXED);
}
#else
#define gasnetc_hsl_check(hsl, holds, error) ((void)0)
#define gasnetc_hsl_set_holder(hsl, holder) ((void)0)
#endif
/* Makes a lock that is free. One that has GASNET_HSL_INITIALIZER needs no call. */
GASNETC_INLINE void gasnet_hsl_init(gasnet_hsl_t* hsl) {
  hsl->gasnetc_holder = 0;
  gasnetc_lock_check(pthread_mutex_init(&hsl->gasnetc_mutex, NULL));
}
/* Ends a lock that is free and that no thread uses any more. */
GASNETC_INLINE void gasnet_hsl_destroy(gasnet_hsl_t* hsl) {
  gasnetc_lock_check(pthread_mutex_destroy(&hsl->gasnetc_mutex));
}
/* Waits for the lock and takes it, also in a handler. With GASNET_DEBUG a thread that holds it
 * already ends the job. The holder must not poll, and releases in the order opposite to that of
 * taking.
 */
GASNETC_INLINE void gasnet_hsl_lock(gasnet_hsl_t* hsl) {
  gasnetc_hsl_check(hsl, 0, EDEADLK);
  gasnetc_lock_check(pthread_mutex_lock(&hsl->gasnetc_mutex));
  gasnetc_hsl_set_holder(hsl, pthread_self());
}
/* Releases the lock, on the thread that took it. */
GASNETC_INLINE void gasnet_hsl_unlock(gasnet_hsl_t* hsl) {
  gasnetc_hsl_check(hsl, 1, EPERM);
  gasnetc_hsl_set_holder(hsl, 0);
  gasnetc_lock_check(pthread_mutex_unlock(&hsl->gasnetc_mutex));
}
/* Takes the lock if it is free: GASNET_OK, or GASNET_ERR_NOT_READY at once. */
GASNETC_INLINE int gasnet_hsl_trylock(gasnet_hsl_t* hsl) {
  if (pthread_mutex_trylock(&hsl->gasnetc_mutex) != 0) return GASNET_ERR_NOT_READY;
  gasnetc_hsl_set_holder(hsl, pthread_self());
  return GASNET_OK;
}
#endif

GASNETT_END_EXTERNC

#endif
