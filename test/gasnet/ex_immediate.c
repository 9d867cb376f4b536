/* GEX_FLAG_IMMEDIATE on puts, gets and atomics while the other process is stopped: every call comes
 * back, started or not. Atomics by message find no room sooner or later, and report it. When the
 * other process goes on, those that were started are done, once each, and the rest can be started.
 * Then the same with many pieces. Where the other's memory is mapped, all are done at once. */
#define _GNU_SOURCE
#include <gasnet_coll.h>
#include <gasnet_ratomic.h>
#include <gasnet_vis.h>
#include <signal.h>
#include <stdio.h>
#include <sys/types.h>
#include <unistd.h>

#include "ex_job.h"

enum { most = 100000, words = 64, forms = 5 };
static uint64_t mine[words], got[words];
static gex_AD_t ad;

static int is_stopped(long pid) {
  char name[64], line[512];
  const char* state = NULL;
  FILE* f;
  sprintf(name, "/proc/%ld/stat", pid);
  f = fopen(name, "r");
  if (f == NULL) return 0;
  if (fgets(line, sizeof line, f) != NULL) state = strrchr(line, ')');
  fclose(f);
  return state != NULL && state[2] == 'T';
}

/* Not 0 if it was started; then it is complete, too. */
static int one(int form, char* there) {
  gex_Event_t e = GEX_EVENT_INVALID;
  switch (form) {
    case 0:
      return gex_RMA_PutBlocking(tm, 1, there, mine, sizeof mine, GEX_FLAG_IMMEDIATE) == 0;
    case 1:
      e = gex_RMA_PutNB(tm, 1, there, mine, 8, GEX_EVENT_NOW, GEX_FLAG_IMMEDIATE);
      break;
    case 2:
      if (gex_RMA_PutNBI(tm, 1, there, mine, 8, GEX_EVENT_DEFER, GEX_FLAG_IMMEDIATE) != 0) return 0;
      gex_NBI_Wait(GEX_EC_PUT, 0);
      return 1;
    case 3:
      return gex_RMA_GetBlocking(tm, got, 1, there, 8, GEX_FLAG_IMMEDIATE) == 0;
    default:
      e = gex_RMA_GetNB(tm, got, 1, there, sizeof got, GEX_FLAG_IMMEDIATE);
      break;
  }
  if (e == GEX_EVENT_NO_OP) return 0;
  gex_Event_Wait(e);
  return 1;
}

static void many_pieces(char* there) {
  const ptrdiff_t stride[1] = {64};
  const size_t count[1] = {8};
  gex_Memvec_t from, to;
  gex_Event_t e;
  from.gex_addr = there, from.gex_len = sizeof got;
  to.gex_addr = got, to.gex_len = sizeof got;
  while ((e = gex_VIS_StridedPutNB(tm, 1, there, stride, mine, stride, 8, count, 1,
                                   GEX_FLAG_IMMEDIATE)) == GEX_EVENT_NO_OP)
    gasnet_AMPoll();
  gex_Event_Wait(e);
  while (gex_VIS_VectorGetBlocking(tm, 1, &to, 1, 1, &from, GEX_FLAG_IMMEDIATE) != 0)
    gasnet_AMPoll();
  CHECK(memcmp(mine, got, sizeof got) == 0);
}

int main(void) {
  int64_t pid = 0;
  uint64_t started = 0, refused = 0, sum = 0;
  void* mapped = NULL;
  char *there, *word;
  int i;
  join_job("immediate", 0);
  make_segments();
  there = area[1];
  word = there + 1024;
  /* No device multiplies: where nothing is mapped they go by message. */
  gex_AD_Create(&ad, tm, GEX_DT_U64, GEX_OP_ADD | GEX_OP_MULT | GEX_OP_GET, 0);
  for (i = 0; i < words; ++i) mine[i] = 1000u + (unsigned)i;
  memset(area[me], 0, 4096);
  pid = getpid();
  gex_Event_Wait(gex_Coll_BroadcastNB(tm, 1, &pid, &pid, sizeof pid, 0));
  gex_Event_Wait(gex_EP_QueryBoundSegmentNB(tm, 1, NULL, &mapped, NULL, 0));
  meet();
  if (me == 0) {
    CHECK(kill((pid_t)pid, SIGSTOP) == 0);
    while (!is_stopped((long)pid)) usleep(1000);
    for (i = 0; i < forms; ++i) CHECK(one(i, there) || mapped == NULL);
    for (i = 0; i < most && refused == 0; ++i) {
      if (gex_AD_OpNBI_U64(ad, NULL, 1, word, GEX_OP_ADD, 1, 0, GEX_FLAG_IMMEDIATE) == 0)
        ++started;
      else
        ++refused;
    }
    CHECK(refused == (mapped == NULL));
    CHECK(kill((pid_t)pid, SIGCONT) == 0);
    gex_NBI_Wait(GEX_EC_RMW, 0);
    while (gex_AD_OpNBI_U64(ad, NULL, 1, word, GEX_OP_ADD, 1, 0, GEX_FLAG_IMMEDIATE) != 0)
      gasnet_AMPoll();
    gex_NBI_Wait(GEX_EC_RMW, 0);
    gex_Event_Wait(gex_AD_OpNB_U64(ad, &sum, 1, word, GEX_OP_GET, 0, 0, 0));
    CHECK(sum == started + 1);
    for (i = 0; i < forms; ++i)
      while (!one(i, there)) gasnet_AMPoll();
    CHECK(memcmp(mine, got, sizeof got) == 0);
    many_pieces(there);
  }
  meet();
  if (me == 1) CHECK(memcmp(area[1], mine, sizeof mine) == 0);
  finish();
  return 1;
}
