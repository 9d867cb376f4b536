/* The cost of empty polls to other processes, and that polls find messages. Three cases, by the
 * first argument: quiet: where processes fit the cores, 100,000 empty polls make no system call;
 * found: a message of any node is found within a few polls, however many nodes are connected; ring:
 * where processes outnumber the cores, loops of polls give them to each other. */
#define _GNU_SOURCE
#include <gasnet.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "job.h"

#define FAIL(what)                                           \
  do {                                                       \
    fprintf(stderr, "node %u: " what "\n", gasnet_mynode()); \
    gasnet_exit(1);                                          \
  } while (0)

enum { on_ping = 200, on_pong, on_token };

/* ---- system calls of this thread: by the kernel's word, where it gives it, and all yields ---- */

/* The library's own threads may yield, too. */
static __thread volatile long calls = 0, yields = 0;

int sched_yield(void) {
  ++yields;
  return (int)syscall(SYS_sched_yield);
}

#ifdef PR_SET_SYSCALL_USER_DISPATCH
static volatile char selector = SYSCALL_DISPATCH_FILTER_ALLOW;

static void on_call(int signal_number) {
  (void)signal_number;
  ++calls;
  selector = SYSCALL_DISPATCH_FILTER_ALLOW; /* the first is enough to know */
}

static int begin_counting(void) {
  struct sigaction a;
  memset(&a, 0, sizeof a);
  a.sa_handler = on_call;
  if (sigaction(SIGSYS, &a, NULL) != 0 ||
      prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, 0UL, 0UL, &selector) != 0)
    return 0;
  selector = SYSCALL_DISPATCH_FILTER_BLOCK;
  return 1;
}
static void end_counting(void) { selector = SYSCALL_DISPATCH_FILTER_ALLOW; }
#else
static int begin_counting(void) { return 0; }
static void end_counting(void) {}
#endif

static void quiet(void) {
  long i;
  int counted;
  for (i = 0; i < 20000; ++i) MUST(gasnet_AMPoll());
  meet();
  for (i = 0; i < 100; ++i) MUST(gasnet_AMPoll()); /* what the barrier has left */
  yields = 0;
  counted = begin_counting();
  for (i = 0; i < 100000; ++i) MUST(gasnet_AMPoll());
  end_counting();
  printf("node %u: %ld yields, %s\n", (unsigned)gasnet_mynode(), yields,
         counted ? "and system calls were counted" : "system calls are not counted here");
  if (sysconf(_SC_NPROCESSORS_ONLN) < (long)gasnet_nodes()) return;
  CHECK(yields == 0);
  if (calls != 0 || yields != 0) FAIL("empty polls made system calls");
  if (counted) { /* they would have been noticed */
    (void)begin_counting();
    (void)syscall(SYS_getppid);
    end_counting();
    if (calls == 0) FAIL("a system call was not counted");
  }
}

/* ---- found ---- */

static volatile unsigned pings = 0;

static void ping(gasnet_token_t token) {
  ++pings;
  MUST(gasnet_AMReplyShort0(token, on_pong));
}
static void pong(gasnet_token_t token) {
  (void)token;
  ++answers;
}

/* Node 0 knows from its segment who has sent, and polls only then. */
static void found(void) {
  gasnet_seginfo_t segments[most_nodes];
  const unsigned others = gasnet_nodes() - 1;
  volatile unsigned* sent;
  unsigned round, r;
  MUST(gasnet_getSegmentInfo(segments, (int)gasnet_nodes()));
  sent = (volatile unsigned*)segments[0].addr;
  /* Connections are made in polls of node 0. */
  if (gasnet_mynode() != 0) MUST(gasnet_AMRequestShort0(0, on_ping));
  GASNET_BLOCKUNTIL(gasnet_mynode() == 0 ? pings == others : answers == 1);
  meet();
  for (round = 2; round <= 40; ++round) {
    if (gasnet_mynode() != 0) {
      MUST(gasnet_AMRequestShort0(0, on_ping));
      gasnet_put_val(0, (void*)&sent[gasnet_mynode()], round, sizeof *sent);
      GASNET_BLOCKUNTIL(answers == (int)round);
    } else {
      unsigned polls = 0;
      for (r = 1; r <= others; ++r)
        while (sent[r] != round) sched_yield();
      while (pings < round * others) {
        MUST(gasnet_AMPoll());
        if (++polls > 4 * others + 8) FAIL("a message was not found by many polls");
      }
    }
    meet();
    CHECK(gasnet_mynode() != 0 || pings >= round * others);
  }
}

/* ---- ring ---- */

static volatile int token_here = 0;

static void got_token(gasnet_token_t token) {
  (void)token;
  ++token_here;
}

static void ring(void) {
  const gasnet_node_t next = (gasnet_node_t)((gasnet_mynode() + 1) % gasnet_nodes());
  int round;
  yields = 0;
  for (round = 1; round <= 200; ++round) {
    if (gasnet_mynode() == 0) MUST(gasnet_AMRequestShort0(next, on_token));
    while (token_here != round) MUST(gasnet_AMPoll());
    if (gasnet_mynode() != 0) MUST(gasnet_AMRequestShort0(next, on_token));
  }
  printf("node %u: %ld yields\n", (unsigned)gasnet_mynode(), yields);
  if (sysconf(_SC_NPROCESSORS_ONLN) < (long)gasnet_nodes() && yields == 0)
    FAIL("loops of polls kept the core");
  CHECK(token_here == 200);
}

int main(int argc, char** argv) {
  gasnet_handlerentry_t table[] = {
      {on_ping, HANDLER(ping)}, {on_pong, HANDLER(pong)}, {on_token, HANDLER(got_token)}};
  const char* way = argc > 1 ? argv[1] : "";
  MUST(gasnet_init(&argc, &argv));
  MUST(gasnet_attach(table, 3, GASNET_PAGESIZE, 0));
  if (strcmp(way, "quiet") == 0)
    quiet();
  else if (strcmp(way, "found") == 0)
    found();
  else
    ring();
  finish();
}
