/* Mutexes, condition variables, reader-writer locks and thread-specific pointers. Part of
 * gasnet_tools.h. In a threaded build (or with GASNETT_USE_TRUE_MUTEXES) they are pthreads objects
 * whose errors end the program; in a single-threaded build they cost nothing. Not for handlers of
 * active messages: those may only take gasnet_hsl_t. */
#ifndef PENSTOCK_GASNET_TOOLS_THREAD_H
#define PENSTOCK_GASNET_TOOLS_THREAD_H

#include <gasnet_basic.h>

#if GASNETT_THREAD_SAFE || GASNETT_USE_TRUE_MUTEXES
#include <pthread.h>

GASNETT_BEGIN_EXTERNC
/* Ends the program, naming the call, if error (an errno value) is not 0. */
extern void gasneti_check_pthread(int error, const char* call);
GASNETT_END_EXTERNC
#define GASNETI_PTHREAD(call) gasneti_check_pthread((call), #call)

typedef pthread_mutex_t gasnett_mutex_t;
#define GASNETT_MUTEX_INITIALIZER PTHREAD_MUTEX_INITIALIZER
#define gasnett_mutex_init(pm) GASNETI_PTHREAD(pthread_mutex_init((pm), NULL))
#define gasnett_mutex_destroy(pm) GASNETI_PTHREAD(pthread_mutex_destroy(pm))
#define gasnett_mutex_destroy_ignoreerr(pm) pthread_mutex_destroy(pm)
#define gasnett_mutex_lock(pm) GASNETI_PTHREAD(pthread_mutex_lock(pm))
#define gasnett_mutex_trylock(pm) pthread_mutex_trylock(pm)
#define gasnett_mutex_unlock(pm) GASNETI_PTHREAD(pthread_mutex_unlock(pm))

typedef pthread_cond_t gasnett_cond_t;
#define GASNETT_COND_INITIALIZER PTHREAD_COND_INITIALIZER
#define gasnett_cond_init(pc) GASNETI_PTHREAD(pthread_cond_init((pc), NULL))
#define gasnett_cond_destroy(pc) GASNETI_PTHREAD(pthread_cond_destroy(pc))
#define gasnett_cond_signal(pc) GASNETI_PTHREAD(pthread_cond_signal(pc))
#define gasnett_cond_broadcast(pc) GASNETI_PTHREAD(pthread_cond_broadcast(pc))
#define gasnett_cond_wait(pc, pm) GASNETI_PTHREAD(pthread_cond_wait((pc), (pm)))

/* pthread_rwlock_t is not declared under a strict -std=c99 without feature macros; the library's
 * object has room for it and is set up by its first bytes being zero. */
typedef union {
  char gasneti_room[64];
  uint64_t gasneti_align;
} gasnett_rwlock_t;
#define GASNETT_RWLOCK_INITIALIZER \
  {                                \
    { 0 }                          \
  }
GASNETT_BEGIN_EXTERNC
/* Makes a lock that is free. One that has GASNETT_RWLOCK_INITIALIZER needs no call. A wrong use of
 * any of these ends the process with a line. */
extern void gasnett_rwlock_init(gasnett_rwlock_t* lock);
/* Ends a lock that is free and that no thread uses any more. */
extern void gasnett_rwlock_destroy(gasnett_rwlock_t* lock);
/* Waits until no thread writes, and reads beside other readers. */
extern void gasnett_rwlock_rdlock(gasnett_rwlock_t* lock);
/* Waits until no thread reads or writes, and writes alone. */
extern void gasnett_rwlock_wrlock(gasnett_rwlock_t* lock);
extern int gasnett_rwlock_tryrdlock(gasnett_rwlock_t* lock); /* 0, or EBUSY */
extern int gasnett_rwlock_trywrlock(gasnett_rwlock_t* lock); /* 0, or EBUSY */
extern void gasnett_rwlock_unlock(gasnett_rwlock_t* lock);
GASNETT_END_EXTERNC

