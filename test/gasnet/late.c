/* An exit handler that was registered before gasnet_init runs after this process has left its job.
 * What it calls cannot work any more: a wait ends the process with a line and a code, and so does a
 * loop of polls. Other mistakes, too, get a line that says what is wrong, with numbers; and a wait
 * for a collective is called so. */
#include <gasnet.h>
#include <gasnetex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char* what;

/* One node alone: both could still pass a barrier, if the second notifies it before the first
 * begins to wait. */
static void late(void) {
  if (strcmp(what, "barrier") == 0 && gasnet_mynode() == 0) {
    gasnet_barrier_notify(0, GASNET_BARRIERFLAG_ANONYMOUS);
    gasnet_barrier_wait(0, GASNET_BARRIERFLAG_ANONYMOUS);
  }
  if (strcmp(what, "poll") == 0) gasnet_AMPoll();
  while (strcmp(what, "polls") == 0) gasnet_AMPoll();
}

static void handler(gasnet_token_t t, void* p, size_t n) { (void)t, (void)p, (void)n; }

/* A Long that ends behind the segment of the other node. */
static int outside(void) {
  static char bytes[16];
  gasnet_seginfo_t seg[2];
  const gasnet_node_t to = 1 - gasnet_mynode();
  gasnet_getSegmentInfo(seg, 2);
  return gasnet_AMRequestLong0(to, 200, bytes, 16, (char*)seg[to].addr + seg[to].size - 8) !=
         GASNET_ERR_BAD_ARG;
}

/* An event of a collective that another node begins four seconds later. */
static int collective(void) {
  static char bytes[8192];
  gex_TM_t team;
  gex_Client_t client;
  gex_EP_t ep;
  gex_Segment_t segment;
  gasnet_QueryGexObjects(&client, &ep, &team, &segment);
  if (gasnet_mynode() == 1) sleep(4);
  gex_Event_Wait(gex_Coll_BroadcastNB(team, 1, bytes, bytes, sizeof bytes, 0));
  return 0;
}

int main(int argc, char** argv) {
  what = argc > 1 ? argv[1] : "none";
  atexit(late);
  gasnet_handlerentry_t table[] = {{200, (void (*)())handler}};
  if (strcmp(what, "early") == 0) {
    for (int i = 0; i < 1000; ++i)
      if (gasnet_AMPoll() != GASNET_ERR_NOT_INIT) return 3;
    return 0;
  }
  if (gasnet_init(&argc, &argv) != GASNET_OK ||
      gasnet_attach(table, 1, GASNET_PAGESIZE, 0) != GASNET_OK)
    return 2;
  if (strcmp(what, "init") == 0) return gasnet_init(&argc, &argv) == GASNET_ERR_NOT_INIT ? 0 : 3;
  if (strcmp(what, "attach") == 0)
    return gasnet_attach(NULL, 0, GASNET_PAGESIZE, 0) == GASNET_ERR_NOT_INIT ? 0 : 3;
  if (strcmp(what, "outside") == 0) return outside();
  if (strcmp(what, "collective") == 0) return collective();
  return 0;
}
