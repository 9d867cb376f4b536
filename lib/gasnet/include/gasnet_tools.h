/* The GASNet tools: timers, barriers and atomics, thread objects, the environment, backtraces and
 * other utilities, usable with gasnet.h, before or after it, or alone. Link penstock's tools
 * library (every GASNet library of Penstock brings it along). Everything here works before
 * gasnet_init and from any thread unless it says otherwise. */
#ifndef _GASNET_TOOLS_H
#define _GASNET_TOOLS_H
#define _INCLUDED_GASNET_TOOLS_H

/* The tools are those for threads or those without. The mode of gasnet.h decides where that is
 * used, else the client's define, else whether the compiler is told of threads. */
#if defined(GASNET_SEQ) && !defined(GASNETT_THREAD_SAFE)
#define GASNETI_TOOLS_THREADS 0
#elif defined(GASNET_PAR) || defined(GASNET_PARSYNC) || defined(GASNETT_THREAD_SAFE)
#define GASNETI_TOOLS_THREADS 1
#elif defined(GASNETT_THREAD_SINGLE)
#define GASNETI_TOOLS_THREADS 0
#elif defined(_REENTRANT) || defined(_THREAD_SAFE) || defined(PTHREAD_MUTEX_INITIALIZER)
#define GASNETI_TOOLS_THREADS 1
#else
#define GASNETI_TOOLS_THREADS 0
#endif
#undef GASNETT_THREAD_SAFE
#undef GASNETT_THREAD_SINGLE
#if GASNETI_TOOLS_THREADS
#define GASNETT_THREAD_SAFE 1
#define GASNETT_THREAD_MODEL PAR
#else
#define GASNETT_THREAD_SINGLE 1
#define GASNETT_THREAD_MODEL SEQ
#endif

#include <stdio.h>
#include <stdlib.h>

#include <gasnet_basic.h>
#include <gasnet_tools_atomic.h>
#include <gasnet_tools_thread.h>

GASNETT_BEGIN_EXTERNC

/* ---- time: ticks of the processor's counter. Not comparable between processes ---- */
typedef uint64_t gasnett_tick_t;
#define GASNETT_TICK_MIN ((gasnett_tick_t)0)
#define GASNETT_TICK_MAX (~(gasnett_tick_t)0)
#if defined(__x86_64__)
/* The ticks now, at about the cost of one instruction. Any thread. */
GASNETT_INLINE(gasnett_ticks_now) gasnett_tick_t gasnett_ticks_now(void) {
  return __builtin_ia32_rdtsc();
}
#else
/* The ticks now. Any thread. */
extern gasnett_tick_t gasnett_ticks_now(void);
#endif
/* Nanoseconds, or whole microseconds, in that many ticks. The first call calibrates: 2 ms. */
extern uint64_t gasnett_ticks_to_ns(gasnett_tick_t ticks);
#define gasnett_ticks_to_us(ticks) (gasnett_ticks_to_ns(ticks) / 1000)
/* The smallest step between two readings, and the cost of one, in microseconds; measured once. */
extern double gasnett_tick_granularityus(void);
/* What reading the ticks costs, in microseconds; measured once. */
extern double gasnett_tick_overheadus(void);
extern uint64_t gasnett_gettimeofday_us(void); /* wall clock, microseconds since 1970 */
extern int gasnett_nsleep(uint64_t nanoseconds);

/* ---- environment. The job's environment after gasnet_init, this process's before ---- */
extern char* gasnett_getenv(const char* key); /* NULL if not set; do not modify */
extern char* gasnett_getenv_withdefault(const char* key, const char* dflt);
/* y/yes/1 or n/no/0 in any case; anything else is a fatal error. */
extern int gasnett_getenv_yesno_withdefault(const char* key, int dflt);
/* As gasnett_parse_int. */
extern int64_t gasnett_getenv_int_withdefault(const char* key, int64_t dflt, uint64_t mem_unit);
/* A floating-point number, or a fraction such as 3/8; anything else is a fatal error. */
extern double gasnett_getenv_dbl_withdefault(const char* key, double dflt);
extern void gasnett_setenv(const char* key, const char* value); /* this process only */
extern void gasnett_unsetenv(const char* key);
/* Whether this process shows the settings it reads (GASNET_VERBOSEENV, on node 0 only). */
extern int gasnett_verboseenv(void);
/* Prints the setting to stderr as read, once for each key, if gasnett_verboseenv() says so. val:
 * NULL where it is not set. */
