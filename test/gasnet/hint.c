/* gasnet_penstock_expect: with the fewest credits at start, node 1 names node 0 beforehand and its
 * first burst waits for nothing; node 2 does not, and its burst goes by rendezvous. Then each node
 * asks itself, by SIGUSR2, for the statistics of credits, which are written while the job runs.
 * hint PREFIX with PENSTOCK_CREDIT_STATS=PREFIX */
#define _GNU_SOURCE
#include <gasnet_penstock.h>
#include <penstock/counters.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "must.h"

enum { on_hello = 200, on_bytes };
enum { burst = 5, bytes = 4032, message_credits = 16 }; /* the largest that pays for its bytes */
static volatile int met = 0, arrived = 0, refused = 0;

static void hello(gasnet_token_t token) {
  (void)token;
  if (gasnet_penstock_expect(0, 1, 0) == GASNET_ERR_BAD_ARG) ++refused;
  ++met;
}
static void take(gasnet_token_t token, void* payload, size_t n) {
  (void)token, (void)payload;
  if (n == bytes) ++arrived;
}

/* The counter of that name for node 0. */
static uint64_t of_first(const char* name) {
  struct penstock_counters* const c = penstock_counters_take(0);
  uint64_t value = 0;
  CHECK(penstock_counters_rank(c, 0) == 0);
  CHECK(penstock_counters_get_peer(c, 0, name, &value) == 0);
  penstock_counters_free(c);
  return value;
}

/* Whether the file of this node is there; it is moved aside, so that only this moment's is kept. */
static int written(const char* prefix) {
  char from[512], to[520];
  snprintf(from, sizeof from, "%s.%u", prefix, (unsigned)gasnet_mynode());
  snprintf(to, sizeof to, "%s.then", from);
  return rename(from, to) == 0;
}

int main(int argc, char** argv) {
  static gasnet_handlerentry_t table[] = {{on_hello, (void (*)())hello},
                                          {on_bytes, (void (*)())take}};
  static char payload[bytes];
  uint64_t stalls, offered;
  int i;
  CHECK(gasnet_penstock_expect(0, 1, 0) == GASNET_ERR_NOT_INIT);
  MUST(gasnet_init(&argc, &argv));
  CHECK(gasnet_penstock_expect(0, 1, 0) == GASNET_ERR_NOT_INIT);
  MUST(gasnet_attach(table, 2, GASNET_PAGESIZE, 0));
  if (gasnet_nodes() != 3 || argc != 2) gasnet_exit(4);
  CHECK(gasnet_penstock_expect(3, 1, 0) == GASNET_ERR_BAD_ARG);
  CHECK(gasnet_penstock_expect(0, 1, gasnet_AMMaxMedium() + 1) == GASNET_ERR_BAD_ARG);
  CHECK(gasnet_penstock_expect(gasnet_mynode(), 1, bytes) == GASNET_OK);
  MUST(gasnet_AMRequestShort0(0, on_hello));
  if (gasnet_mynode() == 0) GASNET_BLOCKUNTIL(met == 3 && refused == 3);
  meet();

  if (gasnet_mynode() == 1) {
    /* It names one message more than is sent: the barrier's own may still be on its way. */
    MUST(gasnet_penstock_expect(0, burst + 1, bytes));
    while (of_first("holds") < (burst + 1) * message_credits) {
      MUST(gasnet_AMPoll());
      sched_yield();
    }
  }
  if (gasnet_mynode() == 0) {
    GASNET_BLOCKUNTIL(arrived == 2 * burst);
  } else {
    stalls = of_first("stalls");
    offered = of_first("rendezvous");
    for (i = 0; i < burst; ++i) MUST(gasnet_AMRequestMedium0(0, on_bytes, payload, bytes));
    /* By queue pairs the burst is more than there is space for before the target has polled. */
    CHECK((of_first("rendezvous") == offered) == (gasnet_mynode() == 1) || by_queue_pairs());
    CHECK(of_first("stalls") == stalls || gasnet_mynode() != 1);
  }
  meet();

  CHECK(!written(argv[1]));
  kill(getpid(), SIGUSR2);
  while (!written(argv[1])) {
    MUST(gasnet_AMPoll());
    sched_yield();
  }
  if (check_result() != 0) gasnet_exit(check_result()); /* before the others may leave with 0 */
  meet();
  gasnet_exit(check_result());
  return 0;
}
