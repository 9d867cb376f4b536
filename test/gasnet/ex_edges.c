/* Legal calls at the edges of what gasnetex.h allows: nothing to move, leaves beside their roots in
 * one array, pieces cut differently on the two sides, atomics at the ends of their types, and
 * requests that may not wait while nobody polls. */
#include <float.h>
#include <gasnet_coll.h>
#include <gasnet_ratomic.h>
#include <gasnet_vis.h>
#include <limits.h>
#include <math.h>

#include "ex_job.h"

enum { on_flood = 201, large = 200000 };
static unsigned char bytes[large];
static volatile int arrived = 0;
static int counted = 0; /* (lock) */
static gex_HSL_t lock = GEX_HSL_INITIALIZER;

static void flood_came(gex_Token_t token, void* buf, size_t nbytes) {
  size_t i, bad = 0;
  (void)token;
  for (i = 0; i < nbytes; ++i) bad += ((unsigned char*)buf)[i] != (unsigned char)i;
  CHECK(bad == 0);
  gex_HSL_Lock(&lock);
  arrived = ++counted;
  gex_HSL_Unlock(&lock);
}

/* ---- nothing to move ---- */

static void no_bytes(gex_Rank_t r) {
  gex_Event_t ev[4], lc = GEX_EVENT_INVALID;
  ptrdiff_t strides[2] = {8, 64};
  const size_t counts[2] = {3, 0};
  CHECK(gex_RMA_PutBlocking(tm, r, area[r] + segment_bytes, NULL, 0, 0) == 0);
  CHECK(gex_RMA_GetBlocking(tm, NULL, r, NULL, 0, 0) == 0);
  ev[0] = gex_RMA_PutNB(tm, r, area[r], NULL, 0, GEX_EVENT_NOW, 0);
  ev[1] = gex_RMA_PutNB(tm, r, area[r], NULL, 0, GEX_EVENT_DEFER, 0);
  ev[2] = gex_RMA_PutNB(tm, r, area[r], NULL, 0, &lc, 0);
  ev[3] = gex_RMA_GetNB(tm, NULL, r, area[r], 0, 0);
  gex_Event_Wait(lc);
  gex_Event_WaitAll(ev, 4, 0);
  CHECK(gex_RMA_PutNBI(tm, r, area[r], NULL, 0, GEX_EVENT_GROUP, 0) == 0);
  CHECK(gex_RMA_GetNBI(tm, NULL, r, area[r], 0, 0) == 0);
  gex_NBI_Wait(GEX_EC_ALL, 0);
  gex_NBI_BeginAccessRegion(0);
  gex_Event_Wait(gex_NBI_EndAccessRegion(0));
  gex_VIS_VectorPutBlocking(tm, r, 0, NULL, 0, NULL, 0);
  gex_VIS_IndexedGetBlocking(tm, 0, NULL, 3, r, 0, NULL, 5, 0);
  gex_VIS_StridedPutBlocking(tm, r, NULL, NULL, NULL, NULL, 0, NULL, 3, 0);
  gex_VIS_StridedGetBlocking(tm, NULL, strides, r, NULL, strides, 4, counts, 2, 0);
  gex_Event_WaitAll(NULL, 0, 0);
  CHECK(gex_Event_TestSome(NULL, 0, 0) == GASNET_OK);
  ev[0] = ev[1] = GEX_EVENT_INVALID;
  gex_Event_WaitSome(ev, 2, 0);
  CHECK(gex_Event_QueryLeaf(GEX_EVENT_INVALID, GEX_EC_LC) == GEX_EVENT_INVALID);
}

/* ---- leaves and roots in one array, in every order ---- */

static void leaves(gex_Rank_t r) {
  char* const there = area[r] + 300000;
  unsigned k, i;
  for (k = 0; k < 4; ++k) {
    gex_Event_t two[2], five[5];
    two[1 - k % 2] = GEX_EVENT_INVALID;
    two[k % 2] = gex_RMA_PutNB(tm, r, there, bytes, large, &two[1 - k % 2], 0);
    if (k < 2)
      gex_Event_WaitAll(two, 2, 0);
    else
      while (two[0] != GEX_EVENT_INVALID || two[1] != GEX_EVENT_INVALID)
        gex_Event_WaitSome(two, 2, 0);
    CHECK(two[0] == GEX_EVENT_INVALID && two[1] == GEX_EVENT_INVALID);
    gex_NBI_BeginAccessRegion(0);
    CHECK(gex_RMA_PutNBI(tm, r, there, bytes, large, GEX_EVENT_GROUP, 0) == 0);
    CHECK(gex_RMA_GetNBI(tm, &i, r, area[r], sizeof i, 0) == 0);
    five[k] = gex_NBI_EndAccessRegion(0); /* the root has four places */
    five[(k + 1) % 5] = gex_Event_QueryLeaf(five[k], GEX_EC_LC);
    five[(k + 2) % 5] = gex_Event_QueryLeaf(five[k], GEX_EC_GET);
    five[(k + 3) % 5] = gex_Event_QueryLeaf(five[k], GEX_EC_PUT);
    five[(k + 4) % 5] = gex_Event_QueryLeaf(five[k], GEX_EC_RMW);
    gex_Event_WaitAll(five, 5, 0);
    for (i = 0; i < 5; ++i) CHECK(five[i] == GEX_EVENT_INVALID);
  }
}

