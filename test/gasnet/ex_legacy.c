/* One program with both interfaces: it begins by gex_Client_Init, attaches and registers the gex_
 * way, and then uses gasnet.h's messages, puts, gets, barriers and segment table, whose messages
 * reach the handlers that gasnetex.h registered; handles and events pass for each other. */
#include <gasnet.h>
#include <gasnet_coll.h>

#include "ex_job.h"

enum { ask = 128, answer = 129, carry = 130, land = 131 };

static void on_ask(gasnet_token_t token, gasnet_handlerarg_t a) {
  MUST(gasnet_AMReplyShort1(token, answer, a + 1));
}
static void on_answer(gasnet_token_t token, gasnet_handlerarg_t a) {
  gasnet_node_t from = 99;
  CHECK(gasnet_AMGetMsgSource(token, &from) == GASNET_OK && from == next_rank);
  answers = answers + a;
}
static void on_carry(gasnet_token_t token, void* buf, size_t nbytes) {
  MUST(gasnet_AMReplyLong0(token, land, buf, nbytes, area[(me + nodes - 1) % nodes] + 64));
}
static void on_land(gasnet_token_t token, void* buf, size_t nbytes) {
  (void)token;
  CHECK(nbytes == 5 && buf == area[me] + 64 && memcmp(buf, "hello", 5) == 0);
  answers = answers + 1;
}

static void objects(void) {
  gex_Client_t c = GEX_CLIENT_INVALID;
  gex_EP_t e = GEX_EP_INVALID;
  gex_TM_t t = GEX_TM_INVALID;
  gex_Segment_t s = GEX_SEGMENT_INVALID;
  gasnet_QueryGexObjects(&c, &e, &t, &s);
  CHECK(c == client && e == ep && t == tm && s == segment);
  gasnet_QueryGexObjects(NULL, NULL, NULL, NULL);
}

int main(void) {
  gex_AM_Entry_t table[] = {
      {ask, HANDLER(&on_ask), GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQREP, 1, NULL, "ask"},
      {answer, HANDLER(&on_answer), GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQREP, 1, NULL, "answer"},
      {carry, HANDLER(&on_carry), GEX_FLAG_AM_MEDLONG | GEX_FLAG_AM_REQREP, 0, NULL, "carry"},
      {land, HANDLER(&on_land), GEX_FLAG_AM_MEDLONG | GEX_FLAG_AM_REQREP, 0, NULL, "land"},
  };
  gasnet_seginfo_t info[most_nodes];
  gasnet_handle_t h;
  gex_Event_t ev;
  int64_t sent = me + 5, got = 0;
  join_job("both", GEX_FLAG_USES_GASNET1);
  make_segments();
  MUST(gex_EP_RegisterHandlers(ep, table, 4));
  objects();
  MUST(gasnet_getSegmentInfo(info, (int)nodes));
  CHECK(info[next_rank].addr == area[next_rank]);
  CHECK(gasnet_attach(NULL, 0, 4096, 0) != GASNET_OK && gasnet_init(NULL, NULL) != GASNET_OK);
  meet();
  MUST(gasnet_AMRequestShort1(next_rank, ask, 41));
  GASNET_BLOCKUNTIL(answers == 42);
  MUST(gasnet_AMRequestMedium0(next_rank, carry, (void*)"hello", 5));
  GASNET_BLOCKUNTIL(answers == 43);
  h = gasnet_put_nb(next_rank, area[next_rank], &sent, sizeof sent);
  gex_Event_Wait(h);
  ev = gex_RMA_GetNB(tm, &got, next_rank, area[next_rank], sizeof got, 0);
  gasnet_wait_syncnb(ev);
  CHECK(got == sent);
  gasnet_put_nbi(next_rank, area[next_rank] + 8, &sent, sizeof sent);
  gex_NBI_Wait(GEX_EC_ALL, 0);
  CHECK(gex_RMA_GetBlockingVal(tm, next_rank, area[next_rank] + 8, 8, 0) == (uint64_t)sent);
  gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));
  gasnet_coll_init(NULL, 0, NULL, 0, 0);
  got = me == 0 ? 77 : 0;
  gasnet_coll_broadcast(GASNET_TEAM_ALL, &got, 0, &got, sizeof got,
                        GASNET_COLL_IN_ALLSYNC | GASNET_COLL_OUT_ALLSYNC | GASNET_COLL_LOCAL);
  CHECK(got == 77);
  finish();
  return 1;
}
