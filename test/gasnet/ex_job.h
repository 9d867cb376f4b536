/* Shared by the programs of gasnetex.h: start, handlers, the segments, the end. Included after
 * gasnetex.h by programs in C99 and later and in C++, in every mode. */
#ifndef PENSTOCK_TEST_GASNET_EX_JOB_H
#define PENSTOCK_TEST_GASNET_EX_JOB_H

#include <stdlib.h>
#include <string.h>
#if GASNET_SEGMENT_EVERYTHING
#include <gasnet_coll.h>
#endif

#include "must.h"

#define HANDLER(f) (gex_AM_Fn_t)(f)

enum { most_nodes = 64, segment_bytes = 1 << 20 };
static gex_Client_t client;
static gex_EP_t ep;
static gex_TM_t tm;
static gex_Segment_t segment;
static gex_Rank_t me, nodes, next_rank;
static char* area[most_nodes]; /* of each rank, in its own address space */

/* Handlers change it on whichever thread polls; waits read it. */
static volatile int answers = 0;

GASNETT_INLINE(join_job) void join_job(const char* name, gex_Flags_t flags) {
  MUST(gex_Client_Init(&client, &ep, &tm, name, NULL, NULL, flags));
  me = gex_System_QueryJobRank();
  nodes = gex_System_QueryJobSize();
  next_rank = (me + 1) % nodes;
}

/* Where every rank's memory is that others write to. */
GASNETT_INLINE(know_areas) void know_areas(void) {
  gex_Rank_t r;
  for (r = 0; r < nodes; ++r) {
    void* at = NULL;
    uintptr_t size = 0;
    gex_Event_Wait(gex_EP_QueryBoundSegmentNB(tm, r, &at, NULL, &size, 0));
    CHECK(at != NULL && size >= (uintptr_t)segment_bytes);
    area[r] = (char*)at;
  }
  meet();
}

GASNETT_INLINE(make_segments) void make_segments(void) {
  MUST(gex_Segment_Attach(&segment, tm, segment_bytes));
#if GASNET_SEGMENT_EVERYTHING
  { /* a piece of each rank's heap, whose address the ranks tell each other */
    gex_Rank_t r;
    CHECK(segment == GEX_SEGMENT_INVALID);
    area[me] = (char*)calloc(1, segment_bytes);
    for (r = 0; r < nodes; ++r)
      gex_Event_Wait(gex_Coll_BroadcastNB(tm, r, &area[r], &area[r], sizeof area[r], 0));
    meet();
  }
#else
  know_areas();
#endif
}

/* Ends the job with 0 if every check of every rank held. Where ranks call gasnet_exit with
 * different codes the job has one of these, so a rank whose check failed leaves before the others
 * may. */
GASNETT_INLINE(finish) void finish(void) {
  if (check_result() != 0) gasnet_exit(check_result());
  meet();
  if (check_result() == 0 && me == 0) printf("%d checks on rank 0\n", check_count);
  gasnet_exit(check_result());
}

#endif
