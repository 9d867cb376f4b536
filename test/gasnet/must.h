/* Used by the programs of gasnet.h and of gasnetex.h: MUST ends the job with a line where a
 * call answers anything but GASNET_OK; meet is a barrier. Included after one of the two. */
#ifndef PENSTOCK_TEST_GASNET_MUST_H
#define PENSTOCK_TEST_GASNET_MUST_H

#include <stdlib.h>

#include "check.h"

#define MUST(call)                                                       \
  do {                                                                   \
    const int must_rc = (call);                                          \
    if (must_rc != GASNET_OK) {                                          \
      fprintf(stderr, "%s:%d: %s: %s (%s)\n", __FILE__, __LINE__, #call, \
              gasnet_ErrorName(must_rc), gasnet_ErrorDesc(must_rc));     \
      gasnet_exit(2);                                                    \
    }                                                                    \
  } while (0)

static void meet(void) {
  gasnet_barrier_notify(0, GASNET_BARRIERFLAG_ANONYMOUS);
  MUST(gasnet_barrier_wait(0, GASNET_BARRIERFLAG_ANONYMOUS));
}

/* Whether some message of this run goes by queue pairs, as the tests' settings have it. There a
 * Medium that finds no space at its target, or its lane not ready, goes by rendezvous. */
static inline int by_queue_pairs(void) {
  const char* const direct = getenv("PENSTOCK_DIRECT");
  return (direct != NULL && *direct == '0') || getenv("PENSTOCK_SUPERNODE_MAXSIZE") != NULL;
}

#endif
