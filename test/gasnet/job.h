/* Shared by the programs of gasnet.h: start, the memory each node offers, the end. Included after
 * gasnet.h by programs in C99 and C++, in every mode, with and without GASNET_SEGMENT_EVERYTHING.
 */
#ifndef PENSTOCK_TEST_GASNET_JOB_H
#define PENSTOCK_TEST_GASNET_JOB_H

#include <stdlib.h>

#include "must.h"

#if GASNET_USE_STRICT_PROTOTYPES
#define HANDLER(f) (void*)(f)
#else
#define HANDLER(f) (void (*)())(f)
#endif

/* Handlers change these on whichever thread polls; waits read them. */
static volatile int answers = 0;

/* ---- the memory of every node that the others write to: its segment, or, where there is none, a
 * piece of its heap whose address the nodes tell each other ---- */
enum { area_bytes = 1 << 20, most_nodes = 64, area_index = 250 };
static char* area[most_nodes];

GASNETT_INLINE(on_area)
void on_area(gasnet_token_t token, gasnet_handlerarg_t high, gasnet_handlerarg_t low) {
  gasnet_node_t from;
  CHECK(gasnet_AMGetMsgSource(token, &from) == GASNET_OK);
  area[from] = (char*)(uintptr_t)((uint64_t)(uint32_t)high << 32 | (uint32_t)low);
}
#define AREA_HANDLER \
  { area_index, HANDLER(&on_area) }

GASNETT_INLINE(all_areas_known) int all_areas_known(void) {
  gasnet_node_t n;
  for (n = 0; n < gasnet_nodes(); ++n)
    if (((char* volatile*)area)[n] == NULL) return 0;
  return 1;
}

GASNETT_INLINE(share_areas) void share_areas(void) {
#if GASNET_SEGMENT_EVERYTHING
  gasnet_node_t n;
  char* const mine = (char*)calloc(1, area_bytes);
  for (n = 0; n < gasnet_nodes(); ++n)
    MUST(gasnet_AMRequestShort2(n, area_index,
                                (gasnet_handlerarg_t)((uint64_t)(uintptr_t)mine >> 32),
                                (gasnet_handlerarg_t)(uintptr_t)mine));
#else
  gasnet_seginfo_t info[most_nodes];
  gasnet_node_t n;
  MUST(gasnet_getSegmentInfo(info, most_nodes));
  for (n = 0; n < gasnet_nodes(); ++n) {
    CHECK(info[n].addr != NULL && info[n].size >= (uintptr_t)area_bytes);
    CHECK((uintptr_t)info[n].addr % GASNET_PAGESIZE == 0 && info[n].size % GASNET_PAGESIZE == 0);
    area[n] = (char*)info[n].addr;
  }
#endif
  GASNET_BLOCKUNTIL(all_areas_known());
  meet();
}

/* Ends the job with 0 if every check of every node held. Where nodes call gasnet_exit with
 * different codes the job has one of these, so a node whose check failed leaves before the others
 * may. */
GASNETT_INLINE(finish) void finish(void) {
  if (check_result() != 0) gasnet_exit(check_result());
  meet();
  if (check_result() == 0 && gasnet_mynode() == 0) printf("%d checks on node 0\n", check_count);
  gasnet_exit(check_result());
}

#endif
