/* Uses every name of gasnet_tools.h at least once, and checks its effect. Compiled as C99 and as
 * C++, single-threaded and threaded; the includer defines the mode and calls tools_names(). */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <gasnet_tools.h>

#include "check.h"

GASNETT_IDENT(tools_names_ident, "$Penstock: names of gasnet_tools.h $");

GASNETT_BEGIN_EXTERNC
GASNETT_FORMAT_PRINTF(say, 2, 3, static int say(char* buf, const char* format, ...));
static void leave(int code) GASNETT_NORETURN;
GASNETT_NORETURNP(leave)
static void* make(void) GASNETT_MALLOC;
GASNETT_END_EXTERNC
GASNETT_EXTERNC int tools_external(int x);

#include <stdarg.h>
static int say(char* buf, const char* format, ...) {
  int n;
  va_list ap;
  va_start(ap, format);
  n = vsnprintf(buf, 32, format, ap);
  va_end(ap);
  return n;
}
static void leave(int code) { exit(code); }
static void* make(void) { return malloc(1); }
int tools_external(int x) { return x + 1; }
GASNETT_INLINE(twice) int twice(int x) { return 2 * x; }

/* Of three arguments, the last. */
#define LAST_OF(a, b, c) (GASNETT_UNUSED_ARGS2(a, b), (c))
#if !PLATFORM_COMPILER_VERSION_GE(1, 0, 0) || PLATFORM_COMPILER_VERSION_LT(1, 0, 0) || \
    PLATFORM_COMPILER_VERSION_EQ(1, 2, 3) || PLATFORM_COMPILER_VERSION_LE(0, 9, 9)
#error versions of the compiler
#endif
static int sign_of(int x) {
  switch (x < 0 ? -1 : x > 0) {
    case -1:
      return -1;
    case 0:
      return 0;
    case 1:
      return 1;
    default:
      gasnett_unreachable();
  }
  return 0;
}
static void small_helpers(void) {
  char buf[64];
  CHECK(LAST_OF(1, 2, 3) == 3);
  CHECK((GASNETT_UNUSED_ARGS1(1), 4) == 4);
  CHECK((GASNETT_UNUSED_ARGS3(1, 2, 3), 5) == 5);
  CHECK((GASNETT_UNUSED_ARGS4(1, 2, 3, 4), 6) == 6);
  CHECK((GASNETT_UNUSED_ARGS5(1, 2, 3, 4, 5), 7) == 7);
  CHECK((GASNETT_UNUSED_ARGS6(1, 2, 3, 4, 5, 6), 8) == 8);
  CHECK((GASNETT_UNUSED_ARGS7(1, 2, 3, 4, 5, 6, 7), 9) == 9);
  CHECK((GASNETT_UNUSED_ARGS8(1, 2, 3, 4, 5, 6, 7, 8), 10) == 10);
  CHECK(sign_of(-5) == -1 && sign_of(0) == 0 && sign_of(9) == 1);
  CHECK(MIN(2, 3) == 2 && MAX(2, 3) == 3);
  snprintf(buf, sizeof buf, "%" PRIuSZ " %" PRIxSZ " %" PRIXSZ " %" PRIoSZ, (size_t)10, (size_t)10,
           (size_t)10, (size_t)10);
  CHECK(strcmp(buf, "10 a A 12") == 0);
  snprintf(buf, sizeof buf, "%" PRIdSZ " %" PRIiSZ " %" PRIdPD, (ssize_t)-10, (ssize_t)-1,
           (ptrdiff_t)-7);
  CHECK(strcmp(buf, "-10 -1 -7") == 0);
}