extern void gasnett_envstr_display(const char* key, const char* val, int is_dflt);
/* The same of a number; is_mem_size: in bytes, printed with a unit. */
extern void gasnett_envint_display(const char* key, int64_t val, int is_dflt, int is_mem_size);
/* The same of a floating-point number. */
extern void gasnett_envdbl_display(const char* key, double val, int is_dflt);

/* A number: decimal, 0x…, or with a fraction; with a suffix B, K(B), M(B), G(B) or T(B) if mem_unit
 * is not 0, which is the unit of a number without suffix. NULL and "" are 0. */
extern int64_t gasnett_parse_int(const char* text, uint64_t mem_unit);
/* The reverse, into buf, which it returns; sizes with the largest unit that loses little. */
extern char* gasnett_format_number(int64_t val, char* buf, size_t bufsz, int is_mem_size);

/* ---- errors, streams, signals ---- */
GASNETT_FORMAT_PRINTF(gasnett_fatalerror, 1, 2,
                      extern void gasnett_fatalerror(const char* format, ...) GASNETT_NORETURN);
/* Adds no position to the message; nor does the one above. */
#define gasnett_fatalerror_nopos gasnett_fatalerror
extern void gasnett_killmyprocess(int exitcode) GASNETT_NORETURN; /* at once, no atexit */
extern void gasnett_flush_streams(void);
/* Flushes and closes stdin, stdout and stderr. */
extern void gasnett_close_streams(void);
typedef void (*gasnett_sighandlerfn_t)(int);
/* Sets the handler of a signal for the process, and returns the one before. Interrupted system
 * calls are restarted. A signal that cannot be handled ends the process with a line. */
extern gasnett_sighandlerfn_t gasnett_reghandler(int sig, gasnett_sighandlerfn_t handler);
/* Sets *flag to 1, prints a line with this process's number and flagsymname, and waits until a
 * debugger sets *flag to 0 or the process gets SIGCONT. May be called in a signal handler. */
extern void gasnett_freezeForDebuggerNow(volatile int* flag, const char* flagsymname);
/* The same with the flag gasnet_frozen, if GASNET_FREEZE_ON_ERROR says so. */
extern void gasnett_freezeForDebuggerErr(void);

/* ---- backtraces ---- */
extern void gasnett_backtrace_init(const char* exename); /* argv[0]; early */
extern int gasnett_print_backtrace(int fd);              /* 0 if something was written */
extern int (*gasnett_print_backtrace_ifenabled)(int fd); /* only if GASNET_BACKTRACE says so */
typedef struct {
  const char* name;  /* as in GASNET_BACKTRACE_TYPE */
  int (*fnp)(int);   /* writes a backtrace of the calling thread to that descriptor; 0: done */
  int threadsupport; /* right in threaded programs? */
} gasnett_backtrace_type_t;
/* The client's own mechanism, if it defines this object; the library's definition is weak. */
extern gasnett_backtrace_type_t gasnett_backtrace_user;

/* ---- the system ---- */
extern int gasnett_cpu_count(void);
#define GASNETT_SET_AFFINITY_SUPPORT 1
/* Pins this thread to one of the CPUs that it may use, counted from 0 and round again; 0 if it is.
 */
