/* One mistake in each call that can make it: the job ends with a line that names the call, or the
 * pair of calls that share it. The arguments choose the mistake and the call; without a call the
 * program prints the calls of the mistake, and bad_each makes them one by one, each in a job of its
 * own. */
#include <gasnet.h>
#include <gasnet_coll.h>
#include <gasnet_ratomic.h>
#include <gasnet_vis.h>
#include <gasnetex.h>

#include "ex_job.h"

enum { asked = 130, other = 131 };
static const char* wanted; /* NULL: print the calls */
/* One call in a list of them. */
#define CALL(name, ...)                   \
  do {                                    \
    if (wanted == NULL)                   \
      puts(name);                         \
    else if (strcmp(wanted, name) == 0) { \
      (void)(__VA_ARGS__);                \
    }                                     \
  } while (0)
/* A call that has these three forms. */
#define FORMS(name, ...)                               \
  CALL(#name "Blocking", name##Blocking(__VA_ARGS__)); \
  CALL(#name "NB", name##NB(__VA_ARGS__));             \
  CALL(#name "NBI", name##NBI(__VA_ARGS__))
#define BULK_FORMS(name, ...)                          \
  CALL(#name "_bulk", (name##_bulk(__VA_ARGS__), 0));  \
  CALL(#name "_nb_bulk", name##_nb_bulk(__VA_ARGS__)); \
  CALL(#name "_nbi_bulk", (name##_nbi_bulk(__VA_ARGS__), 0))
#define TYPES(op, ...)                     \
  CALL(#op "_I32", op##_I32(__VA_ARGS__)); \
  CALL(#op "_U32", op##_U32(__VA_ARGS__)); \
  CALL(#op "_I64", op##_I64(__VA_ARGS__)); \
  CALL(#op "_U64", op##_U64(__VA_ARGS__)); \
  CALL(#op "_FLT", op##_FLT(__VA_ARGS__)); \
  CALL(#op "_DBL", op##_DBL(__VA_ARGS__))

static uint64_t word = 1;
static char* remote = (char*)&word;
static volatile size_t eight = 8; /* a size that the compiler does not know */

static gex_Memvec_t vector_of(void* at) {
  gex_Memvec_t v;
  v.gex_addr = at;
  v.gex_len = 8;
  return v;
}

/* All calls of gasnetex.h that name a rank r of a team t. */
static void to_rank(gex_TM_t t, gex_Rank_t r) {
  uint64_t here = 1;
  void *owner, *local;
  uintptr_t size;
  gex_Event_t lc = GEX_EVENT_INVALID;
  const gex_Memvec_t there_v[1] = {vector_of(remote)}, here_v[1] = {vector_of(&here)};
  void* const there_i[1] = {remote};
  void* const here_i[1] = {&here};
  const ptrdiff_t strides[1] = {16};
  const size_t count[1] = {1};
  const size_t n = eight;
  CALL("gex_RMA_PutBlocking", gex_RMA_PutBlocking(t, r, remote, &here, 8, 0));
  CALL("gex_RMA_GetBlocking", gex_RMA_GetBlocking(t, &here, r, remote, 8, 0));
  CALL("gex_RMA_PutNB", gex_RMA_PutNB(t, r, remote, &here, n, &lc, 0));
  CALL("gex_RMA_GetNB", gex_RMA_GetNB(t, &here, r, remote, n, 0));
  CALL("gex_RMA_PutNBI", gex_RMA_PutNBI(t, r, remote, &here, n, GEX_EVENT_NOW, 0));
  CALL("gex_RMA_GetNBI", gex_RMA_GetNBI(t, &here, r, remote, n, 0));
  CALL("gex_RMA_GetBlockingVal", gex_RMA_GetBlockingVal(t, r, remote, 8, 0));
  CALL("gex_RMA_PutBlockingVal", gex_RMA_PutBlockingVal(t, r, remote, here, 8, 0));
  CALL("gex_RMA_PutNBVal", gex_RMA_PutNBVal(t, r, remote, here, 8, 0));
  CALL("gex_RMA_PutNBIVal", gex_RMA_PutNBIVal(t, r, remote, here, 8, 0));
  FORMS(gex_VIS_VectorPut, t, r, 1, there_v, 1, here_v, 0);
  FORMS(gex_VIS_VectorGet, t, 1, here_v, r, 1, there_v, 0);
  FORMS(gex_VIS_IndexedPut, t, r, 1, there_i, 8, 1, here_i, 8, 0);
  FORMS(gex_VIS_IndexedGet, t, 1, here_i, 8, r, 1, there_i, 8, 0);
  FORMS(gex_VIS_StridedPut, t, r, remote, strides, &here, strides, 8, count, 1, 0);
  FORMS(gex_VIS_StridedGet, t, &here, strides, r, remote, strides, 8, count, 1, 0);
  CALL("gex_AM_RequestShort", gex_AM_RequestShort0(t, r, asked, 0));
  CALL("gex_AM_RequestMedium", gex_AM_RequestMedium0(t, r, asked, &here, 8, GEX_EVENT_NOW, 0));
  CALL("gex_AM_RequestLong", gex_AM_RequestLong0(t, r, asked, &here, 8, remote, GEX_EVENT_NOW, 0));
  CALL("gex_AM_PrepareRequestMedium", gex_AM_PrepareRequestMedium(t, r, NULL, 8, 8, NULL, 0, 0));
  CALL("gex_AM_PrepareRequestLong",
       gex_AM_PrepareRequestLong(t, r, NULL, 8, 8, remote, NULL, 0, 0));
  CALL("gex_EP_QueryBoundSegmentNB", gex_EP_QueryBoundSegmentNB(t, r, &owner, &local, &size, 0));
  CALL("gex_Segment_QueryBound", gex_Segment_QueryBound(t, r, &owner, &local, &size));
}
static void of_member(gex_TM_t t, gex_Rank_t r) {
  CALL("gex_TM_TranslateRankToJobrank", gex_TM_TranslateRankToJobrank(t, r));
  CALL("gex_TM_TranslateRankToEP", (gex_TM_TranslateRankToEP(t, r, 0), 0));
}
static void of_root(gex_TM_t t, gex_Rank_t r) {
  CALL("gex_Coll_BroadcastNB", gex_Coll_BroadcastNB(t, r, &word, &word, 8, 0));
  CALL("gex_Coll_ReduceToOneNB",
       gex_Coll_ReduceToOneNB(t, r, &word, &word, GEX_DT_U64, 8, 1, GEX_OP_ADD, NULL, NULL, 0));
}
static void by_domain(gex_TM_t t, gex_Rank_t r, gex_Flags_t flags) {
  gex_AD_t ad;
  uint64_t was;
  if (wanted != NULL) gex_AD_Create(&ad, t, GEX_DT_U64, GEX_OP_FADD, 0);
  CALL("gex_AD_OpNB", gex_AD_OpNB_U64(ad, &was, r, remote, GEX_OP_FADD, 1, 0, flags));
  CALL("gex_AD_OpNBI", gex_AD_OpNBI_U64(ad, &was, r, remote, GEX_OP_FADD, 1, 0, flags));
}

/* The same of gasnet.h. */
static void to_node(gasnet_node_t r) {
  uint64_t here = 1;
  const gasnet_memvec_t there_v[1] = {{remote, 8}}, here_v[1] = {{&here, 8}};
  void* const there_i[1] = {remote};
  void* const here_i[1] = {&here};
  const size_t strides[1] = {16}, count[2] = {8, 1}, n = eight;
  CALL("gasnet_put", (gasnet_put(r, remote, &here, 8), 0));
  CALL("gasnet_get", (gasnet_get(&here, r, remote, 8), 0));
  CALL("gasnet_memset", (gasnet_memset(r, remote, 0, n), 0));
  CALL("gasnet_put_bulk", (gasnet_put_bulk(r, remote, &here, n), 0));
  CALL("gasnet_get_bulk", (gasnet_get_bulk(&here, r, remote, n), 0));
  CALL("gasnet_put_nb", gasnet_put_nb(r, remote, &here, n));
  CALL("gasnet_get_nb", gasnet_get_nb(&here, r, remote, n));
  CALL("gasnet_memset_nb", gasnet_memset_nb(r, remote, 0, n));
  CALL("gasnet_put_nbi", (gasnet_put_nbi(r, remote, &here, n), 0));
  CALL("gasnet_get_nbi", (gasnet_get_nbi(&here, r, remote, n), 0));
  CALL("gasnet_memset_nbi", (gasnet_memset_nbi(r, remote, 0, n), 0));
  CALL("gasnet_put_val", (gasnet_put_val(r, remote, here, 8), 0));
  CALL("gasnet_put_nb_val", gasnet_put_nb_val(r, remote, here, 8));
  CALL("gasnet_put_nbi_val", (gasnet_put_nbi_val(r, remote, here, 8), 0));
  CALL("gasnet_get_val", gasnet_get_val(r, remote, 8));
  CALL("gasnet_get_nb_val", (gasnet_get_nb_val(r, remote, 8), 0));
  BULK_FORMS(gasnet_putv, r, 1, there_v, 1, here_v);
  BULK_FORMS(gasnet_getv, 1, here_v, r, 1, there_v);
  BULK_FORMS(gasnet_puti, r, 1, there_i, 8, 1, here_i, 8);
  BULK_FORMS(gasnet_geti, 1, here_i, 8, r, 1, there_i, 8);
  BULK_FORMS(gasnet_puts, r, remote, strides, &here, strides, count, 1);
  BULK_FORMS(gasnet_gets, &here, strides, r, remote, strides, count, 1);
}

static void no_domain(void) {
  const gex_AD_t none = GEX_AD_INVALID;
  TYPES(gex_AD_OpNB, none, NULL, 0, remote, GEX_OP_ADD, 1, 0, 0);
  TYPES(gex_AD_OpNBI, none, NULL, 0, remote, GEX_OP_ADD, 1, 0, 0);
  CALL("gex_AD_QueryFlags", gex_AD_QueryFlags(none));
  CALL("gex_AD_QueryTM", gex_AD_QueryTM(none));
  CALL("gex_AD_QueryDT", gex_AD_QueryDT(none));
  CALL("gex_AD_QueryOps", gex_AD_QueryOps(none));
  CALL("gex_AD_SetCData", (gex_AD_SetCData(none, NULL), 0));
  CALL("gex_AD_QueryCData", gex_AD_QueryCData(none));
  CALL("gex_AD_Destroy", (gex_AD_Destroy(none), 0));
}

static void value_of(size_t n) {
  CALL("gex_RMA_GetBlockingVal", gex_RMA_GetBlockingVal(tm, 0, remote, n, 0));
  CALL("gex_RMA_PutBlockingVal", gex_RMA_PutBlockingVal(tm, 0, remote, word, n, 0));
  CALL("gex_RMA_PutNBVal", gex_RMA_PutNBVal(tm, 0, remote, word, n, 0));
  CALL("gex_RMA_PutNBIVal", gex_RMA_PutNBIVal(tm, 0, remote, word, n, 0));
  CALL("gasnet_put_val", (gasnet_put_val(0, remote, word, n), 0));
  CALL("gasnet_put_nb_val", gasnet_put_nb_val(0, remote, word, n));
  CALL("gasnet_put_nbi_val", (gasnet_put_nbi_val(0, remote, word, n), 0));
  CALL("gasnet_get_val", gasnet_get_val(0, remote, n));
  CALL("gasnet_get_nb_val", (gasnet_get_nb_val(0, remote, n), 0));
}

/* Local completion that the call does not take. */
static void request_with(gex_Event_t* lc) {
  CALL("gex_AM_RequestMedium", gex_AM_RequestMedium0(tm, 0, asked, &word, 8, lc, 0));
  CALL("gex_AM_RequestLong", gex_AM_RequestLong0(tm, 0, asked, &word, 8, remote, lc, 0));
  CALL("gex_AM_PrepareRequestMedium", gex_AM_PrepareRequestMedium(tm, 0, &word, 8, 8, lc, 0, 0));
  CALL("gex_AM_PrepareRequestLong",
       gex_AM_PrepareRequestLong(tm, 0, &word, 8, 8, remote, lc, 0, 0));
}
static void reply_with(gex_Token_t token, gex_Event_t* lc) {
  CALL("gex_AM_ReplyMedium", gex_AM_ReplyMedium0(token, other, &word, 8, lc, 0));
  CALL("gex_AM_ReplyLong", gex_AM_ReplyLong0(token, other, &word, 8, remote, lc, 0));
  CALL("gex_AM_PrepareReplyMedium", gex_AM_PrepareReplyMedium(token, &word, 8, 8, lc, 0, 0));
  CALL("gex_AM_PrepareReplyLong", gex_AM_PrepareReplyLong(token, &word, 8, 8, remote, lc, 0, 0));
}
static gex_Event_t* reply_lc;
static void on_asked(gex_Token_t token) {
  reply_with(token, reply_lc);
  answers = 1;
}
static void on_other(gex_Token_t token, void* buf, size_t bytes) {
  (void)token, (void)buf, (void)bytes;
}
static void replies(gex_Event_t* lc) {
  reply_lc = lc;
  if (wanted == NULL) {
    reply_with(NULL, lc);
    return;
  }
  gex_AM_RequestShort0(tm, 0, asked, 0);
  GASNET_BLOCKUNTIL(answers);
}

/* Questions about the job. */
static void of_job(void) {
  gex_Rank_t count;
  CALL("gex_System_QueryNbrhdInfo", (gex_System_QueryNbrhdInfo(NULL, &count, NULL), 0));
  CALL("gex_System_QueryHostInfo", (gex_System_QueryHostInfo(NULL, &count, NULL), 0));
  CALL("gex_System_QueryMyPosition", (gex_System_QueryMyPosition(NULL, NULL, &count, NULL), 0));
}

static void make(const char* mistake) {
  gex_TM_t alone = GEX_TM_INVALID;
  if (strcmp(mistake, "no_domain") == 0) no_domain();
  if (strcmp(mistake, "no_bytes") == 0) value_of(eight - 8);
  if (strcmp(mistake, "nine_bytes") == 0) value_of(eight + 1);
  if (strcmp(mistake, "defer") == 0) request_with(GEX_EVENT_DEFER), replies(GEX_EVENT_DEFER);
  if (strcmp(mistake, "group") == 0) replies(GEX_EVENT_GROUP);
  if (strcmp(mistake, "null") == 0) request_with(NULL), replies(NULL);
  if (strcmp(mistake, "no_team") == 0) {
    to_rank(GEX_TM_INVALID, 0);
    of_member(GEX_TM_INVALID, 0);
    of_root(GEX_TM_INVALID, 0);
  }
  if (strcmp(mistake, "beyond") == 0) {
    to_rank(tm, 1);
    of_member(tm, 1);
    of_root(tm, 1);
    by_domain(tm, 1, 0);
    to_node(1);
  }
  if (strcmp(mistake, "invalid_rank") == 0) {
    to_rank(tm, GEX_RANK_INVALID);
    of_member(tm, GEX_RANK_INVALID);
    of_root(tm, GEX_RANK_INVALID);
    by_domain(tm, GEX_RANK_INVALID, GEX_FLAG_RANK_IS_JOBRANK);
    to_node(GEX_RANK_INVALID);
  }
  if (strcmp(mistake, "beyond_team") == 0) {
    if (wanted != NULL) gex_TM_Split(&alone, tm, 0, 0, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
    to_rank(alone, 1);
    of_member(alone, 1);
    of_root(alone, 1);
    by_domain(wanted != NULL ? alone : tm, 1, 0);
  }
  if (strcmp(mistake, "beyond_pair") == 0)
    to_rank(wanted != NULL ? gex_TM_Pair(ep, 0) : GEX_TM_INVALID, 1);
}

int main(int argc, char** argv) {
  gex_AM_Entry_t table[] = {
      {asked, HANDLER(&on_asked), GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 0, NULL, "asked"},
      {other, HANDLER(&on_other), GEX_FLAG_AM_MEDLONG | GEX_FLAG_AM_REPLY, 0, NULL, "other"}};
  const char* const mistake = argc > 1 ? argv[1] : "";
  wanted = argc > 2 ? argv[2] : NULL;
  if (strcmp(mistake, "early") == 0) {
    to_rank(GEX_TM_INVALID, 0);
    to_node(0);
    of_job();
  } else if (wanted == NULL) {
    make(mistake);
  }
  if (wanted == NULL) return 0;
  join_job("mistakes", GEX_FLAG_USES_GASNET1);
  MUST(gex_EP_RegisterHandlers(ep, table, 2));
  make_segments();
  remote = area[0];
  make(mistake);
  gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));
  meet();
  gasnet_exit(3); /* nobody noticed */
  return 3;
}
