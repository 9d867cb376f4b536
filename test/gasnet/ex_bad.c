/* gasnetex.h used wrongly: the job ends with a line that names the call, the rank and the reason.
 * The argument says which mistake rank 0 makes; CTest compares the line. */
#define GASNETC_CONDUIT_AS_IBV 1 /* GASNET_MAXEPS is more than 1 then */
#include <gasnet_coll.h>
#include <gasnet_ratomic.h>
#include <gasnet_vis.h>
#include <gasnetex.h>

#include "ex_job.h"

static volatile int pinged = 0;

static void ping(gex_Token_t token, gex_AM_Arg_t a) {
  (void)token;
  (void)a;
  pinged = 1;
}
static void pong(gex_Token_t token) { (void)token; }

static void prepared_wrongly(const char* mistake) {
  gex_AM_SrcDesc_t sd;
  if (strcmp(mistake, "larger") == 0) {
    sd = gex_AM_PrepareRequestMedium(tm, 1, NULL, 64, 64, NULL, 0, 1);
    gex_AM_CommitRequestMedium1(sd, 132, 65, 7);
  }
  if (strcmp(mistake, "arguments") == 0) {
    sd = gex_AM_PrepareRequestMedium(tm, 1, NULL, 64, 64, NULL, 0, 1);
    gex_AM_CommitRequestMedium2(sd, 132, 64, 7, 8);
  }
  if (strcmp(mistake, "twice") == 0) {
    (void)gex_AM_PrepareRequestMedium(tm, 1, NULL, 64, 64, NULL, 0, 1);
    (void)gex_AM_PrepareRequestMedium(tm, 1, NULL, 64, 64, NULL, 0, 1);
  }
}

static void sent_wrongly(const char* mistake) {
  if (strcmp(mistake, "count") == 0) gex_AM_RequestShort2(tm, 1, 130, 0, 1, 2);
  if (strcmp(mistake, "kind") == 0) gex_AM_RequestMedium1(tm, 1, 130, "x", 1, GEX_EVENT_NOW, 0, 1);
  if (strcmp(mistake, "reply") == 0) gex_AM_RequestShort0(tm, 1, 131, 0);
  if (strcmp(mistake, "handler") == 0) gex_AM_RequestShort0(tm, 1, 140, 0);
  if (strcmp(mistake, "rank") == 0) gex_AM_RequestShort1(tm, nodes, 130, 0, 1);
}

