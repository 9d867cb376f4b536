/* Messages between endpoints of any index: each has its own handlers, a reply goes back to the
 * endpoint that asked, and a team may consist of such endpoints (specification 0.19, "Active
 * Messages", gex_TM_Pair, gex_TM_Create; GASNet-EX API: Memory Kinds, "Endpoints", "Teams"). */
#define GASNETC_CONDUIT_AS_IBV 1 /* GASNET_MAXEPS is more than 1 then */
#include <gasnet_coll.h>
#include <gasnet_ratomic.h>
#include <gasnet_vis.h>
#include <gasnetex.h>

#include "ex_job.h"

enum { own_count = 3, memory_bytes = 1 << 17, most = 60000 };
enum { ask = 140, ask_medium, ask_long, back, back_medium, back_long, told };
static gex_EP_t eps[own_count + 1]; /* [0] is the first one; [3] has no messages */
static gex_EP_Index_t numbers[own_count + 1];
static char* memory[own_count][most_nodes]; /* of the endpoints, in their owners' address space */
static unsigned char source[most];

/* What the messages of this round have to be: from endpoint `from` of the asker to `to`. */
static volatile int from_now = 0, to_now = 0, requests = 0, completions = 0;

static void arrived(gex_Token_t token, int at, int index, int is_request, int is_long) {
  gex_Token_Info_t info;
  gex_Token_Info(token, &info, GEX_TI_EP | GEX_TI_ENTRY | GEX_TI_IS_REQ | GEX_TI_IS_LONG);
  CHECK(info.gex_ep == eps[at]);
  CHECK(info.gex_entry->gex_index == index && info.gex_entry->gex_cdata == &eps[at]);
  CHECK(info.gex_is_req == is_request && info.gex_is_long == is_long);
  CHECK(at == (is_request ? to_now : from_now));
  if (is_request)
    requests = requests + 1;
  else
    answers = answers + 1;
}
static int holds(const void* buf, size_t n, gex_AM_Arg_t seed) {
  size_t i;
  for (i = 0; i < n; ++i)
    if (((const unsigned char*)buf)[i] != (unsigned char)(seed + (gex_AM_Arg_t)i)) return 0;
  return 1;
}
static void fill(void* at, size_t n, gex_AM_Arg_t seed) {
  size_t i;
  for (i = 0; i < n; ++i) ((unsigned char*)at)[i] = (unsigned char)(seed + (gex_AM_Arg_t)i);
}

/* Every endpoint has functions of its own, so that a message for another one is seen. seed's first
 * bit: the reply is prepared in the library's buffer. */
#define HANDLERS_OF(e)                                                                           \
  static void ask##e(gex_Token_t t, gex_AM_Arg_t a, gex_AM_Arg_t b) {                            \
    arrived(t, e, ask, 1, 0);                                                                    \
    CHECK(b == a + 1);                                                                           \
    gex_AM_ReplyShort3(t, back, 0, a, b, a);                                                     \
  }                                                                                              \
  static void back##e(gex_Token_t t, gex_AM_Arg_t a, gex_AM_Arg_t b, gex_AM_Arg_t c) {           \
    CHECK(b == a + 1 && c == a);                                                                 \
    arrived(t, e, back, 0, 0);                                                                   \
  }                                                                                              \
  static void ask_medium##e(gex_Token_t t, void* p, size_t n, gex_AM_Arg_t seed) {               \
    arrived(t, e, ask_medium, 1, 0);                                                             \
    CHECK(holds(p, n, seed));                                                                    \
    if (seed & 1) {                                                                              \
      const gex_AM_SrcDesc_t sd = gex_AM_PrepareReplyMedium(t, NULL, n, n, NULL, 0, 1);          \
      memcpy(gex_AM_SrcDescAddr(sd), p, n);                                                      \
      gex_AM_CommitReplyMedium1(sd, back_medium, n, seed);                                       \
    } else {                                                                                     \
      gex_AM_ReplyMedium1(t, back_medium, p, n, GEX_EVENT_NOW, 0, seed);                         \
    }                                                                                            \
  }                                                                                              \
  static void back_medium##e(gex_Token_t t, void* p, size_t n, gex_AM_Arg_t seed) {              \
    CHECK(holds(p, n, seed));                                                                    \
    arrived(t, e, back_medium, 0, 0);                                                            \
  }                                                                                              \
  static void ask_long##e(gex_Token_t t, void* p, size_t n, gex_AM_Arg_t seed, gex_AM_Arg_t r) { \
    CHECK(p == (void*)memory[e][me] && holds(p, n, seed));                                       \
    arrived(t, e, ask_long, 1, 1);                                                               \
    gex_AM_ReplyLong1(t, back_long, p, n, memory[from_now][r] + most, GEX_EVENT_NOW, 0, seed);   \
  }                                                                                              \
  static void back_long##e(gex_Token_t t, void* p, size_t n, gex_AM_Arg_t seed) {                \
    CHECK(p == (void*)(memory[e][me] + most) && holds(p, n, seed));                              \
    arrived(t, e, back_long, 0, 1);                                                              \
  }                                                                                              \
  static void told##e(gex_Token_t t, void* p, size_t n) {                                        \
    gex_Token_Info_t info;                                                                       \
    gex_Token_Info(t, &info, GEX_TI_EP);                                                         \
    CHECK(n == 3 && memcmp(p, "abc", 3) == 0 && info.gex_ep == eps[e]);                          \
    completions = completions + 1;                                                               \
  }
