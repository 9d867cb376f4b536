/* What each event tells (specification 0.19, "Extended API", notes 1 to 2b, "Event test/wait
 * operations", "Remote Atomics", "VIS"). An operation of each kind is begun, in an access region,
 * by NBI, and with an event of its own; the leaf or category of one kind is waited for, in every
 * order; and what that kind promises is there at once: what was fetched, what was put, and that a
 * source may be written over. A leaf does not end its root. */
#include <gasnet_coll.h>
#include <gasnet_ratomic.h>
#include <gasnet_vis.h>

#include "ex_job.h"

enum { large = 120000, pieces = 20, piece = 100, on_long = 160 };
enum { where_put = 0, where_get = 200000, where_words = 400000, where_pieces = 500000 };
static unsigned char source[large], got[large], list_source[pieces * piece];
static uint64_t added_to, read_word;
static gex_AD_t ad;
static gex_Rank_t to;
static unsigned round_number;

static const gex_EC_t kinds[4] = {GEX_EC_LC, GEX_EC_PUT, GEX_EC_GET, GEX_EC_RMW};

static unsigned char byte_of(size_t i) { return (unsigned char)(i * 11 + i / 251 + round_number); }
static void fill(unsigned char* at, size_t n) {
  size_t i;
  for (i = 0; i < n; ++i) at[i] = byte_of(i);
}
static int holds(const unsigned char* at, size_t n) {
  size_t i;
  for (i = 0; i < n; ++i)
    if (at[i] != byte_of(i)) return 0;
  return 1;
}
/* A rank works in the next one's segment, so that only it changes what is there. */
static int is_there(size_t where, size_t n) {
  static unsigned char copy[large];
  CHECK(gex_RMA_GetBlocking(tm, copy, to, area[to] + where, n, 0) == 0);
  return holds(copy, n);
}
static uint64_t word_there(size_t k) {
  uint64_t w = 0;
  CHECK(gex_RMA_GetBlocking(tm, &w, to, area[to] + where_words + 8 * k, 8, 0) == 0);
  return w;
}

/* ---- one of each kind, as implicit operations ---- */

static void begin_each(void) {
  const uint64_t zero = 0;
  ++round_number;
  fill(got, large); /* what the get will find */
  CHECK(gex_RMA_PutBlocking(tm, to, area[to] + where_get, got, large, 0) == 0);
  CHECK(gex_RMA_PutBlocking(tm, to, area[to] + where_words, &zero, 8, 0) == 0);
  CHECK(gex_RMA_PutBlocking(tm, to, area[to] + where_words + 8, &zero, 8, 0) == 0);
  memset(got, 0, sizeof got);
  fill(source, large);
  fill(list_source, sizeof list_source);
  added_to = read_word = 77;
}
static void implicit_ones(void) {
  const ptrdiff_t near[1] = {piece}, far[1] = {piece + 28};
  const size_t count[1] = {pieces};
  CHECK(gex_RMA_PutNBI(tm, to, area[to] + where_put, source, large, GEX_EVENT_GROUP, 0) == 0);
  CHECK(gex_VIS_StridedPutNBI(tm, to, area[to] + where_pieces, far, list_source, near, piece, count,
                              1, GEX_FLAG_ENABLE_LEAF_LC) == 0);
  CHECK(gex_RMA_GetNBI(tm, got, to, area[to] + where_get, large, 0) == 0);
  CHECK(gex_AD_OpNBI_U64(ad, &added_to, to, area[to] + where_words, GEX_OP_FADD, 5, 0, 0) == 0);
  CHECK(gex_AD_OpNBI_U64(ad, NULL, to, area[to] + where_words + 8, GEX_OP_SET, 1000 + round_number,
                         0, 0) == 0);
  CHECK(gex_AD_OpNBI_U64(ad, &read_word, to, area[to] + where_words + 16, GEX_OP_GET, 0, 0, 0) ==
        0);
}
/* What the end of a kind promises. */
static void is_promised(gex_EC_t kind) {
  size_t i, k;
  switch (kind) {
    case GEX_EC_LC:
      memset(source, 0xee, sizeof source);
      memset(list_source, 0xee, sizeof list_source);
      break;
    case GEX_EC_PUT: /* "for GEX_OP_SET and GEX_OP_GET use GEX_EC_PUT and GEX_EC_GET" */
      CHECK(is_there(where_put, large));
      CHECK(word_there(1) == 1000 + round_number);
      for (k = 0; k < pieces; ++k) {
        unsigned char copy[piece];
        gex_RMA_GetBlocking(tm, copy, to, area[to] + where_pieces + k * (piece + 28), piece, 0);
        for (i = 0; i < piece; ++i) CHECK(copy[i] == byte_of(k * piece + i));
      }
      break;
    case GEX_EC_GET:
      CHECK(holds(got, large));
      CHECK(read_word == 4711);
      break;
    default:
      CHECK(added_to == 0);
      CHECK(word_there(0) == 5);
  }
}