/* ---- 24 bytes in pieces of every length that divides them, on either side ---- */

static void chunkings(gex_Rank_t r) {
  static const size_t lengths[] = {1, 2, 3, 4, 6, 8, 12, 24};
  char* const there = area[r] + 600000;
  size_t x, y, j;
  for (x = 0; x < 8; ++x)
    for (y = 0; y < 8; ++y) {
      const size_t dst = lengths[x], src = lengths[y];
      void *to[24], *from[24], *single[24], *whole;
      unsigned char got[24], wanted[24];
      for (j = 0; j < 24 / dst; ++j) to[j] = there + (24 / dst - 1 - j) * (dst + 3);
      for (j = 0; j < 24 / src; ++j) from[j] = bytes + 100 + j * (src + 5);
      for (j = 0; j < 24; ++j) {
        wanted[j] = bytes[100 + j / src * (src + 5) + j % src];
        single[j] = got + j;
      }
      whole = got;
      gex_VIS_IndexedPutBlocking(tm, r, 24 / dst, to, dst, 24 / src, from, src, 0);
      memset(got, 0, sizeof got);
      gex_VIS_IndexedGetBlocking(tm, 1, &whole, 24, r, 24 / dst, to, dst, 0);
      CHECK(memcmp(got, wanted, sizeof got) == 0);
      memset(got, 0, sizeof got);
      gex_Event_Wait(gex_VIS_IndexedGetNB(tm, 24, single, 1, r, 24 / dst, to, dst, 0));
      CHECK(memcmp(got, wanted, sizeof got) == 0);
    }
}

/* ---- atomics at the ends of their types; each rank has a word of its own at rank 0 ---- */

