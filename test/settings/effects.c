/* What settings change, as a program sees it; `effects` (the script) sets them and compares.
 *   effects connections     connections of rank 0 after start
 *   effects credits         credits that a process lends or keeps
 *   effects segment         the largest segment, in MiB
 *   effects owed            messages of credits that answer 64 Shorts
 *   effects ask             each rank asks the third one behind it
 *   effects huge            1: the kernel may take huge pages for the segment
 *   effects polls           most requests, then most replies, that one poll handles while 64 wait
 *   effects outstanding     1: two requests of one thread are not under way at a time
 *   effects barriers        1: barriers send messages
 *   effects regions         puts from 100 blocks of memory of their own
 *   effects sleep           CPU time of a wait of a second, in percent
 *   effects sent N          Shorts that N threads can send to a rank that does not poll (PAR: each
 *                           in a domain of its own)
 *   effects threads N       N threads use the library at a time (PAR) */
#include <gasnetex.h>
#include <penstock/counters.h>
#include <pthread.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include "test/gasnet/ex_job.h"

enum { waiting = 64, blocks = 100, block_bytes = 128 * 1024 };
enum { on_one = 200, on_asked, on_answer, on_go, on_hello, on_welcome };

static volatile int ones = 0, gone = 0, questions = 0;
static void one_came(gex_Token_t t) {
  (void)t;
  ones = ones + 1;
}
static void asked(gex_Token_t t) {
  MUST(gex_AM_ReplyShort0(t, on_answer, 0));
  questions = questions + 1;
}
static void answered(gex_Token_t t) {
  (void)t;
  answers = answers + 1;
}
static int welcomed[64]; /* a handler may run on another thread than the one that waits */
static void welcome(gex_Token_t t, gex_AM_Arg_t thread) {
  (void)t;
  __atomic_store_n(&welcomed[thread], 1, __ATOMIC_RELEASE);
}
static void hello(gex_Token_t t, gex_AM_Arg_t thread) {
  MUST(gex_AM_ReplyShort1(t, on_welcome, 0, thread));
}
static void go(gex_Token_t t) {
  (void)t;
  gone = 1;
}
static gex_AM_Entry_t handlers[] = {
    {on_one, HANDLER(&one_came), GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT, 0, NULL, "one"},
    {on_asked, HANDLER(&asked), GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT, 0, NULL, "asked"},
    {on_answer, HANDLER(&answered), GEX_FLAG_AM_REPLY | GEX_FLAG_AM_SHORT, 0, NULL, "answer"},
    {on_go, HANDLER(&go), GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT, 0, NULL, "go"},
    {on_hello, HANDLER(&hello), GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT, 1, NULL, "hello"},
    {on_welcome, HANDLER(&welcome), GEX_FLAG_AM_REPLY | GEX_FLAG_AM_SHORT, 1, NULL, "welcome"},
};

static uint64_t counter(const char* name) {
  uint64_t value = 0;
  struct penstock_counters* const c = penstock_counters_take(0);
  CHECK(c != NULL && penstock_counters_get(c, name, &value) == 0);
  penstock_counters_free(c);
  return value;
}

static uint64_t count_of(gex_Rank_t rank, const char* name) {
  uint64_t sum = 0, value;
  unsigned p;
  struct penstock_counters* const c = penstock_counters_take(0);
  CHECK(c != NULL);
  for (p = 0; p < penstock_counters_peers(c); ++p)
    if (penstock_counters_rank(c, p) == rank && penstock_counters_get_peer(c, p, name, &value) == 0)
      sum += value;
  penstock_counters_free(c);
  return sum;
}

static void say(const char* what, unsigned long value) {
  if (me == 0) printf("%s %lu\n", what, value);
  ++check_count;
}

static int may_be_huge(const void* at) {
  char line[512];
  unsigned long from, to;
  int here = 0, huge = 0;
  FILE* const f = fopen("/proc/self/smaps", "r");
  CHECK(f != NULL);
  while (fgets(line, sizeof line, f) != NULL) {
    if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
      here = (uintptr_t)at >= from && (uintptr_t)at < to;
    else if (here && strncmp(line, "VmFlags:", 8) == 0)
      huge = strstr(line, " hg") != NULL || strstr(line, " ht") != NULL;
  }
  fclose(f);
  return huge;
}