extern int gasnett_set_affinity(int rank);
extern const char* gasnett_exe_name(void); /* the program's file; "" if unknown */
extern uint64_t gasnett_getPhysMemSz(int failure_is_fatal);
/* This host's name, which lasts as long as the process. Any thread. */
extern const char* gasnett_gethostname(void);
/* Gives the core to another thread that waits for it, if there is one. */
extern void gasnett_sched_yield(void);
/* Raises the limits of this process on data, stack, resident and address space as far as it may; 1
 * if all were. */
extern int gasnett_maximize_rlimits(void);
/* The same of one limit, RLIMIT_*; name is its name in messages. */
extern int gasnett_maximize_rlimit(int res, const char* name);
/* 1 if a word's lowest byte comes first, else 0. */
extern int gasnett_isLittleEndian(void);
extern void* gasnett_mmap(uintptr_t bytes); /* anonymous pages; MAP_FAILED if there are none */
#if defined(__x86_64__)
#define gasnett_spinloop_hint() __builtin_ia32_pause()
#else
#define gasnett_spinloop_hint() gasnett_compiler_fence()
#endif

/* ---- bytes ---- */
extern uint64_t gasnett_checksum(const void* p, int bytes); /* quick, not secure */
/* The number of bytes that are 0. */
extern int gasnett_count0s_uint32_t(uint32_t x);
/* The same of 8 bytes. */
extern int gasnett_count0s_uint64_t(uint64_t x);
/* The same of the bytes of an address. */
extern int gasnett_count0s_uintptr_t(uintptr_t x);
/* The same of that many bytes at p. */
extern size_t gasnett_count0s(const void* p, size_t bytes);
/* The same for the bytes of src, which it also copies to dst; the two do not overlap. */
extern size_t gasnett_count0s_copy(void* GASNETT_RESTRICT dst, const void* GASNETT_RESTRICT src,
                                   size_t bytes);

/* ---- the arguments of vector, indexed and strided operations as text. *_bufsz returns the size
 * that buf must have; the others return what the arguments cover ---- */
typedef struct {
  size_t minsz;
  size_t maxsz;
  uintptr_t totalsz;
  void* minaddr;
  void* maxaddr;
} gasneti_memveclist_stats_t;
typedef struct {
  void* minaddr;
  void* maxaddr;
} gasneti_addrlist_stats_t;
/* The bytes that the text of count pieces takes at most. */
extern size_t gasnett_format_memveclist_bufsz(size_t count);
/* Writes the pieces to buf; the smallest, largest and total size, and the addresses that they
 * cover. */
extern gasneti_memveclist_stats_t gasnett_format_memveclist(char* buf, size_t count,
                                                            gasnet_memvec_t const* list);
/* The bytes that the text of count addresses takes at most. */
extern size_t gasnett_format_addrlist_bufsz(size_t count);
/* Writes the addresses of pieces of len bytes to buf; returns what they cover. */
extern gasneti_addrlist_stats_t gasnett_format_addrlist(char* buf, size_t count, void* const* list,
                                                        size_t len);
/* The bytes that the text of a strided operation takes at most. */
extern size_t gasnett_format_putsgets_bufsz(size_t stridelevels);
/* pstats is unused. Returns the bytes moved. The arguments are GASNet-1's (9, where count[0] is the
 * bytes of an element) or those of gasnetex.h's strided operations (11, with a team). */
extern size_t gasneti_format_strided(char* buf, void* pstats, uint32_t rank, void* dstaddr,
                                     const ptrdiff_t dststrides[], void* srcaddr,
                                     const ptrdiff_t srcstrides[], size_t elemsz,
                                     const size_t count[], size_t stridelevels);
/* The same with GASNet-1's arguments. */
extern size_t gasnett_format_putsgets(char* buf, void* pstats, uint32_t node, void* dstaddr,
                                      const size_t dststrides[], void* srcaddr,
                                      const size_t srcstrides[], const size_t count[],
                                      size_t stridelevels);
#define gasnett_format_putsgets(...)                                                               \
  GASNETI_ELEVENTH_NEXT(__VA_ARGS__, gasneti_format_putsgets_11, 10, gasneti_format_putsgets_9, 8, \
                        7, 6, 5, 4, 3, 2, 1)                                                       \
  (__VA_ARGS__)
