/* Threads of a process make endpoints at the same time (GASNET_PAR): each gets one of its own, with
 * an index that no other has, until all are made; and what is there can be used meanwhile. */
#define _GNU_SOURCE
#define GASNETC_CONDUIT_AS_IBV 1 /* GASNET_MAXEPS says more than 1 then */
#include <gasnetex.h>
#include <pthread.h>

#include "ex_job.h"

enum { threads = 4, rounds = (GASNET_MAXEPS - 1) / threads };
static gex_EP_t made[threads][rounds];
static int failed[threads];
static pthread_barrier_t begin;

static void* work(void* number) {
  const int t = (int)(intptr_t)number;
  int i;
  for (i = 0; i < rounds; ++i) {
    /* The first of each thread may have messages, and is asked for while others are made. */
    const gex_EP_Capabilities_t may = i == 0 ? GEX_EP_CAPABILITY_ALL : GEX_EP_CAPABILITY_RMA;
    pthread_barrier_wait(&begin);
    if (gex_EP_Create(&made[t][i], client, may, 0) != GASNET_OK) ++failed[t];
    if (gex_EP_RegisterHandlers(made[t][0], NULL, 0) != GASNET_OK) ++failed[t];
  }
  return NULL;
}

int main(void) {
  char seen[GASNET_MAXEPS] = {1}; /* the first endpoint has index 0 */
  pthread_t others[threads];
  gex_EP_t none = GEX_EP_INVALID;
  int t, i;
  join_job("ex_endpoints_threads", 0);
  make_segments();
  CHECK(pthread_barrier_init(&begin, NULL, threads) == 0);
  for (t = 0; t < threads; ++t)
    CHECK(pthread_create(&others[t], NULL, &work, (void*)(intptr_t)t) == 0);
  for (t = 0; t < threads; ++t) CHECK(pthread_join(others[t], NULL) == 0);
  for (t = 0; t < threads; ++t) {
    CHECK(failed[t] == 0);
    for (i = 0; i < rounds; ++i) {
      const gex_EP_Index_t index = gex_EP_QueryIndex(made[t][i]);
      CHECK(index < GASNET_MAXEPS && !seen[index]);
      if (index < GASNET_MAXEPS) seen[index] = 1;
    }
  }
  for (i = 0; i <= threads * rounds; ++i) CHECK(seen[i]); /* without a gap */
  gex_System_SetVerboseErrors(0);
  if (threads * rounds == GASNET_MAXEPS - 1)
    CHECK(gex_EP_Create(&none, client, GEX_EP_CAPABILITY_RMA, 0) == GASNET_ERR_RESOURCE);
  gex_System_SetVerboseErrors(1);
  finish();
  return 0;
}