static double seconds(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Rank 1 says in rank 0's segment that it has sent all that rank 0 shall find; rank 0 waits for
 * that without a poll, and a moment longer: by queue pairs a put may overtake a message. */
static void tell_first(int round) {
  MUST(gex_RMA_PutBlocking(tm, 0, area[0], &round, sizeof round, 0));
}
static void await_word(int round) {
  const struct timespec moment = {0, 30000000};
  while (*(volatile int*)area[0] != round) sched_yield();
  nanosleep(&moment, NULL);
}

/* Rank 1 sends what rank 0 then finds; rank 0 does not poll meanwhile, unless one of its own
 * requests waits for credits: therefore several times. */
static void polls(void) {
  int i, round, before, most_ones = 0, most_answers = 0;
  if (me == 0) { /* connects */
    MUST(gex_AM_RequestShort0(tm, 1, on_asked, 0));
    GASNET_BLOCKUNTIL(answers == 1);
  }
  for (round = 0; round < 4; ++round) {
    answers = ones = gone = 0;
    meet();
    questions = 0;
    if (me == 1) {
      for (i = 0; i < waiting; ++i) MUST(gex_AM_RequestShort0(tm, 0, on_one, 0));
      tell_first(2 * round + 1);
    } else if (me == 0) {
      await_word(2 * round + 1);
      while (ones < waiting) {
        before = ones;
        gasnet_AMPoll();
        if (ones - before > most_ones) most_ones = ones - before;
      }
    }
    meet();
    if (me == 0) {
      for (i = 0; i < waiting; ++i) MUST(gex_AM_RequestShort0(tm, 1, on_asked, 0));
      await_word(2 * round + 2);
      while (answers < waiting) {
        before = answers;
        gasnet_AMPoll();
        if (answers - before > most_answers) most_answers = answers - before;
      }
      MUST(gex_AM_RequestShort0(tm, 1, on_go, 0));
    } else if (me == 1) {
      GASNET_BLOCKUNTIL(questions == waiting);
      tell_first(2 * round + 2);
      GASNET_BLOCKUNTIL(gone);
    }
    meet();
  }
  say("requests", (unsigned long)most_ones);
  say("replies", (unsigned long)most_answers);
  meet();
}

/* Rank 0 polls when rank 1 has sent all. */
static void owed(void) {
  int i;
  const int sent = 1;
  uint64_t before;
  meet();
  before = count_of(1, "credit_messages");
  if (me == 1) {
    for (i = 0; i < waiting; ++i) MUST(gex_AM_RequestShort0(tm, 0, on_one, 0));
    MUST(gex_RMA_PutBlocking(tm, 0, area[0], (void*)&sent, sizeof sent, 0));
  } else {
    while (*(volatile int*)area[0] == 0) sched_yield();
    while (ones < waiting) gasnet_AMPoll();
  }
  say("messages", (unsigned long)(count_of(1, "credit_messages") - before));
  meet();
}

/* Each rank is connected to the third one behind it. */
static void ask_one(void) {
  answers = 0;
  MUST(gex_AM_RequestShort0(tm, (me + 3) % nodes, on_asked, 0));
  GASNET_BLOCKUNTIL(answers == 1);
  meet();
}

static void sleeps(void) {
  const struct timespec second = {1, 0};
  double before;
  meet();
  if (me == 1) {
    nanosleep(&second, NULL);
    MUST(gex_AM_RequestShort0(tm, 0, on_go, 0));
  } else if (me == 0) {
    before = seconds(CLOCK_THREAD_CPUTIME_ID);
    GASNET_BLOCKUNTIL(gone);
    say("percent", (unsigned long)((seconds(CLOCK_THREAD_CPUTIME_ID) - before) * 100));
  }
  meet();
}

/* Rank 1 does not poll while rank 0 sends two requests, of which the second may have to wait. */
static void outstanding(void) {
  const struct timespec pause = {0, 1000000};
  const int done = 1;
  double begin;
  int sent = 0;
  if (me == 0) { /* connects */
    MUST(gex_AM_RequestShort0(tm, 1, on_asked, 0));
    GASNET_BLOCKUNTIL(answers == 1);
  }
  meet();
  if (me == 1) {
    while (!*(volatile int*)area[1]) nanosleep(&pause, NULL);
  } else if (me == 0) {
    MUST(gex_AM_RequestShort0(tm, 1, on_asked, 0));
    for (begin = seconds(CLOCK_MONOTONIC); !sent && seconds(CLOCK_MONOTONIC) - begin < 0.5;)
      if (gex_AM_RequestShort0(tm, 1, on_asked, GEX_FLAG_IMMEDIATE) == 0)
        sent = 1;
      else
        gasnet_AMPoll();
    say("waited", !sent);
    MUST(gex_RMA_PutBlocking(tm, 1, area[1], (void*)&done, sizeof done, 0));
    if (!sent) MUST(gex_AM_RequestShort0(tm, 1, on_asked, 0));
    GASNET_BLOCKUNTIL(answers == 3);
  }
  meet();
}

static void regions(void) {
  int i;
  char* block[blocks];
  for (i = 0; i < blocks; ++i) {
    block[i] = (char*)malloc(block_bytes);
    CHECK(block[i] != NULL);
    memset(block[i], i, block_bytes);
    MUST(gex_RMA_PutBlocking(tm, next_rank, area[next_rank], block[i], block_bytes, 0));
  }
  meet();
}

#if GASNET_PAR
static pthread_barrier_t all_there;
static void* poll_once(void* unused) {
  gasnet_AMPoll();
  pthread_barrier_wait(&all_there);
  return unused;
}
static void run_threads(unsigned n, void* (*what)(void*)) {
  pthread_t threads[64];
  int i;
  pthread_barrier_init(&all_there, NULL, n);
  for (i = 1; i < (int)n; ++i) pthread_create(&threads[i], NULL, what, (void*)(intptr_t)i);
  what(NULL);
  for (i = 1; i < (int)n; ++i) pthread_join(threads[i], NULL);
}
static void use_threads(unsigned n) {
  run_threads(n, &poll_once);
  say("threads", n);
}
static void all_at(void) { pthread_barrier_wait(&all_there); }
#else
static void run_threads(unsigned n, void* (*what)(void*)) {
  if (n == 1) what(NULL);
}
static void use_threads(unsigned n) { say("threads", n); }
static void all_at(void) {}
#endif

/* Each thread is connected, then rank 1 stops polling, then all send. */
static unsigned long sent_by[64];
static void* send_all(void* which) {
  const int thread = (int)(intptr_t)which;
  double last;
  int misses;
  MUST(gex_AM_RequestShort1(tm, 1, on_hello, 0, thread));
  GASNET_BLOCKUNTIL(__atomic_load_n(&welcomed[thread], __ATOMIC_ACQUIRE));
  all_at();
  if (thread == 0) {
    int silent = 0;
    meet();
    while (!silent) MUST(gex_RMA_GetBlocking(tm, &silent, 1, (int*)area[1] + 1, sizeof silent, 0));
  }
  all_at();
  /* A device's thread may have been descheduled with a lock that a send needs: misses in a row for
   * a third of a second are for want of room. */
  last = seconds(CLOCK_MONOTONIC);
  for (misses = 0; misses < 1000 || seconds(CLOCK_MONOTONIC) - last < 0.3;)
    if (gex_AM_RequestShort0(tm, 1, on_one, GEX_FLAG_IMMEDIATE) == 0) {
      ++sent_by[thread];
      misses = 0;
      last = seconds(CLOCK_MONOTONIC);
    } else {
      ++misses;
      gasnet_AMPoll();
    }
  return NULL;
}

static void send_to_silent(unsigned threads) {
  unsigned long sum = 0;
  unsigned i;
  int done = 1;
  volatile int* const told = (volatile int*)area[me];
  const struct timespec pause = {0, 1000000};
  if (me == 1) {
    meet();
    /* It gives back what it owes for requests without a reply before it falls silent: by queue
     * pairs the second look at idle credits does so, one look in 32 polls, and by rings the 32nd
     * poll. */
    for (i = 0; i < 1000; ++i) MUST(gasnet_AMPoll());
    told[1] = 1;
    while (!*told) nanosleep(&pause, NULL);
  } else {
    run_threads(threads, &send_all);
    for (i = 0; i < threads; ++i) sum += sent_by[i];
    say("sent", sum);
    MUST(gex_RMA_PutBlocking(tm, 1, area[1], &done, sizeof done, 0));
  }
  meet();
}

int main(int argc, char** argv) {
  const char* const what = argc > 1 ? argv[1] : "";
  uint64_t before;
  join_job("effects", 0);
  if (strcmp(what, "segment") == 0) {
    say("MiB", (unsigned long)(gasnet_getMaxLocalSegmentSize() >> 20));
    gasnet_exit(0);
  }
  MUST(gex_EP_RegisterHandlers(ep, handlers, sizeof handlers / sizeof *handlers));
  make_segments();
  if (strcmp(what, "connections") == 0) {
    say("connections", (unsigned long)counter("connections"));
  } else if (strcmp(what, "credits") == 0) {
    say("credits", (unsigned long)counter("credits"));
  } else if (strcmp(what, "owed") == 0) {
    owed();
  } else if (strcmp(what, "ask") == 0) {
    ask_one();
  } else if (strcmp(what, "huge") == 0) {
    say("huge", (unsigned long)may_be_huge(area[me]));
  } else if (strcmp(what, "polls") == 0) {
    polls();
  } else if (strcmp(what, "barriers") == 0) {
    meet();
    before = count_of(next_rank, "requests_sent.own");
    meet();
    say("messages", count_of(next_rank, "requests_sent.own") != before);
  } else if (strcmp(what, "outstanding") == 0) {
    outstanding();
  } else if (strcmp(what, "regions") == 0) {
    regions();
  } else if (strcmp(what, "sleep") == 0) {
    sleeps();
  } else if (strcmp(what, "threads") == 0 && argc > 2) {
    use_threads((unsigned)atoi(argv[2]));
  } else if (strcmp(what, "sent") == 0 && argc > 2) {
    send_to_silent((unsigned)atoi(argv[2]));
  }
  finish();
  return 0;
}