/* ---- each order of the four kinds ---- */

static void each_order(void (*one)(const int order[4])) {
  int a, b, c;
  for (a = 0; a < 4; ++a)
    for (b = 0; b < 4; ++b)
      for (c = 0; c < 4; ++c) {
        int order[4];
        order[0] = a, order[1] = b, order[2] = c, order[3] = 6 - a - b - c;
        if (a != b && a != c && b != c) one(order);
      }
}

static void by_category(const int order[4]) {
  int i;
  begin_each();
  implicit_ones();
  for (i = 0; i < 4; ++i) {
    if (i % 2 == 0)
      gex_NBI_Wait(kinds[order[i]], 0);
    else
      while (gex_NBI_Test(kinds[order[i]], 0) != GASNET_OK) gasnet_AMPoll();
    is_promised(kinds[order[i]]);
  }
  CHECK(gex_NBI_Test(GEX_EC_ALL, 0) == GASNET_OK);
}

static void by_leaf(const int order[4]) {
  gex_Event_t root;
  int i, again;
  begin_each();
  gex_NBI_BeginAccessRegion(0);
  implicit_ones();
  root = gex_NBI_EndAccessRegion(0);
  CHECK(gex_NBI_Test(GEX_EC_ALL, 0) == GASNET_OK); /* they are not among the thread's */
  for (i = 0; i < 4; ++i) {
    const gex_Event_t leaf = gex_Event_QueryLeaf(root, kinds[order[i]]);
    gex_Event_Wait(leaf);
    is_promised(kinds[order[i]]);
    for (again = 0; again < 2; ++again) { /* a query, and it stays done */
      const gex_Event_t same = gex_Event_QueryLeaf(root, kinds[order[i]]);
      CHECK(same == GEX_EVENT_INVALID || gex_Event_Test(same) == GASNET_OK);
    }
  }
  gex_Event_Wait(root);
}

/* ---- events of their own ---- */

