/* Where processes outnumber cores, a blocking put or get whose completion is there keeps its core:
 * on a busy host each yield costs the time slices of all others. The program counts the library's
 * yields; it runs with more processes than there are cores. */
#define _GNU_SOURCE
#include <gasnet_coll.h>
#include <gasnetex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ex_job.h"

static long yields = 0; /* of all threads; a lost count does not matter */
int sched_yield(void) {
  __atomic_fetch_add(&yields, 1, __ATOMIC_RELAXED);
  return (int)syscall(SYS_sched_yield);
}

enum { rounds = 300 };
/* One operation of each kind, and its wait. */
static void once(int kind, char* there, uint64_t* word) {
  gex_Event_t ev[2];
  switch (kind) {
    case 0:
      CHECK(gex_RMA_GetBlocking(tm, word, next_rank, there, 8, 0) == 0);
      break;
    case 1:
      CHECK(gex_RMA_PutBlocking(tm, next_rank, there, word, 8, 0) == 0);
      break;
    case 2:
      gex_Event_Wait(gex_RMA_GetNB(tm, word, next_rank, there, 8, 0));
      break;
    case 3:
      CHECK(gex_RMA_GetNBI(tm, word, next_rank, there, 8, 0) == 0);
      gex_NBI_Wait(GEX_EC_GET, 0);
      break;
    default:
      ev[0] = gex_RMA_GetNB(tm, word, next_rank, there, 8, 0);
      ev[1] = gex_RMA_PutNB(tm, next_rank, there + 8, &word[1], 8, GEX_EVENT_NOW, 0);
      gex_Event_WaitAll(ev, 2, 0);
  }
}

int main(void) {
  uint64_t word[2] = {1, 2};
  int kind, i;
  join_job("core", 0);
  make_segments();
  for (kind = 0; kind < 5; ++kind) {
    long before;
    once(kind, area[next_rank], word); /* makes the connection */
    meet();
    before = __atomic_load_n(&yields, __ATOMIC_RELAXED);
    for (i = 0; i < rounds; ++i) once(kind, area[next_rank], word);
    /* A few, where a poll is due meanwhile. */
    CHECK(__atomic_load_n(&yields, __ATOMIC_RELAXED) - before < rounds / 4);
    meet();
  }
  finish();
  return 1;
}
