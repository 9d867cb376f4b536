/* Forbidden calls of a client are refused with a line that names them: argv[1] chooses one. Most
 * are calls in a handler. Where the call returns an error that is checked here; else the job ends,
 * and the test looks for the line. */
#include <gasnet.h>

#include <stdlib.h>
#include <string.h>

#include "job.h"

#if !GASNET_SEQ
static gasnet_hsl_t lock = GASNET_HSL_INITIALIZER;
static void misuse_lock(const char* how) {
  if (strcmp(how, "unlock") == 0) gasnet_hsl_unlock(&lock);
  gasnet_hsl_lock(&lock);
  if (strcmp(how, "lock") == 0) gasnet_hsl_lock(&lock);
  if (strcmp(how, "destroy") == 0) gasnet_hsl_destroy(&lock);
  CHECK(!"it has returned");
}
#endif

enum { act_index = 128, payload_index = 129, here_index = 133 };
static const char* call = "";
static volatile int acted = 0;

static void on_act(gasnet_token_t token) {
  (void)token;
  if (strcmp(call, "poll") == 0) CHECK(gasnet_AMPoll() == GASNET_ERR_BAD_ARG);
  if (strcmp(call, "request") == 0)
    CHECK(gasnet_AMRequestShort0(0, act_index) == GASNET_ERR_BAD_ARG);
  if (strcmp(call, "barrier_try") == 0)
    CHECK(gasnet_barrier_try(0, GASNET_BARRIERFLAG_ANONYMOUS) == GASNET_ERR_BAD_ARG);
  if (strcmp(call, "barrier_wait") == 0)
    CHECK(gasnet_barrier_wait(0, GASNET_BARRIERFLAG_ANONYMOUS) == GASNET_ERR_BAD_ARG);
  if (strcmp(call, "barrier_notify") == 0) gasnet_barrier_notify(0, GASNET_BARRIERFLAG_ANONYMOUS);
  if (strcmp(call, "put") == 0) gasnet_put(0, area[0], "text", 4);
  if (strcmp(call, "blockuntil") == 0) GASNET_BLOCKUNTIL(acted < 0);
  acted = 1;
}

static void on_payload(gasnet_token_t token, void* buf, size_t nbytes) {
  (void)token;
  CHECK(nbytes == 0 || (nbytes == 4 && memcmp(buf, "text", 4) == 0));
}

int main(int argc, char** argv) {
  gasnet_handlerentry_t table[] = {{act_index, HANDLER(&on_act)},
                                   {payload_index, HANDLER(&on_payload)},
                                   AREA_HANDLER,
                                   {here_index, HANDLER(&on_act)}};
  MUST(gasnet_init(&argc, &argv));
  call = argv[1];
  if (strcmp(call, "index") == 0) {
    gasnet_handlerentry_t twice[] = {{act_index, HANDLER(&on_act)}, {act_index, HANDLER(&on_act)}};
    gasnet_handlerentry_t low[] = {{0, HANDLER(&on_act)}, {127, HANDLER(&on_act)}};
    CHECK(gasnet_attach(low, 2, area_bytes, 0) == GASNET_ERR_BAD_ARG);
    CHECK(gasnet_attach(twice, 2, area_bytes, 0) == GASNET_ERR_BAD_ARG);
    gasnet_exit(0);
  }
  MUST(gasnet_attach(table, gasnet_mynode() == 1 ? 4 : 3, area_bytes, 0)); /* tables may differ */
  share_areas();
  if (strcmp(call, "too_long") == 0) {
    static char text[1 << 20];
    (void)gasnet_AMRequestMedium0(0, act_index, text, gasnet_AMMaxMedium() + 1);
    CHECK(!"it has returned");
  }
  if (strcmp(call, "count") == 0 && gasnet_mynode() == 1) {
    MUST(gasnet_AMRequestShort0(0, act_index));
    MUST(gasnet_AMRequestShort1(0, act_index, 5));
  }
  if (strcmp(call, "long") == 0 && gasnet_mynode() == 1) {
    /* A function with a payload takes Mediums and Longs, of any size; a Short has none. */
    MUST(gasnet_AMRequestMedium0(0, payload_index, "text", 4));
    MUST(gasnet_AMRequestLong0(0, payload_index, (void*)"text", 4, area[0]));
    MUST(gasnet_AMRequestMedium0(0, payload_index, NULL, 0));
    MUST(gasnet_AMRequestShort0(0, payload_index));
  }
  if (strcmp(call, "kind") == 0 && gasnet_mynode() == 1) {
    MUST(gasnet_AMRequestShort0(0, act_index));
    MUST(gasnet_AMRequestMedium0(0, act_index, "text", 4));
  }
#if !GASNET_SEQ
  if (strstr("lock unlock destroy", call) != NULL) misuse_lock(call);
#endif
  if (strcmp(call, "nested") == 0) {
    gasnet_begin_nbi_accessregion();
    gasnet_begin_nbi_accessregion();
  }
  if (strcmp(call, "unbegun") == 0) gasnet_end_nbi_accessregion();
  if (strcmp(call, "event") == 0) {
    int no_event;
    gasnet_wait_syncnb((gasnet_handle_t)(void*)&no_event);
  }
  if (strcmp(call, "heap_event") == 0) gasnet_wait_syncnb((gasnet_handle_t)malloc(256));
  if (strcmp(call, "far_event") == 0) gasnet_wait_syncnb((gasnet_handle_t)0x7123456789a0);
  if (strcmp(call, "null_put") == 0 && gasnet_mynode() == 1) {
    char* volatile nowhere = NULL;
    gasnet_put(1, area[1], nowhere, 100);
  }
  if (strcmp(call, "null_get") == 0 && gasnet_mynode() == 1) {
    char* volatile nowhere = NULL;
    gasnet_get(nowhere, 0, area[0], 100);
  }
  if (strcmp(call, "outside") == 0 && gasnet_mynode() == 1)
    gasnet_put(1, area[1] + area_bytes - 2, "text", 4);
  if (strcmp(call, "count") == 0 || strcmp(call, "kind") == 0 || strcmp(call, "long") == 0)
    for (;;) gasnet_AMPoll();
  if (strcmp(call, "no_handler") == 0) {
    if (gasnet_mynode() == 1) MUST(gasnet_AMRequestShort0(0, here_index));
    for (;;) gasnet_AMPoll();
  }
  /* Inside a barrier of the client's, which must come out whole. */
  gasnet_barrier_notify(7, 0);
  MUST(gasnet_AMRequestShort0((gasnet_mynode() + 1) % gasnet_nodes(), act_index));
  GASNET_BLOCKUNTIL(acted);
  CHECK(gasnet_barrier_wait(7, 0) == GASNET_OK);
  finish();
  return 0;
}
