/* With the progress thread collectives go on while the program makes no call: their results come
 * though nobody polls. The sizes are those of one message, of an offer, and of pieces. */
#define _GNU_SOURCE
#include <gasnet_coll.h>
#include <gasnetex.h>
#include <time.h>

#include "ex_job.h"

enum { most = 1 << 17, rounds = 3 };
static uint64_t in[most], out[most];

static void start(int what, size_t count, gex_Event_t* ev) {
  if (what == 0)
    *ev = gex_Coll_ReduceToAllNB(tm, out, in, GEX_DT_U64, 8, count, GEX_OP_ADD, NULL, NULL, 0);
  else
    *ev = gex_Coll_BroadcastNB(tm, nodes - 1, out, in, count * 8, 0);
}

/* Waits without a call of the library's for the last word that a rank gets. */
static void watch(size_t count, uint64_t wanted) {
  const struct timespec nap = {0, 1000000};
  const volatile uint64_t* const last = &out[count - 1];
  const time_t until = time(NULL) + 60;
  while (*last != wanted && time(NULL) < until) nanosleep(&nap, NULL);
  CHECK(*last == wanted);
}

int main(void) {
  static const size_t counts[] = {64, 2000, most};
  int what, round;
  unsigned s;
  join_job("progress", 0);
  make_segments();
  for (what = 0; what < 2; ++what)
    for (s = 0; s < 3; ++s)
      for (round = 0; round < rounds; ++round) {
        const size_t n = counts[s];
        const uint64_t base = (uint64_t)(1000 * round + 1);
        gex_Event_t ev;
        size_t i;
        for (i = 0; i < n; ++i) in[i] = base + i + me, out[i] = 0;
        meet();
        start(what, n, &ev);
        watch(n, what == 0 ? nodes * (base + n - 1) + (uint64_t)nodes * (nodes - 1) / 2
                           : base + n - 1 + nodes - 1);
        gex_Event_Wait(ev);
        for (i = 0; i < n; ++i)
          CHECK(out[i] == (what == 0 ? nodes * (base + i) + (uint64_t)nodes * (nodes - 1) / 2
                                     : base + i + nodes - 1));
      }
  finish();
  return 1;
}