static void passed_nothing(const char* mistake) {
  const size_t count[1] = {2};
  gex_EP_Location_t members[2] = {{0, 0}, {7, 0}};
  gex_EP_Location_t same[2] = {{0, 0}, {0, 1}}, unmade[2] = {{0, 5}, {1, 0}};
  gex_TM_t made = GEX_TM_INVALID;
  if (strcmp(mistake, "member_twice") == 0)
    (void)gex_TM_Create(&made, 1, tm, same, 2, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
  if (strcmp(mistake, "member_unmade") == 0)
    (void)gex_TM_Create(&made, 1, tm, unmade, 2, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
  if (strcmp(mistake, "segment") == 0) (void)gex_Segment_QueryAddr(GEX_SEGMENT_INVALID);
  if (strcmp(mistake, "endpoint") == 0) (void)gex_EP_QuerySegment(GEX_EP_INVALID);
  if (strcmp(mistake, "client") == 0) (void)gex_Client_QueryName(GEX_CLIENT_INVALID);
  if (strcmp(mistake, "token") == 0) gex_AM_ReplyShort0(NULL, 131, 0);
  if (strcmp(mistake, "member") == 0)
    (void)gex_TM_Create(&made, 1, tm, members, 2, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
  if (strcmp(mistake, "list") == 0) (void)gex_VIS_VectorPutBlocking(tm, 1, 1, NULL, 1, NULL, 0);
  if (strcmp(mistake, "told") == 0)
    gex_VIS_SetPeerCompletionHandler(130, members, GEX_VIS_MAX_PEERCOMPLETION + 1, 0);
  if (strcmp(mistake, "strides") == 0)
    (void)gex_VIS_StridedGetBlocking(tm, members, NULL, 1, area[1], NULL, 8, count, 1, 0);
}

/* What the client's own code would do by itself, in functions that are inlined. */
static void inlined_wrongly(const char* mistake) {
  uint64_t word = 1, fetched = 0;
  gex_Event_t done = GEX_EVENT_INVALID;
  const gex_AD_t none = GEX_AD_INVALID;
  if (strcmp(mistake, "domain") == 0)
    (void)gex_AD_OpNB_U64(none, &fetched, 1, area[1], GEX_OP_FADD, 1, 0, 0);
  if (strcmp(mistake, "domain_float") == 0)
    (void)gex_AD_OpNBI_DBL(none, NULL, 1, area[1], GEX_OP_ADD, 1, 0, 0);
  if (strcmp(mistake, "domain_query") == 0) (void)gex_AD_QueryTM(none);
  if (strcmp(mistake, "value") == 0) (void)gex_RMA_GetBlockingVal(tm, 1, area[1], nodes + 7, 0);
  if (strcmp(mistake, "value_put") == 0) (void)gex_RMA_PutNBVal(tm, 1, area[1], word, nodes - 2, 0);
  if (strcmp(mistake, "value_gasnet") == 0) gasnet_put_nbi_val(1, area[1], word, 16);
  if (strcmp(mistake, "beyond") == 0) (void)gex_TM_TranslateRankToJobrank(tm, nodes);
  if (strcmp(mistake, "beyond_endpoint") == 0) (void)gex_TM_TranslateRankToEP(tm, nodes, 0);
  if (strcmp(mistake, "beyond_pair") == 0)
    (void)gex_RMA_PutBlocking(gex_TM_Pair(ep, 0), nodes, area[1], &word, 8, 0);
  if (strcmp(mistake, "no_team") == 0)
    (void)gex_RMA_PutNBI(GEX_TM_INVALID, 1, area[1], &word, 8, GEX_EVENT_DEFER, 0);
  if (strcmp(mistake, "lc_group") == 0)
    (void)gex_RMA_PutNB(tm, 1, area[1], &word, 8, GEX_EVENT_GROUP, 0);
  if (strcmp(mistake, "lc_place") == 0) (void)gex_RMA_PutNBI(tm, 1, area[1], &word, 8, &done, 0);
  if (strcmp(mistake, "lc_defer") == 0)
    (void)gex_AM_RequestMedium1(tm, 1, 130, &word, 8, GEX_EVENT_DEFER, 0, 1);
  if (strcmp(mistake, "lc_null") == 0)
    (void)gex_AM_PrepareRequestMedium(tm, 1, &word, 8, 8, NULL, 0, 1);
  if (strcmp(mistake, "number") == 0) gex_Event_Wait((gex_Event_t)(uintptr_t)4096);
}

/* The ranks make different collective calls: with other operations, sizes, roots and types. In some
 * both wait for the other. */
static void disagreed(const char* mistake) {
  static char in[512], out[512];
  gex_Event_t ev = GEX_EVENT_INVALID;
  const gex_Rank_t other = 1 - me;
  gex_TM_t part = GEX_TM_INVALID;
  if (strcmp(mistake, "order") == 0)
    ev = me == 0 ? gex_Coll_ReduceToAllNB(tm, out, in, GEX_DT_U64, 8, 1, GEX_OP_ADD, NULL, NULL, 0)
                 : gex_Coll_BroadcastNB(tm, 0, out, in, 8, 0);
  if (strcmp(mistake, "order_barrier") == 0)
    ev = me == 0 ? gex_Coll_BarrierNB(tm, 0) : gex_Coll_BroadcastNB(tm, 0, out, in, 8, 0);
  if (strcmp(mistake, "order_split") == 0 && me == 0)
    gex_TM_Split(&part, tm, 0, 0, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
  if (strcmp(mistake, "order_split") == 0)
    ev = gex_Coll_ReduceToAllNB(tm, out, in, GEX_DT_U64, 8, 1, GEX_OP_ADD, NULL, NULL, 0);
  if (strcmp(mistake, "sizes") == 0)
    ev = gex_Coll_ReduceToAllNB(tm, out, in, GEX_DT_U64, 8, me == 0 ? 2 : 64, GEX_OP_ADD, NULL,
                                NULL, 0);
  if (strcmp(mistake, "operations") == 0)
    ev = gex_Coll_ReduceToAllNB(tm, out, in, GEX_DT_U64, 8, 1, me == 0 ? GEX_OP_ADD : GEX_OP_MAX,
                                NULL, NULL, 0);
  if (strcmp(mistake, "types") == 0)
    ev = gex_Coll_ReduceToOneNB(tm, 0, out, in, me == 0 ? GEX_DT_I64 : GEX_DT_DBL, 8, 1, GEX_OP_MIN,
                                NULL, NULL, 0);
  if (strcmp(mistake, "roots") == 0) ev = gex_Coll_BroadcastNB(tm, other, out, in, 8, 0);
  if (strncmp(mistake, "mixed_", 6) == 0) { /* with those of gasnet.h and gasnet_coll.h */
    if (me == 1) ev = gex_Coll_BarrierNB(tm, 0);
    if (me == 0 && strcmp(mistake, "mixed_barrier") == 0)
      (void)gasnet_barrier(0, GASNET_BARRIERFLAG_ANONYMOUS);
    if (me == 0 && strcmp(mistake, "mixed_late") == 0) {
      /* Rank 1 asks meanwhile, and finds nothing wrong yet. */
      const gasnett_tick_t begun = gasnett_ticks_now();
      while (gasnett_ticks_to_ns(gasnett_ticks_now() - begun) < 1500000000) gasnet_AMPoll();
      (void)gasnet_barrier(0, GASNET_BARRIERFLAG_ANONYMOUS);
    }
    if (me == 0 && strcmp(mistake, "mixed_coll") == 0)
      gasnet_coll_broadcast(GASNET_TEAM_ALL, out, 1, in, 8,
                            GASNET_COLL_LOCAL | GASNET_COLL_IN_NOSYNC | GASNET_COLL_OUT_NOSYNC);
  }
  gex_Event_Wait(ev);
}

int main(int argc, char** argv) {
  gex_AM_Entry_t table[] = {
      {130, HANDLER(&ping), GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 1, NULL, "ping"},
      {131, HANDLER(&pong), GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REPLY, 0, NULL, "pong"},
  };
  const char* const mistake = argc > 1 ? argv[1] : "";
  if (strcmp(mistake, "early") == 0) {
    uint64_t word = 0;
    (void)gex_RMA_GetNB(tm, &word, 1, &word, 8, 0);
  }
  join_job("mistakes", 0);
  MUST(gex_EP_RegisterHandlers(ep, table, 2));
  make_segments();
  disagreed(mistake);
  if (me == 0) {
    gex_AD_t ad;
    uint64_t word = 1;
    sent_wrongly(mistake);
    prepared_wrongly(mistake);
    passed_nothing(mistake);
    inlined_wrongly(mistake);
    if (strcmp(mistake, "team") == 0) (void)gex_TM_QuerySize(GEX_TM_INVALID);
    if (strcmp(mistake, "pair_message") == 0)
      (void)gex_AM_RequestShort0(gex_TM_Pair(ep, 2), 1, 130, 0);
    if (strcmp(mistake, "pair_beyond") == 0)
      (void)gex_AM_RequestShort0(gex_TM_Pair(ep, 8), 1, 130, 0);
    if (strcmp(mistake, "pair_incapable") == 0) {
      gex_EP_t other;
      MUST(gex_EP_Create(&other, client, GEX_EP_CAPABILITY_RMA, 0));
      (void)gex_AM_RequestShort0(gex_TM_Pair(other, 0), 1, 130, 0);
    }
    if (strcmp(mistake, "pair_endpoint") == 0)
      (void)gex_RMA_PutBlocking(gex_TM_Pair(ep, 33), 1, area[1], &word, 8, 0);
    if (strcmp(mistake, "pair") == 0) (void)gex_TM_QueryRank(gex_TM_Pair(ep, 0));
    if (strcmp(mistake, "far") == 0)
      gex_RMA_PutBlocking(tm, 1, area[1] + segment_bytes - 7, &word, 8, 0);
#if GASNET_DEBUG
    /* The place of an event is no event. */
    if (strcmp(mistake, "place") == 0) gex_Event_Wait((gex_Event_t)(void*)&ad);
#endif
    if (strcmp(mistake, "noop") == 0) gex_Event_Wait(GEX_EVENT_NO_OP);
    if (strcmp(mistake, "event") == 0) {
      const gex_Event_t ev =
          gex_Coll_BarrierNB(tm, 0); /* not complete: rank 1 waits for the ping */
      gex_AM_RequestShort1(tm, 1, 130, 0, 1);
      gex_Event_Wait(ev);
      gex_Event_Wait(ev);
    }
    if (strcmp(mistake, "operation") == 0) {
      gex_AD_Create(&ad, tm, GEX_DT_U64, GEX_OP_FADD, 0);
      (void)gex_AD_OpNB_U64(ad, &word, 1, area[1], GEX_OP_ADD, 1, 0, 0);
    }
    if (strcmp(mistake, "root") == 0) (void)gex_Coll_BroadcastNB(tm, nodes, &word, &word, 8, 0);
  }
  if (me == 1 && strcmp(mistake, "event") == 0) GASNET_BLOCKUNTIL(pinged);
  gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));
  meet();
  gasnet_exit(3); /* nobody noticed */
  return 3;
}
