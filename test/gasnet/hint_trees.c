/* Collectives name their peers beforehand: with the fewest credits at start, the messages of later
 * rounds wait for no loan. Four nodes; all memory lies outside the segments.
 *   tree   node 1 passes a broadcast of node 0 on to node 3; its loan is there before node 0 calls
 *   offer  node 2 sends node 3 the bytes of an offer in three Mediums; its loan is there before
 *          node 3 calls, and asks for them */
#define _GNU_SOURCE
#include <gasnet.h>
#include <gasnet_coll.h>
#include <penstock/counters.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "must.h"

enum { on_ready = 200 };
enum { medium_credits = 16, pieces = 3, eager = 3840, offered = pieces * 4032 };
static volatile int ready = 0;
static void be_ready(gasnet_token_t token) {
  (void)token;
  ++ready;
}

/* The counter of that name for node n. */
static uint64_t of(gasnet_node_t n, const char* name) {
  struct penstock_counters* const c = penstock_counters_take(0);
  uint64_t value = 0;
  unsigned i;
  for (i = 0; i < penstock_counters_peers(c); ++i)
    if (penstock_counters_rank(c, i) == n)
      CHECK(penstock_counters_get_peer(c, i, name, &value) == 0);
  penstock_counters_free(c);
  return value;
}

/* A broadcast of node `root` in which node `first` passes bytes to node `to`. Node `last` calls
 * when `first` has its credits; until then nothing can go from one to the other. */
static void broadcast(gasnet_node_t root, gasnet_node_t first, gasnet_node_t to, gasnet_node_t last,
                      size_t bytes, uint64_t credits) {
  const int flags = GASNET_COLL_LOCAL | GASNET_COLL_IN_NOSYNC | GASNET_COLL_OUT_NOSYNC;
  const gasnet_node_t me = gasnet_mynode();
  char* const from = malloc(bytes);
  char* const at = malloc(bytes);
  gasnet_coll_handle_t h;
  size_t i;
  uint64_t stalls = 0, by_rendezvous = 0;
  CHECK(from != NULL && at != NULL);
  for (i = 0; i < bytes; ++i) from[i] = (char)(i % 251);
  memset(at, 0, bytes);
  ready = 0;
  meet();
  if (me == first) CHECK(of(to, "holds") < credits);
  if (me == last) GASNET_BLOCKUNTIL(ready == 1);
  h = gasnet_coll_broadcast_nb(GASNET_TEAM_ALL, at, root, from, bytes, flags);
  if (me == first) {
    while (of(to, "holds") < credits) {
      MUST(gasnet_AMPoll());
      sched_yield();
    }
    stalls = of(to, "stalls");
    by_rendezvous = of(to, "rendezvous");
    MUST(gasnet_AMRequestShort0(last, on_ready));
  }
  gasnet_coll_wait_sync(h);
  meet(); /* the bytes have been sent: who got them has come */
  CHECK(memcmp(at, from, bytes) == 0);
  if (me == first) CHECK(of(to, "stalls") == stalls);
  if (me == first && !by_queue_pairs()) CHECK(of(to, "rendezvous") == by_rendezvous);
  free(from), free(at);
}

/* A node whose check failed leaves first, before others may leave with 0. */
static void leave_if_failed(void) {
  if (check_result() != 0) gasnet_exit(check_result());
}

int main(int argc, char** argv) {
  static gasnet_handlerentry_t table[] = {{on_ready, (void (*)())be_ready}};
  MUST(gasnet_init(&argc, &argv));
  MUST(gasnet_attach(table, 1, GASNET_PAGESIZE, 0));
  gasnet_coll_init(NULL, 0, NULL, 0, 0);
  if (gasnet_nodes() != 4) gasnet_exit(4);
  broadcast(0, 1, 3, 0, eager, medium_credits);
  leave_if_failed();
  /* The offer and the call to node 3 take credits, too. */
  broadcast(2, 2, 3, 3, offered, (pieces + 1) * medium_credits);
  leave_if_failed();
  meet();
  gasnet_exit(0);
  return 0;
}