static void compiler_and_platform(int never) {
  char buf[32];
  void* p = make();
  int* GASNETT_RESTRICT q = &never;
  CHECK(p != NULL);
  free(p);
  if_pf(never) leave(1);
  if_pt(!never) CHECK(*q == 0);
  CHECK(say(buf, "%d-%s", 7, "x") == 3 && strcmp(buf, "7-x") == 0);
  CHECK(twice(4) == 8 && tools_external(1) == 2);
  CHECK(strstr(GASNETT_CURRENT_FUNCTION, "compiler_and_platform") != NULL);
  CHECK(strstr(gasnett_current_loc, "tools_names.h:" _STRINGIFY(__LINE__)) != NULL);
  CHECK(gasnett_constant_p(7) && !gasnett_constant_p(getpid()));
  CHECK(strcmp(_STRINGIFY(PLATFORM_COMPILER_FAMILYNAME), "GNU") == 0 ||
        strcmp(_STRINGIFY(PLATFORM_COMPILER_FAMILYNAME), "CLANG") == 0);
  CHECK(PLATFORM_COMPILER_VERSION_STR[0] >= '1' && PLATFORM_COMPILER_VERSION_STR[0] <= '9');
  CHECK(GASNETT_SPEC_VERSION_MAJOR == 1 && GASNETT_SPEC_VERSION_MINOR >= 1);
  CHECK(GASNETT_RELEASE_VERSION_MAJOR == 2025 && GASNETT_RELEASE_VERSION_MINOR == 8 &&
        GASNETT_RELEASE_VERSION_PATCH >= 0);
  CHECK(strstr(GASNETT_CONFIG_STRING, "RELEASE=2025.8") != NULL);
  CHECK(strchr(GASNETT_SYSTEM_TUPLE, '-') != NULL);
  CHECK((1 << GASNETT_PAGESHIFT) == GASNETT_PAGESIZE && sysconf(_SC_PAGESIZE) == GASNETT_PAGESIZE);
  CHECK(GASNETT_CACHE_LINE_BYTES >= 32 && GASNETT_MAX_THREADS >= 1);
#if !(SIZEOF_INT == 4) || !(SIZEOF_GASNET_REGISTER_VALUE_T >= 4)
#error sizes cannot be compared by the preprocessor
#endif
  CHECK(sizeof(int) == SIZEOF_INT && sizeof(void*) == SIZEOF_GASNET_REGISTER_VALUE_T);
#if PLATFORM_ARCH_X86_64
  CHECK(PLATFORM_ARCH_64 == 1);
#endif
#if !defined(HAVE_PTHREAD_H) || !defined(HAVE_MMAP) || !defined(HAVE_PTHREAD_SETCONCURRENCY)
#error configuration macros are missing
#endif
}

static void timers(void) {
  int tries,
      agree = 0; /* on a busy machine this program may lose its core between the two clocks */
  for (tries = 0; tries < 20 && !agree; ++tries) {
    const gasnett_tick_t t0 = gasnett_ticks_now();
    const uint64_t w0 = gasnett_gettimeofday_us();
    gasnett_tick_t t1;
    uint64_t w1, ns, us;
    usleep(20000);
    t1 = gasnett_ticks_now();
    w1 = gasnett_gettimeofday_us();
    ns = gasnett_ticks_to_ns(t1 - t0);
    us = gasnett_ticks_to_us(t1 - t0);
    CHECK(t1 > t0 && GASNETT_TICK_MAX > t1 && GASNETT_TICK_MIN < t0);
    CHECK(us == ns / 1000);
    CHECK(us >= 19000); /* at least the sleep: time cannot have gone faster */
    agree = us < 2 * (w1 - w0) && w1 - w0 < 2 * us;
  }
  CHECK(agree); /* both clocks tell of the same stretch */
  CHECK(gasnett_tick_granularityus() > 0 && gasnett_tick_granularityus() < 1000);
  CHECK(gasnett_tick_overheadus() > 0 && gasnett_tick_overheadus() < 1000);
}