HANDLERS_OF(0)
HANDLERS_OF(1)
HANDLERS_OF(2)

#define TABLE_OF(e)                                                                                  \
  {                                                                                                  \
    {ask, HANDLER(&ask##e), GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 2, &eps[e], "ask"},             \
        {back, HANDLER(&back##e), GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REPLY, 3, &eps[e], "back"},        \
        {ask_medium,  HANDLER(&ask_medium##e), GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REQUEST, 1, &eps[e], \
         "ask medium"},                                                                              \
        {back_medium,  HANDLER(&back_medium##e), GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REPLY, 1, &eps[e], \
         "back medium"},                                                                             \
        {ask_long,  HANDLER(&ask_long##e), GEX_FLAG_AM_LONG | GEX_FLAG_AM_REQUEST, 2, &eps[e],       \
         "ask long"},                                                                                \
        {back_long,  HANDLER(&back_long##e), GEX_FLAG_AM_LONG | GEX_FLAG_AM_REPLY, 1, &eps[e],       \
         "back long"},                                                                               \
    {                                                                                                \
      told, HANDLER(&told##e), GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REPLY, 0, &eps[e], "told"            \
    }                                                                                                \
  }

static void make_endpoints(void) {
  gex_AM_Entry_t tables[own_count][7] = {TABLE_OF(0), TABLE_OF(1), TABLE_OF(2)};
  gex_AM_Entry_t again = {0, HANDLER(&ask0), GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 2, NULL, ""};
  gex_Segment_t s;
  gex_Rank_t r;
  int e;
  eps[0] = ep;
  for (e = 1; e < own_count; ++e) {
    MUST(gex_EP_Create(&eps[e], client, GEX_EP_CAPABILITY_ALL, 0));
    MUST(gex_Segment_Create(&s, client, NULL, memory_bytes, GEX_MK_HOST, 0));
    MUST(gex_EP_BindSegment(eps[e], s, 0));
  }
  MUST(gex_EP_Create(&eps[own_count], client, GEX_EP_CAPABILITY_RMA, 0));
  for (e = 0; e < own_count; ++e) MUST(gex_EP_RegisterHandlers(eps[e], tables[e], 7));
  /* The library chooses the highest index that is free in that endpoint. */
  MUST(gex_EP_RegisterHandlers(eps[2], &again, 1));
  CHECK(again.gex_index == 255);
  gex_System_SetVerboseErrors(0);
  CHECK(gex_EP_RegisterHandlers(eps[2], &again, 1) == GASNET_ERR_BAD_ARG); /* it is taken */
  CHECK(gex_EP_RegisterHandlers(eps[own_count], &again, 1) == GASNET_ERR_BAD_ARG);
  gex_System_SetVerboseErrors(1);
  MUST(gex_EP_PublishBoundSegment(tm, eps + 1, own_count - 1, 0));
  for (e = 0; e <= own_count; ++e) numbers[e] = gex_EP_QueryIndex(eps[e]);
  for (e = 0; e < own_count; ++e)
    for (r = 0; r < nodes; ++r) {
      void* at = NULL;
      uintptr_t size = 0;
      gex_Event_Wait(
          gex_EP_QueryBoundSegmentNB(gex_TM_Pair(ep, numbers[e]), r, &at, NULL, &size, 0));
      CHECK(at != NULL && size >= memory_bytes);
      memory[e][r] = (char*)at;
    }
}

static void exchange(gex_TM_t by, gex_Rank_t rank, gex_Rank_t job_rank) {
  static const size_t sizes[] = {1, 40, 3000, most};
  const int to = to_now;
  int wanted = answers;
  unsigned s;
  gex_AM_RequestShort2(by, rank, ask, 0, 7, 8);
  GASNET_BLOCKUNTIL(answers == wanted + 1);
  for (s = 0; s < 4; ++s) {
    const size_t n = sizes[s];
    gex_AM_SrcDesc_t sd;
    CHECK(gex_AM_MaxRequestMedium(by, rank, GEX_EVENT_NOW, 0, 1) >= n);
    fill(source, n, (gex_AM_Arg_t)s);
    gex_AM_RequestMedium1(by, rank, ask_medium, source, n, GEX_EVENT_NOW, 0, (gex_AM_Arg_t)s);
    gex_AM_RequestLong2(by, rank, ask_long, source, n, memory[to][job_rank], GEX_EVENT_NOW, 0,
                        (gex_AM_Arg_t)s, (gex_AM_Arg_t)me);
    wanted += 2;
    GASNET_BLOCKUNTIL(answers == wanted + 1);
    sd = gex_AM_PrepareRequestMedium(by, rank, NULL, n, n, NULL, 0, 1);
    fill(gex_AM_SrcDescAddr(sd), n, (gex_AM_Arg_t)s + 5);
    gex_AM_CommitRequestMedium1(sd, ask_medium, n, (gex_AM_Arg_t)s + 5);
    while (gex_AM_RequestMedium1(by, rank, ask_medium, source, n, GEX_EVENT_NOW, GEX_FLAG_IMMEDIATE,
                                 (gex_AM_Arg_t)s) != 0)
      gasnet_AMPoll();
    wanted += 2;
    GASNET_BLOCKUNTIL(answers == wanted + 1);
  }
}

static void pairs(void) {
  int from, to, kind;
  for (from = 0; from < own_count; ++from)
    for (to = 0; to < own_count; ++to)
      for (kind = 0; kind < 2; ++kind) {
        const gex_Rank_t r = kind == 0 ? next_rank : me;
        meet();
        from_now = from, to_now = to;
        meet();
        exchange(gex_TM_Pair(eps[from], numbers[to]), r, r);
      }
  meet();
}

/* A put that tells its target by a handler of the target's endpoint. */
static void tell(void) {
  int e;
  for (e = 0; e < own_count; ++e) {
    gex_Memvec_t here, there;
    completions = 0;
    meet();
    here.gex_addr = source, here.gex_len = 64;
    there.gex_addr = memory[e][next_rank], there.gex_len = 64;
    gex_VIS_SetPeerCompletionHandler(told, "abc", 3, 0);
    gex_VIS_VectorPutBlocking(gex_TM_Pair(ep, numbers[e]), next_rank, 1, &there, 1, &here, 0);
    GASNET_BLOCKUNTIL(completions == 1);
    meet();
  }
}

/* Even ranks come with endpoint 1, odd ones with 2, in falling order of ranks. */
static void team(void) {
  gex_EP_Location_t members[most_nodes];
  gex_TM_t made = GEX_TM_INVALID, half = GEX_TM_INVALID;
  gex_AD_t ad;
  uint64_t sum = 0, mine = me + 1, old = 0;
  const int own = 1 + (int)(me % 2);
  gex_Rank_t r;
  for (r = 0; r < nodes; ++r) {
    members[r].gex_rank = nodes - 1 - r;
    members[r].gex_ep_index = numbers[1 + (nodes - 1 - r) % 2];
  }
  gex_TM_Create(&made, 1, tm, members, nodes, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
  CHECK(gex_TM_QueryEP(made) == eps[own] && gex_TM_QueryRank(made) == nodes - 1 - me);
  for (r = 0; r < nodes; ++r) {
    const gex_EP_Location_t at = gex_TM_TranslateRankToEP(made, r, 0);
    void* owner = NULL;
    CHECK(at.gex_rank == members[r].gex_rank && at.gex_ep_index == members[r].gex_ep_index);
    gex_Event_Wait(gex_EP_QueryBoundSegmentNB(made, r, &owner, NULL, NULL, 0));
    CHECK(owner == (void*)memory[1 + at.gex_rank % 2][at.gex_rank]);
  }
  gex_Event_Wait(
      gex_Coll_ReduceToAllNB(made, &sum, &mine, GEX_DT_U64, 8, 1, GEX_OP_ADD, NULL, NULL, 0));
  CHECK(sum == (uint64_t)nodes * (nodes + 1) / 2);
  gex_AD_Create(&ad, made, GEX_DT_U64, GEX_OP_FADD, 0);
  memset(memory[own][me], 0, 8);
  gex_Event_Wait(gex_Coll_BarrierNB(made, 0));
  gex_Event_Wait(gex_AD_OpNB_U64(ad, &old, nodes - 1, memory[1][0], GEX_OP_FADD, 1, 0, 0));
  CHECK(old < nodes);
  gex_Event_Wait(gex_Coll_BarrierNB(made, 0));
  if (me == 0) {
    memcpy(&sum, memory[1][0], 8);
    CHECK(sum == nodes);
  }
  gex_AD_Destroy(ad);
  gex_TM_Split(&half, made, 0, (int)me, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
  CHECK(gex_TM_QueryEP(half) == eps[own] && gex_TM_QueryRank(half) == me);
  CHECK(gex_TM_TranslateRankToEP(half, next_rank, 0).gex_ep_index == numbers[1 + next_rank % 2]);
  /* Messages by the team: all ask their next rank in turn. */
  for (r = 0; r < nodes; ++r) {
    meet();
    from_now = 1 + (int)(r % 2), to_now = 1 + (int)((r + 1) % nodes % 2);
    meet();
    if (me == r) exchange(half, next_rank, next_rank);
    meet();
  }
  gex_TM_Destroy(half, NULL, 0);
  gex_TM_Destroy(made, NULL, 0);
}

/* A segment may be destroyed though an endpoint is bound to it, which has none from then on; its
 * memory may become part of another one. */
static void destroy(void) {
  static char own[memory_bytes];
  gex_EP_t first, second;
  gex_Segment_t s;
  uint64_t word = 0, got = 0;
  int i;
  MUST(gex_EP_Create(&first, client, GEX_EP_CAPABILITY_RMA, 0));
  MUST(gex_EP_Create(&second, client, GEX_EP_CAPABILITY_RMA, 0));
  for (i = 0; i < 2; ++i) {
    gex_EP_t now = i == 0 ? first : second;
    void* at = NULL;
    gex_Segment_t spacer;
    MUST(gex_Segment_Create(&s, client, own, memory_bytes, GEX_MK_HOST, 0));
    MUST(gex_EP_BindSegment(now, s, 0));
    MUST(gex_EP_PublishBoundSegment(tm, &now, 1, 0));
    gex_Event_Wait(gex_EP_QueryBoundSegmentNB(gex_TM_Pair(ep, gex_EP_QueryIndex(now)), next_rank,
                                              &at, NULL, NULL, 0));
    word = 1000u + (unsigned)i + me;
    gex_RMA_PutBlocking(gex_TM_Pair(ep, gex_EP_QueryIndex(now)), next_rank, at, &word, 8, 0);
    meet();
    memcpy(&got, own, 8);
    CHECK(got == 1000u + (unsigned)i + (me + nodes - 1) % nodes);
    meet();
    gex_Segment_Destroy(s, 0);
    /* The next one has another place in the library's memory. */
    if (i == 0) MUST(gex_Segment_Create(&spacer, client, NULL, 1 << 16, GEX_MK_HOST, 0));
    memcpy(&got, own, 8);
    CHECK(got == 1000u + (unsigned)i + (me + nodes - 1) % nodes); /* the bytes stay */
  }
}

int main(void) {
  join_job("messages", 0);
  make_segments();
  make_endpoints();
  pairs();
  CHECK(requests != 0);
  tell();
  team();
  destroy();
  finish();
  return 1;
}