#define GASNETI_ELEVENTH_NEXT(a, b, c, d, e, f, g, h, i, j, k, next, ...) next
#define gasneti_format_putsgets_9(buf, ...) (gasnett_format_putsgets)(buf, __VA_ARGS__)
#define gasneti_format_putsgets_11(buf, stats, tm, ...) \
  ((void)(tm), gasneti_format_strided(buf, stats, __VA_ARGS__))

/* ---- about this build ---- */
/* What in the library's build costs speed, as lines for a warning; "" if nothing does. */
extern const char* gasnett_performance_warning_str(void);
/* The library's release: major * 1000000 + minor * 10000 + patch. */
extern uint64_t gasnett_release_version(void);
/* The library's release as text, which lasts as long as the process. */
extern const char* gasnett_release_version_str(void);
#define GASNETT_SYSTEM_TUPLE _STRINGIFY(PLATFORM_ARCH_FAMILYNAME) "-unknown-linux-gnu"
#define GASNETT_CONFIGURE_ARGS ""
#if defined(GASNET_DEBUG)
#define GASNETT_DEBUG_CONFIG debug
#else
#define GASNETT_DEBUG_CONFIG nodebug
#endif
#define GASNETT_CONFIG_STRING \
  "RELEASE=" _STRINGIFY(GASNETT_RELEASE_VERSION_MAJOR) "." _STRINGIFY(                            \
      GASNETT_RELEASE_VERSION_MINOR) "." _STRINGIFY(GASNETT_RELEASE_VERSION_PATCH)                \
      ",SPEC=" _STRINGIFY(GASNETT_SPEC_VERSION_MAJOR) "." _STRINGIFY(GASNETT_SPEC_VERSION_MINOR)  \
      ",PTR=" _STRINGIFY(SIZEOF_VOID_P) "bytes," _STRINGIFY(GASNETT_DEBUG_CONFIG) "," _STRINGIFY( \
      GASNETT_THREAD_MODEL) ",timers_native,membars_native,atomics_native,atomic32_native,"       \
                            "atomic64_native"
#if defined(GASNET_SEQ)
#define GASNETT_MAX_THREADS 1
#else
#define GASNETT_MAX_THREADS 256
#endif

/* ---- calls for tracing and statistics of GASNet's own library: they are accepted and do nothing
 * ---- */
__attribute__((__unused__, __format__(__printf__, 1, 2))) static void _gasnett_trace_printf_noop(
    const char* format, ...) {
  (void)format;
}
#define GASNETT_TRACE_ENABLED 0
#define GASNETT_TRACE_PRINTF _gasnett_trace_printf_noop
#define GASNETT_TRACE_PRINTF_FORCE _gasnett_trace_printf_noop
#define GASNETT_TRACE_SETSOURCELINE(file, line) ((void)0)
#define GASNETT_TRACE_GETSOURCELINE(pfile, pline) ((void)0)
#define GASNETT_TRACE_FREEZESOURCELINE() ((void)0)
#define GASNETT_TRACE_UNFREEZESOURCELINE() ((void)0)
#define GASNETT_TRACE_GETMASK() ""
#define GASNETT_TRACE_SETMASK(mask) ((void)0)
#define GASNETT_TRACE_GET_TRACELOCAL() (0)
#define GASNETT_TRACE_SET_TRACELOCAL(newval) ((void)0)
#define GASNETT_STATS_INIT(callback) 0
#define GASNETT_STATS_GETMASK() ""
#define GASNETT_STATS_SETMASK(mask) ((void)0)
#define GASNETT_STATS_DUMP(reset) ((void)(reset))
#define GASNETT_STATS_PRINTF _gasnett_trace_printf_noop
#define GASNETT_STATS_PRINTF_FORCE _gasnett_trace_printf_noop

GASNETT_END_EXTERNC

#endif