static void own_events(const int order[4]) {
  const ptrdiff_t near[1] = {piece}, far[1] = {piece + 28};
  const size_t count[1] = {pieces};
  gex_Event_t ev[6], lc = GEX_EVENT_NO_OP;
  int i;
  begin_each();
  ev[0] = gex_RMA_PutNB(tm, to, area[to] + where_put, source, large, &lc, 0);
  ev[1] = gex_VIS_StridedPutNB(tm, to, area[to] + where_pieces, far, list_source, near, piece,
                               count, 1, GEX_FLAG_ENABLE_LEAF_LC);
  ev[2] = gex_AD_OpNB_U64(ad, NULL, to, area[to] + where_words + 8, GEX_OP_SET, 1000 + round_number,
                          0, 0);
  ev[3] = gex_RMA_GetNB(tm, got, to, area[to] + where_get, large, 0);
  ev[4] = gex_AD_OpNB_U64(ad, &read_word, to, area[to] + where_words + 16, GEX_OP_GET, 0, 0, 0);
  ev[5] = gex_AD_OpNB_U64(ad, &added_to, to, area[to] + where_words, GEX_OP_FADD, 5, 0, 0);
  for (i = 0; i < 6; ++i) CHECK(ev[i] != GEX_EVENT_NO_OP);
  for (i = 0; i < 4; ++i) {
    switch (kinds[order[i]]) {
      case GEX_EC_LC: /* before or after its root */
        if (ev[0] != GEX_EVENT_INVALID) gex_Event_Wait(lc);
        if (ev[1] != GEX_EVENT_INVALID) gex_Event_Wait(gex_Event_QueryLeaf(ev[1], GEX_EC_LC));
        break;
      case GEX_EC_PUT:
        gex_Event_WaitAll(ev, 3, 0);
        break;
      case GEX_EC_GET:
        gex_Event_WaitAll(ev + 3, 2, 0);
        break;
      default:
        gex_Event_WaitAll(ev + 5, 1, 0);
    }
    is_promised(kinds[order[i]]);
  }
}

/* ---- local completion of messages ---- */

static void on_long_here(gex_Token_t token, void* at, size_t n, gex_AM_Arg_t seed) {
  size_t i, bad = 0;
  (void)token;
  for (i = 0; i < n; ++i)
    bad += ((unsigned char*)at)[i] != (unsigned char)(i * 11 + i / 251 + (size_t)seed);
  CHECK(bad == 0);
  answers = answers + 1;
}
static void messages(void) {
  static const size_t sizes[] = {40, 4000, 60000};
  int s, is_long, how, sent = 0;
  for (s = 0; s < 3; ++s)
    for (is_long = 0; is_long < 2; ++is_long)
      for (how = 0; how < 2; ++how) {
        gex_Event_t lc = GEX_EVENT_NO_OP;
        gex_Event_t* const opt = how == 0 ? &lc : GEX_EVENT_GROUP;
        const gex_AM_Arg_t seed = (gex_AM_Arg_t)++round_number;
        fill(source, sizes[s]);
        if (is_long)
          CHECK(gex_AM_RequestLong1(tm, to, on_long, source, sizes[s], area[to] + where_put, opt, 0,
                                    seed) == 0);
        else
          CHECK(gex_AM_RequestMedium1(tm, to, on_long, source, sizes[s], opt, 0, seed) == 0);
        if (how == 0)
          gex_Event_Wait(lc); /* a root event */
        else
          gex_NBI_Wait(GEX_EC_AM, 0);
        memset(source, 0xee, sizes[s]);
        ++sent;
        GASNET_BLOCKUNTIL(answers == sent);
        meet(); /* the next Long goes to the same place */
      }
}

int main(void) {
  gex_AM_Entry_t table[] = {{on_long, HANDLER(&on_long_here),
                             GEX_FLAG_AM_MEDLONG | GEX_FLAG_AM_REQUEST, 1, NULL, "long"}};
  const uint64_t constant = 4711;
  unsigned target;
  join_job("leaves", 0);
  MUST(gex_EP_RegisterHandlers(ep, table, 1));
  make_segments();
  /* No device multiplies, so atomics go by message where nothing is mapped. */
  for (target = 0; target < 2; ++target) {
    gex_AD_Create(&ad, tm, GEX_DT_U64,
                  GEX_OP_FADD | GEX_OP_SET | GEX_OP_GET | (target == 0 ? 0 : GEX_OP_FMULT), 0);
    to = target == 0 ? me : next_rank;
    CHECK(gex_RMA_PutBlocking(tm, to, area[to] + where_words + 16, &constant, 8, 0) == 0);
    meet();
    each_order(&by_category);
    each_order(&by_leaf);
    each_order(&own_events);
    meet();
    gex_AD_Destroy(ad);
  }
  messages();
  finish();
  return 1;
}
