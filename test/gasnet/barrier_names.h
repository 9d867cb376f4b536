/* Barriers: split-phase, named, anonymous and mixed; every way to a mismatch; progress of others
 * while a node that has notified waits for something else; many in a row. */
#include "job.h"

enum { token_index = 128 };
static void on_token(gasnet_token_t token) {
  (void)token;
  answers = answers + 1;
}

static int passes(int id, int notify_flags, int wait_id, int wait_flags) {
  gasnet_barrier_notify(id, notify_flags);
  return gasnet_barrier_wait(wait_id, wait_flags);
}

static void agreeing(void) {
  const int anonymous = GASNET_BARRIERFLAG_ANONYMOUS;
  int i, id = 0, rc;
  for (i = -3; i < 4; ++i) {
    CHECK(passes(i, 0, i, 0) == GASNET_OK);
    CHECK(gasnet_barrier_result(&id) == 0 && id == i);
  }
  CHECK(passes(1 << 30, 0, 1 << 30, 0) == GASNET_OK);
  CHECK(passes((int)gasnet_mynode(), anonymous, 99, anonymous) == GASNET_OK); /* ids are ignored */
  CHECK(gasnet_barrier_result(&id) != 0);
  CHECK(passes(0, GASNET_BARRIERFLAG_UNNAMED, 0, GASNET_BARRIERFLAG_UNNAMED) == GASNET_OK);
  CHECK(gasnet_barrier(5, 0) == GASNET_OK && gasnet_barrier(0, anonymous) == GASNET_OK);
  /* some named, the others not: the name counts */
  CHECK(passes(8, gasnet_mynode() % 2 ? anonymous : 0, 8, gasnet_mynode() % 2 ? anonymous : 0) ==
        GASNET_OK);
  CHECK(gasnet_barrier_result(&id) == 0 && id == 8);
  /* split-phase with try */
  for (i = 0; i < 100; ++i) {
    gasnet_barrier_notify(i, 0);
    while ((rc = gasnet_barrier_try(i, 0)) == GASNET_ERR_NOT_READY) gasnet_AMPoll();
    CHECK(rc == GASNET_OK);
  }
  CHECK((GASNET_BARRIERFLAG_IMAGES &
         (GASNET_BARRIERFLAG_ANONYMOUS | GASNET_BARRIERFLAG_MISMATCH)) == 0);
}

static void differing(void) {
  gasnet_node_t n;
  if (gasnet_nodes() > 1) {
    CHECK(passes((int)gasnet_mynode(), 0, (int)gasnet_mynode(), 0) == GASNET_ERR_BARRIER_MISMATCH);
    for (n = 0; n < gasnet_nodes(); ++n) { /* one alone, whichever */
      const int id = gasnet_mynode() == n ? 1 : 2;
      CHECK(passes(id, 0, id, 0) == GASNET_ERR_BARRIER_MISMATCH);
      meet();
    }
  }
  for (n = 0; n < gasnet_nodes(); ++n) { /* one asks for a mismatch, all get it */
    const int flags = gasnet_mynode() == n ? GASNET_BARRIERFLAG_MISMATCH : 0;
    CHECK(passes(3, flags, 3, 0) == GASNET_ERR_BARRIER_MISMATCH);
  }
  /* another name at the wait than at the notify is this node's own mismatch */
  CHECK(passes(4, 0, gasnet_mynode() == 0 ? 5 : 4, 0) ==
        (gasnet_mynode() == 0 ? GASNET_ERR_BARRIER_MISMATCH : GASNET_OK));
  CHECK(passes(6, 0, 6, 0) == GASNET_OK); /* and nothing of it stays */
}

/* Node 0 notifies, then waits for messages that the others send only after the barrier. */
static void progress(void) {
  gasnet_barrier_notify(7, 0);
  if (gasnet_mynode() == 0) {
    GASNET_BLOCKUNTIL(answers == (int)gasnet_nodes() - 1);
    CHECK(gasnet_barrier_wait(7, 0) == GASNET_OK);
  } else {
    CHECK(gasnet_barrier_wait(7, 0) == GASNET_OK);
    MUST(gasnet_AMRequestShort0(0, token_index));
  }
  meet();
}

int main(int argc, char** argv) {
  gasnet_handlerentry_t table[] = {{token_index, HANDLER(&on_token)}, AREA_HANDLER};
  int i;
  MUST(gasnet_init(&argc, &argv));
  MUST(gasnet_attach(table, 2, area_bytes, 0));
  share_areas();
  agreeing();
  differing();
  progress();
  for (i = 0; i < 300; ++i) CHECK(gasnet_barrier(i, 0) == GASNET_OK);
  finish();
  return 1;
}