#else /* one thread: nothing to keep out */

typedef struct {
  char gasneti_none;
} gasnett_mutex_t;
#define GASNETT_MUTEX_INITIALIZER \
  { 0 }
#define gasnett_mutex_init(pm) ((void)(pm))
#define gasnett_mutex_destroy(pm) ((void)(pm))
#define gasnett_mutex_destroy_ignoreerr(pm) ((void)(pm), 0)
#define gasnett_mutex_lock(pm) ((void)(pm))
#define gasnett_mutex_trylock(pm) ((void)(pm), 0)
#define gasnett_mutex_unlock(pm) ((void)(pm))

typedef gasnett_mutex_t gasnett_cond_t;
#define GASNETT_COND_INITIALIZER \
  { 0 }
#define gasnett_cond_init(pc) ((void)(pc))
#define gasnett_cond_destroy(pc) ((void)(pc))
#define gasnett_cond_signal(pc) ((void)(pc))
#define gasnett_cond_broadcast(pc) ((void)(pc))
#define gasnett_cond_wait(pc, pm) \
  ((void)(pc), (void)(pm),        \
   gasnett_fatalerror("the only thread waits on a condition variable: nobody can wake it"))

typedef gasnett_mutex_t gasnett_rwlock_t;
#define GASNETT_RWLOCK_INITIALIZER \
  { 0 }
#define gasnett_rwlock_init(pl) ((void)(pl))
#define gasnett_rwlock_destroy(pl) ((void)(pl))
#define gasnett_rwlock_rdlock(pl) ((void)(pl))
#define gasnett_rwlock_wrlock(pl) ((void)(pl))
#define gasnett_rwlock_tryrdlock(pl) ((void)(pl), 0)
#define gasnett_rwlock_trywrlock(pl) ((void)(pl), 0)
#define gasnett_rwlock_unlock(pl) ((void)(pl))
#endif

/* Errors that a debug build of pthreads would find are left to helgrind and TSan. */
#define gasnett_mutex_assertlocked(pm) ((void)(pm))
#define gasnett_mutex_assertunlocked(pm) ((void)(pm))
#define gasnett_rwlock_assertlocked(pl) ((void)(pl))
#define gasnett_rwlock_assertrdlocked(pl) ((void)(pl))
#define gasnett_rwlock_assertwrlocked(pl) ((void)(pl))
#define gasnett_rwlock_assertunlocked(pl) ((void)(pl))

/* ---- a void* per thread, NULL at first. DEFINE in one source file, DECLARE in others; both at
 * file scope and followed by a semicolon ---- */
#if GASNETT_THREAD_SAFE
#define GASNETI_THREADKEY_STORAGE __thread
#else
#define GASNETI_THREADKEY_STORAGE
#endif
#define GASNETT_THREADKEY_DECLARE(key) \
  extern GASNETI_THREADKEY_STORAGE void* gasneti_threadkey_##key
#define GASNETT_THREADKEY_DEFINE(key) \
  GASNETT_THREADKEY_DECLARE(key);     \
  GASNETI_THREADKEY_STORAGE void* gasneti_threadkey_##key
#define gasnett_threadkey_init(key) ((void)&gasneti_threadkey_##key)
/* A key needs no making. Clients name this function, so that no compiler calls it unused. */
GASNETT_INLINE(_gasneti_threadkey_init) void _gasneti_threadkey_init(void* key) { (void)key; }
#define gasnett_threadkey_get(key) (gasneti_threadkey_##key)
#define gasnett_threadkey_set(key, newval) ((void)(gasneti_threadkey_##key = (newval)))
#define gasnett_threadkey_get_noinit(key) gasnett_threadkey_get(key)
#define gasnett_threadkey_set_noinit(key, newval) gasnett_threadkey_set(key, newval)

#endif