#define ATOMIC_CHECKS(prefix, type)                                                  \
  do {                                                                               \
    prefix##_t a = prefix##_init(5);                                                 \
    const type top = (type) ~(type)0;                                                \
    CHECK(prefix##_read(&a, 0) == 5);                                                \
    prefix##_set(&a, 7, GASNETT_ATOMIC_REL);                                         \
    CHECK(prefix##_read(&a, GASNETT_ATOMIC_ACQ) == 7);                               \
    prefix##_increment(&a, GASNETT_ATOMIC_MB_PRE);                                   \
    prefix##_increment(&a, GASNETT_ATOMIC_MB_POST);                                  \
    prefix##_decrement(&a, GASNETT_ATOMIC_WMB_POST);                                 \
    CHECK(prefix##_read(&a, GASNETT_ATOMIC_RMB_PRE) == 8);                           \
    CHECK(prefix##_add(&a, 10, 0) == 18);                                            \
    CHECK(prefix##_subtract(&a, 16, 0) == 2);                                        \
    CHECK(!prefix##_decrement_and_test(&a, 0));                                      \
    CHECK(prefix##_decrement_and_test(&a, GASNETT_ATOMIC_REL | GASNETT_ATOMIC_ACQ)); \
    CHECK(!prefix##_compare_and_swap(&a, 1, 9, 0) && prefix##_read(&a, 0) == 0);     \
    CHECK(prefix##_compare_and_swap(&a, 0, 9, GASNETT_ATOMIC_ACQ_IF_TRUE));          \
    CHECK(prefix##_swap(&a, top, 0) == 9);                                           \
    prefix##_increment(&a, 0);                                                       \
    CHECK(prefix##_read(&a, 0) == 0); /* wraps */                                    \
    prefix##_decrement(&a, 0);                                                       \
    CHECK(prefix##_read(&a, 0) == top);                                              \
  } while (0)

static void atomics(void) {
  gasnett_atomic_t s = gasnett_atomic_init(0);
  gasnett_atomic_val_t v;
  double d = 0;
  ATOMIC_CHECKS(gasnett_atomic, gasnett_atomic_val_t);
  ATOMIC_CHECKS(gasnett_atomic32, uint32_t);
  ATOMIC_CHECKS(gasnett_atomic64, uint64_t);
  ATOMIC_CHECKS(gasnett_strongatomic, gasnett_atomic_val_t);
  ATOMIC_CHECKS(gasnett_strongatomic32, uint32_t);
  ATOMIC_CHECKS(gasnett_strongatomic64, uint64_t);
  gasnett_atomic_set(&s, (gasnett_atomic_val_t)GASNETT_ATOMIC_SIGNED_MIN, 0);
  v = gasnett_atomic_subtract(&s, 1, 0);
  CHECK(gasnett_atomic_signed(v) == GASNETT_ATOMIC_SIGNED_MAX);
  gasnett_atomic_set(&s, (gasnett_atomic_val_t)-3, 0);
  CHECK(gasnett_atomic_signed(gasnett_atomic_read(&s, 0)) == (gasnett_atomic_sval_t)-3);
  CHECK(GASNETT_ATOMIC_MAX >= 0xFFFFFFu);
  /* natural storage: a double may be treated as one */
  gasnett_atomic64_set((gasnett_atomic64_t*)&d, 0x3FF0000000000000u, 0);
  CHECK(d == 1.0);
  CHECK(sizeof(gasnett_atomic32_t) == 4 && sizeof(gasnett_atomic64_t) == 8);
  gasnett_local_wmb();
  gasnett_local_rmb();
  gasnett_local_mb();
  gasnett_weak_wmb();
  gasnett_weak_rmb();
  gasnett_weak_mb();
}

static gasnett_mutex_t a_mutex = GASNETT_MUTEX_INITIALIZER;
static gasnett_cond_t a_cond = GASNETT_COND_INITIALIZER;
static gasnett_rwlock_t a_rwlock = GASNETT_RWLOCK_INITIALIZER;
GASNETT_THREADKEY_DECLARE(a_key);
GASNETT_THREADKEY_DEFINE(a_key);

static volatile int somebody_else = 0; /* a thread that could wake this one */
static void locks_and_keys(void) {
  int x = 0;
  gasnett_mutex_lock(&a_mutex);
  if (somebody_else) gasnett_cond_wait(&a_cond, &a_mutex);
  gasnett_cond_broadcast(&a_cond);
  gasnett_mutex_unlock(&a_mutex);
  gasnett_rwlock_rdlock(&a_rwlock);
  gasnett_rwlock_unlock(&a_rwlock);
  gasnett_rwlock_wrlock(&a_rwlock);
  gasnett_rwlock_unlock(&a_rwlock);
  CHECK(gasnett_threadkey_get(a_key) == NULL);
  gasnett_threadkey_set(a_key, &x);
  CHECK(gasnett_threadkey_get(a_key) == &x);
  gasnett_threadkey_init(a_key);
  /* Clients name the two, so that no compiler calls them unused. */
  CHECK((void (*)(void)) & _gasneti_threadkey_init != (void (*)(void)) &
        _gasnett_trace_printf_noop);
  gasnett_threadkey_set_noinit(a_key, NULL);
  CHECK(gasnett_threadkey_get_noinit(a_key) == NULL);
}

static void environment(void) {
  char buf[80];
  gasnett_setenv("PENSTOCK_TEST_A", "12 KB");
  CHECK(strcmp(gasnett_getenv("PENSTOCK_TEST_A"), "12 KB") == 0);
  CHECK(gasnett_getenv("PENSTOCK_TEST_ABSENT") == NULL);
  CHECK(gasnett_getenv_int_withdefault("PENSTOCK_TEST_A", 1, 1) == 12 * 1024);
  CHECK(gasnett_getenv_int_withdefault("PENSTOCK_TEST_ABSENT", -8, 0) == -8);
  gasnett_setenv("PENSTOCK_TEST_A", "Yes");
  CHECK(gasnett_getenv_yesno_withdefault("PENSTOCK_TEST_A", 0) != 0);
  gasnett_setenv("PENSTOCK_TEST_A", "0");
  CHECK(gasnett_getenv_yesno_withdefault("PENSTOCK_TEST_A", 1) == 0);
  CHECK(gasnett_getenv_yesno_withdefault("PENSTOCK_TEST_ABSENT", 1) != 0);
  gasnett_setenv("PENSTOCK_TEST_A", "3/8");
  CHECK(gasnett_getenv_dbl_withdefault("PENSTOCK_TEST_A", 1) == 0.375);
  gasnett_setenv("PENSTOCK_TEST_A", "-1e4");
  CHECK(gasnett_getenv_dbl_withdefault("PENSTOCK_TEST_A", 1) == -10000.0);
  CHECK(gasnett_getenv_dbl_withdefault("PENSTOCK_TEST_ABSENT", 2.5) == 2.5);
  CHECK(gasnett_verboseenv() == 0);

  CHECK(gasnett_parse_int("42", 0) == 42 && gasnett_parse_int("-17", 0) == -17);
  CHECK(gasnett_parse_int("0x1F", 0) == 31 && gasnett_parse_int("010", 0) == 10);
  CHECK(gasnett_parse_int("1.5", 1024) == 1536 && gasnett_parse_int("2M", 1) == 2 << 20);
  CHECK(gasnett_parse_int("3 GB", 1) == (int64_t)3 << 30 && gasnett_parse_int("7B", 1024) == 7);
  CHECK(gasnett_parse_int("1TB", 1) == (int64_t)1 << 40 && gasnett_parse_int("0.5k", 1) == 512);
  CHECK(gasnett_parse_int("", 0) == 0 && gasnett_parse_int(NULL, 0) == 0);
  CHECK(strcmp(gasnett_format_number(1536, buf, sizeof buf, 0), "1536") == 0);
  CHECK(strcmp(gasnett_format_number(-4096, buf, sizeof buf, 1), "-4 KB") == 0);
  CHECK(gasnett_parse_int(gasnett_format_number((int64_t)5 << 40, buf, sizeof buf, 1), 1) ==
        (int64_t)5 << 40);
  CHECK(gasnett_parse_int(gasnett_format_number(100001, buf, sizeof buf, 0), 0) == 100001);
  CHECK(gasnett_parse_int(gasnett_format_number((int64_t)1 << 55, buf, sizeof buf, 1), 1) ==
        (int64_t)1 << 55);
}

static volatile sig_atomic_t signals_seen = 0;
static void on_signal(int sig) {
  (void)sig;
  signals_seen = 1;
}
static int my_backtrace(int fd) { return write(fd, "frames of mine\n", 15) != 15; }
/* Replaces the library's weak definition. */
gasnett_backtrace_type_t gasnett_backtrace_user = {"MINE", &my_backtrace, 1};

static void system_and_errors(char** argv) {
  char text[512];
  int pipes[2];
  ssize_t n;
  void* pages;
  CHECK(gasnett_reghandler(SIGUSR1, &on_signal) == SIG_DFL);
  raise(SIGUSR1);
  CHECK(signals_seen == 1);
  CHECK(gasnett_reghandler(SIGUSR1, SIG_DFL) == &on_signal);

  gasnett_backtrace_init(argv[0]);
  CHECK(pipe(pipes) == 0);
  CHECK(gasnett_print_backtrace(pipes[1]) == 0);
  n = read(pipes[0], text, sizeof text - 1);
  text[n > 0 ? n : 0] = '\0';
  CHECK(strstr(text, "frames of mine") != NULL);
  gasnett_setenv("GASNET_BACKTRACE_TYPE", "NONSUCH,EXECINFO");
  CHECK(gasnett_print_backtrace(pipes[1]) == 0);
  n = read(pipes[0], text, sizeof text - 1);
  text[n > 0 ? n : 0] = '\0';
  CHECK(n > 0 && strstr(text, "frames of mine") == NULL && strchr(text, '[') != NULL);
  close(pipes[0]);
  close(pipes[1]);

  CHECK(gasnett_cpu_count() >= 1);
  CHECK(GASNETT_SET_AFFINITY_SUPPORT == 1 && gasnett_set_affinity(0) == 0);
  /* Modulo the number of CPUs, and it may move again. */
  CHECK(gasnett_set_affinity(gasnett_cpu_count() + 1) == 0);
  CHECK(strstr(gasnett_exe_name(), "gasnet_tools_") != NULL);
  CHECK(gasnett_getPhysMemSz(1) >= (uint64_t)64 << 20);
  CHECK(gasnett_gethostname() != NULL && gasnett_gethostname()[0] != '\0');
  gasnett_sched_yield();
  gasnett_flush_streams();
  (void)gasnett_maximize_rlimits();
  pages = gasnett_mmap(3 * (uintptr_t)GASNETT_PAGESIZE);
  CHECK(pages != (void*)-1 && (uintptr_t)pages % GASNETT_PAGESIZE == 0);
  memset(pages, 1, 3 * GASNETT_PAGESIZE);
  CHECK(gasnett_performance_warning_str() != NULL);
  if (signals_seen < 0) { /* never; but they must exist, and be known not to return */
    if (n < 0) gasnett_fatalerror("%d", 1);
    if (n < 0) gasnett_fatalerror_nopos("%d", 1);
    gasnett_killmyprocess(1);
  }
}

static void bytes(void) {
  unsigned char from[100], to[100];
  size_t i, zeros = 0;
  for (i = 0; i < sizeof from; ++i) {
    from[i] = (unsigned char)(i % 3 == 0 ? 0 : i % 2 ? 0x80 : 1);
    zeros += from[i] == 0;
  }
  memset(to, 0xFF, sizeof to);
  CHECK(gasnett_count0s(from, sizeof from) == zeros);
  CHECK(gasnett_count0s(from + 1, 2) == 0 && gasnett_count0s(from, 0) == 0);
  CHECK(gasnett_count0s_copy(to, from, 99) == zeros - 1 && memcmp(to, from, 99) == 0 &&
        to[99] == 0xFF);
  CHECK(gasnett_count0s_uint32_t(0) == 4 && gasnett_count0s_uint32_t(0x00FF0100u) == 2);
  CHECK(gasnett_count0s_uint64_t(0) == 8 && gasnett_count0s_uint64_t(0x0100800100000001u) == 4);
  CHECK(gasnett_count0s_uintptr_t(0) == (int)sizeof(uintptr_t));
  CHECK(gasnett_checksum(from, 99) == gasnett_checksum(to, 99));
  CHECK(gasnett_checksum(from, 99) != gasnett_checksum(from, 98));
  to[50] ^= 1;
  CHECK(gasnett_checksum(from, 99) != gasnett_checksum(to, 99));
}

static void formats(void) {
  char mem[64];
  char* buf;
  gasnet_memvec_t vec[3];
  void* list[2];
  size_t dst[2] = {10, 100}, src[2] = {20, 200}, count[3] = {5, 3, 2};
  ptrdiff_t down[1];
  int i;
  for (i = 0; i < 3; ++i) {
    vec[i].addr = mem + 16 * i;
    vec[i].len = (size_t)i + 1;
  }
  list[0] = mem + 8;
  list[1] = mem;
  buf = (char*)malloc(gasnett_format_memveclist_bufsz(3));
  (void)gasnett_format_memveclist(buf, 3, vec);
  CHECK(strlen(buf) < gasnett_format_memveclist_bufsz(3) && strstr(buf, "3 entries") != NULL &&
        strstr(buf, "totalsz=6") != NULL);
  CHECK(gasnett_format_memveclist(buf, 3, vec).maxaddr == mem + 34);
  free(buf);
  buf = (char*)malloc(gasnett_format_addrlist_bufsz(2));
  CHECK(gasnett_format_addrlist(buf, 2, list, 4).minaddr == mem);
  CHECK(strlen(buf) < gasnett_format_addrlist_bufsz(2) && strstr(buf, "totalsz=8") != NULL);
  free(buf);
  buf = (char*)malloc(gasnett_format_putsgets_bufsz(2));
  CHECK(gasnett_format_putsgets(buf, NULL, 1, mem, dst, mem, src, count, 2) == 30);
  CHECK(strlen(buf) < gasnett_format_putsgets_bufsz(2) && strstr(buf, "[3, 2]") != NULL);
  /* As gasnetex.h has it: a team, strides with a sign, the element's size apart. */
  down[0] = -10;
  CHECK(gasnett_format_putsgets(buf, NULL, "team", 1, mem, down, mem, down, 5, count + 1, 1) == 15);
  CHECK(strlen(buf) < gasnett_format_putsgets_bufsz(2) && strstr(buf, "[-10]") != NULL);
  free(buf);
}

static void tracing(void) {
  const char* mask = GASNETT_TRACE_GETMASK();
  const char* stats = GASNETT_STATS_GETMASK();
  const char* file = NULL;
  unsigned line = 0;
  GASNETT_TRACE_SETMASK(mask);
  GASNETT_STATS_SETMASK(stats);
  GASNETT_TRACE_SETSOURCELINE(__FILE__, __LINE__);
  GASNETT_TRACE_GETSOURCELINE(&file, &line);
  GASNETT_TRACE_FREEZESOURCELINE();
  GASNETT_TRACE_UNFREEZESOURCELINE();
  GASNETT_TRACE_SET_TRACELOCAL(1);
  GASNETT_TRACE_PRINTF("%s %u", file == NULL ? "" : file, line);
  GASNETT_TRACE_PRINTF_FORCE("nothing");
  GASNETT_STATS_PRINTF("%d", 1);
  GASNETT_STATS_PRINTF_FORCE("nothing");
  GASNETT_STATS_DUMP(1);
  CHECK(mask != NULL && stats != NULL && !GASNETT_TRACE_ENABLED &&
        GASNETT_TRACE_GET_TRACELOCAL() == 0);
}

static int tools_names(int argc, char** argv) {
  compiler_and_platform(argc < 0);
  small_helpers();
  timers();
  atomics();
  locks_and_keys();
  environment();
  system_and_errors(argv);
  bytes();
  formats();
  tracing();
  return check_result();
}