/* Sets the word to `before`, applies the operation, and expects to find `wanted`. */
#define AT_EDGE(type, word, before, op, operand, wanted)                        \
  do {                                                                          \
    type old = 0, found = 0;                                                    \
    const type expected = (wanted), was = (before);                             \
    gex_Event_Wait(gex_AD_OpNB_##word(ad, NULL, 0, at, GEX_OP_SET, was, 0, 0)); \
    gex_Event_Wait(gex_AD_OpNB_##word(ad, &old, 0, at, op, (operand), 0, 0));   \
    gex_Event_Wait(gex_AD_OpNB_##word(ad, &found, 0, at, GEX_OP_GET, 0, 0, 0)); \
    CHECK(memcmp(&old, &was, sizeof old) == 0);                                 \
    CHECK(memcmp(&found, &expected, sizeof found) == 0);                        \
  } while (0)

#define INTEGER_EDGES(type, unsigned_type, word, least, most)                         \
  static void edges_##word(void) {                                                    \
    type* const at = (type*)(void*)(area[0] + 65536 + 64 * me);                       \
    gex_AD_t ad;                                                                      \
    gex_AD_Create(&ad, tm, GEX_DT_##word,                                             \
                  GEX_OP_SET | GEX_OP_GET | GEX_OP_FINC | GEX_OP_FDEC | GEX_OP_FADD | \
                      GEX_OP_FSUB | GEX_OP_FMULT | GEX_OP_FMIN | GEX_OP_FMAX,         \
                  0);                                                                 \
    AT_EDGE(type, word, most, GEX_OP_FINC, 0, least);                                 \
    AT_EDGE(type, word, least, GEX_OP_FDEC, 0, most);                                 \
    AT_EDGE(type, word, most, GEX_OP_FADD, most, (type)((unsigned_type)(most)*2u));   \
    AT_EDGE(type, word, least, GEX_OP_FSUB, 1, most);                                 \
    AT_EDGE(type, word, most, GEX_OP_FMULT, 2, (type)((unsigned_type)(most)*2u));     \
    AT_EDGE(type, word, least, GEX_OP_FMIN, most, least);                             \
    AT_EDGE(type, word, least, GEX_OP_FMAX, most, most);                              \
    meet();                                                                           \
    gex_AD_Destroy(ad);                                                               \
  }
INTEGER_EDGES(int32_t, uint32_t, I32, INT32_MIN, INT32_MAX)
INTEGER_EDGES(uint32_t, uint32_t, U32, 0, UINT32_MAX)
INTEGER_EDGES(int64_t, uint64_t, I64, INT64_MIN, INT64_MAX)
INTEGER_EDGES(uint64_t, uint64_t, U64, 0, UINT64_MAX)

static void edges_DBL(void) {
  double* const at = (double*)(void*)(area[0] + 65536 + 64 * me);
  double old = 0;
  gex_AD_t ad;
  gex_AD_Create(&ad, tm, GEX_DT_DBL,
                GEX_OP_SET | GEX_OP_GET | GEX_OP_SWAP | GEX_OP_FADD | GEX_OP_FSUB | GEX_OP_FMULT,
                0);
  AT_EDGE(double, DBL, DBL_MAX, GEX_OP_FADD, DBL_MAX, (double)INFINITY);
  AT_EDGE(double, DBL, -DBL_MAX, GEX_OP_FMULT, 2, -(double)INFINITY);
  AT_EDGE(double, DBL, DBL_MIN, GEX_OP_SWAP, -0.0, -0.0);
  gex_Event_Wait(gex_AD_OpNB_DBL(ad, NULL, 0, at, GEX_OP_SET, (double)INFINITY, 0, 0));
  gex_Event_Wait(gex_AD_OpNB_DBL(ad, &old, 0, at, GEX_OP_FSUB, (double)INFINITY, 0, 0));
  gex_Event_Wait(gex_AD_OpNB_DBL(ad, &old, 0, at, GEX_OP_SWAP, 1, 0, 0));
  CHECK(isnan(old));
  meet();
  gex_AD_Destroy(ad);
}

/* ---- requests that may not wait, to a rank that does not poll: what is said to be sent arrives,
 * and nothing else ---- */

static int64_t sum(int64_t mine) {
  int64_t all = -1;
  gex_Event_Wait(
      gex_Coll_ReduceToAllNB(tm, &all, &mine, GEX_DT_I64, 8, 1, GEX_OP_ADD, NULL, NULL, 0));
  return all;
}

static void flood(void) {
  static const size_t sizes[] = {8, 3000, 60000};
  int64_t sent = 0, all;
  int i;
  meet();
  for (i = 0; i < 3000; ++i)
    sent += gex_AM_RequestMedium0(tm, next_rank, on_flood, bytes, sizes[i % 3], GEX_EVENT_NOW,
                                  GEX_FLAG_IMMEDIATE) == 0;
  for (i = 0; i < 300; ++i) {
    const gex_AM_SrcDesc_t sd =
        gex_AM_PrepareRequestMedium(tm, next_rank, NULL, 64, 64, NULL, GEX_FLAG_IMMEDIATE, 0);
    if (sd == GEX_AM_SRCDESC_NO_OP) continue;
    memcpy(gex_AM_SrcDescAddr(sd), bytes, 17);
    if (i % 3 == 0) {
      CHECK(gex_AM_CancelRequestMedium(sd, 0) == 0);
    } else if (gex_AM_CommitRequestMedium0_v2(sd, on_flood, 17, GEX_FLAG_IMMEDIATE) == 0) {
      ++sent;
    } else {
      CHECK(gex_AM_CancelRequestMedium(sd, 0) == 0);
    }
  }
  all = sum(sent);
  while (sum(arrived) < all) gasnet_AMPoll();
  meet();
  CHECK(sum(arrived) == all && sent > 0);
}

int main(void) {
  gex_AM_Entry_t table[] = {
      {on_flood, HANDLER(flood_came), GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REQUEST, 0, NULL, "flood"}};
  gex_Rank_t r;
  int i;
  for (i = 0; i < large; ++i) bytes[i] = (unsigned char)i;
  join_job("EDGES", 0);
  make_segments();
  MUST(gex_EP_RegisterHandlers(ep, table, 1));
  meet();
  for (r = 0; r < nodes; ++r) no_bytes(r);
  leaves(next_rank);
  chunkings(next_rank);
  edges_I32();
  edges_U32();
  edges_I64();
  edges_U64();
  edges_DBL();
  flood();
  finish();
  return 1;
}
