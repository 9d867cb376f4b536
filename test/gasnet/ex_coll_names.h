/* Collectives and teams of gasnetex.h, over the team of all, over halves of it, and over teams that
 * are made of lists, against the result of a loop over all ranks. */
#include <gasnet_coll.h>

#include "ex_job.h"

enum { elements = 3000, user_bytes = 33000 };
static int64_t from[elements], to_all[elements], to_one[elements];

static int64_t value(gex_Rank_t rank, int i) { return (int64_t)(rank + 1) * 1000 + i % 17; }

/* ---- operations of the user's own: sums of vectors of any length; its context is looked at ----
 */
static int context_word;
static void add_pairs(const void* left, void* right_and_out, size_t count, const void* cdata) {
  const int64_t* l = (const int64_t*)left;
  int64_t* r = (int64_t*)right_and_out;
  size_t i;
  CHECK(cdata == &context_word);
  for (i = 0; i < 2 * count; ++i) r[i] += l[i];
}
static void largest_first_byte(const void* left, void* right_and_out, size_t count,
                               const void* cdata) {
  const char* l = (const char*)left;
  char* r = (char*)right_and_out;
  size_t i;
  (void)cdata;
  for (i = 0; i < count; ++i)
    if (l[i * user_bytes] > r[i * user_bytes])
      memcpy(r + i * user_bytes, l + i * user_bytes, user_bytes);
}

static void barriers(gex_TM_t team) {
  gex_Event_t ev[3];
  int i;
  gex_Event_Wait(gex_Coll_BarrierNB(team, 0));
  for (i = 0; i < 3; ++i) ev[i] = gex_Coll_BarrierNB(team, 0);
  gex_Event_WaitAll(ev, 3, 0);
  gex_Coll_BarrierBlocking(team, 0);
}

static void broadcasts(gex_TM_t team) {
  const gex_Rank_t size = gex_TM_QuerySize(team), rank = gex_TM_QueryRank(team);
  gex_Rank_t root;
  int i;
  for (root = 0; root < size; ++root) {
    const gex_Rank_t job = gex_TM_TranslateRankToJobrank(team, root);
    gex_Event_t small, large;
    int64_t word = -1;
    const int64_t sent = value(job, 5);
    for (i = 0; i < elements; ++i) from[i] = value(job, i);
    memset(to_all, 0, sizeof to_all);
    large = gex_Coll_BroadcastNB(team, root, to_all, rank == root ? from : NULL, sizeof from, 0);
    small = gex_Coll_BroadcastNB(team, root, &word, &sent, sizeof word, 0);
    while (gex_Event_Test(small) != GASNET_OK) gasnet_AMPoll();
    gex_Event_Wait(large);
    CHECK(word == sent && memcmp(to_all, from, sizeof from) == 0);
    if (rank != root) memset(from, 0, sizeof from);
    gex_Event_Wait(gex_Coll_BroadcastNB(team, root, from, from, sizeof from, 0)); /* in place */
    CHECK(memcmp(to_all, from, sizeof from) == 0);
  }
}

#define EXPECT(team, expression, start)                                          \
  do {                                                                           \
    gex_Rank_t member;                                                           \
    for (i = 0; i < elements; ++i) {                                             \
      int64_t x = (start);                                                       \
      for (member = 0; member < gex_TM_QuerySize(team); ++member) {              \
        const int64_t v = value(gex_TM_TranslateRankToJobrank(team, member), i); \
        x = (expression);                                                        \
      }                                                                          \
      wanted[i] = x;                                                             \
    }                                                                            \
  } while (0)

static void reductions(gex_TM_t team) {
  static int64_t wanted[elements];
  const gex_Rank_t size = gex_TM_QuerySize(team), rank = gex_TM_QueryRank(team);
  const gex_Rank_t root = size - 1;
  static const gex_OP_t ops[] = {GEX_OP_ADD, GEX_OP_MULT, GEX_OP_MIN, GEX_OP_MAX,
                                 GEX_OP_AND, GEX_OP_OR,   GEX_OP_XOR};
  static char user_from[2 * user_bytes], user_to[2 * user_bytes];
  float f = (float)rank + 1, sum_f = 0, wanted_f = 0;
  double d = (double)rank + 1, most_d = 0;
  int32_t n = -(int32_t)rank, least_n = 0;
  uint32_t bits = 1u << rank % 32, all_bits = 0, wanted_bits = 0;
  uint64_t one = 1, count = 0;
  const gex_Coll_ReduceFn_t pairs = &add_pairs;
  gex_Event_t ev[5];
  gex_Rank_t r;
  int o, i;
  for (o = 0; o < 7; ++o) {
    for (i = 0; i < elements; ++i) from[i] = value(me, i);
    switch (ops[o]) {
      case GEX_OP_ADD:
        EXPECT(team, x + v, 0);
        break;
      case GEX_OP_MULT:
        EXPECT(team, (int64_t)((uint64_t)x * (uint64_t)v), 1);
        break;
      case GEX_OP_MIN:
        EXPECT(team, v < x ? v : x, INT64_MAX);
        break;
      case GEX_OP_MAX:
        EXPECT(team, v > x ? v : x, INT64_MIN);
        break;
      case GEX_OP_AND:
        EXPECT(team, x & v, -1);
        break;
      case GEX_OP_OR:
        EXPECT(team, x | v, 0);
        break;
      default:
        EXPECT(team, x ^ v, 0);
        break;
    }
    ev[0] =
        gex_Coll_ReduceToAllNB(team, to_all, from, GEX_DT_I64, 8, elements, ops[o], NULL, NULL, 0);
    memset(to_one, 0x55, sizeof to_one);
    ev[1] = gex_Coll_ReduceToOneNB(team, root, rank == root ? to_one : NULL, from, GEX_DT_I64, 8,
                                   elements, ops[o], NULL, NULL, 0);
    gex_Event_WaitAll(ev, 2, 0);
    CHECK(memcmp(to_all, wanted, sizeof wanted) == 0);
    CHECK(rank != root || memcmp(to_one, wanted, sizeof wanted) == 0);
    gex_Event_Wait(gex_Coll_ReduceToAllNB(team, from, from, GEX_DT_I64, 8, elements, ops[o], NULL,
                                          NULL, 0)); /* in place */
    CHECK(memcmp(from, wanted, sizeof wanted) == 0);
  }
  for (r = 0; r < size; ++r) {
    wanted_f += (float)r + 1;
    wanted_bits |= 1u << r % 32;
  }
  ev[0] = gex_Coll_ReduceToAllNB(team, &sum_f, &f, GEX_DT_FLT, 4, 1, GEX_OP_ADD, NULL, NULL, 0);
  ev[1] = gex_Coll_ReduceToAllNB(team, &most_d, &d, GEX_DT_DBL, 8, 1, GEX_OP_MAX, NULL, NULL, 0);
  ev[2] = gex_Coll_ReduceToAllNB(team, &least_n, &n, GEX_DT_I32, 4, 1, GEX_OP_MIN, NULL, NULL, 0);
  ev[3] =
      gex_Coll_ReduceToAllNB(team, &all_bits, &bits, GEX_DT_U32, 4, 1, GEX_OP_OR, NULL, NULL, 0);
  ev[4] = gex_Coll_ReduceToAllNB(team, &count, &one, GEX_DT_U64, 8, 1, GEX_OP_ADD, NULL, NULL, 0);
  gex_Event_WaitAll(ev, 5, 0);
  CHECK(sum_f == wanted_f && most_d == (double)size && least_n == -(int32_t)(size - 1));
  CHECK(all_bits == wanted_bits && count == size);

  /* The user's: pairs of numbers, and elements larger than any message. */
  for (i = 0; i < elements; ++i) from[i] = value(me, i);
  EXPECT(team, x + v, 0);
  gex_Event_Wait(gex_Coll_ReduceToAllNB(team, to_all, from, GEX_DT_USER, 16, elements / 2,
                                        GEX_OP_USER, pairs, &context_word, 0));
  CHECK(memcmp(to_all, wanted, sizeof wanted) == 0);
  memset(user_from, (int)rank + 1, sizeof user_from);
  gex_Event_Wait(gex_Coll_ReduceToOneNB(team, 0, user_to, user_from, GEX_DT_USER, user_bytes, 2,
                                        GEX_OP_USER, largest_first_byte, NULL, 0));
  if (rank == 0)
    for (i = 0; i < 2 * user_bytes; ++i) CHECK(user_to[i] == (char)size);
}

static void all_of_it(gex_TM_t team) {
  barriers(team);
  broadcasts(team);
  reductions(team);
}

static void splits(void) {
  gex_TM_t half = GEX_TM_INVALID, backwards = GEX_TM_INVALID, none = GEX_TM_INVALID;
  const size_t wanted =
      gex_TM_Split(&half, tm, (int)(me % 2), 0, NULL, 0, GEX_FLAG_TM_SCRATCH_SIZE_RECOMMENDED);
  gex_Memvec_t scratch;
  char* const mine = area[me] + segment_bytes / 2;
  gex_Rank_t r;
  CHECK(wanted > 0 && half == GEX_TM_INVALID);
  CHECK(gex_TM_Split(&half, tm, 0, 0, NULL, 0, GEX_FLAG_TM_SCRATCH_SIZE_MIN) > 0);
  (void)gex_TM_Split(&half, tm, (int)(me % 2), (int)me, mine, wanted, 0);
  CHECK(half != GEX_TM_INVALID && half != tm && gex_TM_QuerySize(half) == (nodes + 1 - me % 2) / 2);
  CHECK(gex_TM_QueryRank(half) == me / 2 && gex_TM_QueryEP(half) == ep);
  for (r = 0; r < gex_TM_QuerySize(half); ++r)
    CHECK(gex_TM_TranslateRankToJobrank(half, r) == 2 * r + me % 2);
  CHECK(gex_TM_TranslateJobrankToRank(half, me) == me / 2);
  if (nodes > 1) CHECK(gex_TM_TranslateJobrankToRank(half, me ^ 1) == GEX_RANK_INVALID);
  /* A put that names its target by a rank in the team. */
  r = (gex_TM_QueryRank(half) + 1) % gex_TM_QuerySize(half);
  gex_RMA_PutBlocking(half, r, area[gex_TM_TranslateRankToJobrank(half, r)], &me, sizeof me, 0);
  all_of_it(half);
  CHECK(*(gex_Rank_t*)(void*)area[me] % 2 == me % 2);
  (void)gex_TM_Split(&backwards, tm, 7, -(int)me, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
  CHECK(gex_TM_QueryRank(backwards) == nodes - 1 - me && gex_TM_QuerySize(backwards) == nodes);
  all_of_it(backwards);
  /* Only the first joins. */
  (void)gex_TM_Split(me == 0 ? &none : NULL, tm, 0, 0, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
  CHECK((none != GEX_TM_INVALID) == (me == 0));
  if (me == 0) {
    CHECK(gex_TM_QuerySize(none) == 1);
    all_of_it(none);
    CHECK(gex_TM_Destroy(none, &scratch, GEX_FLAG_GLOBALLY_QUIESCED) == 0);
  }
  memset(&scratch, 0, sizeof scratch);
  CHECK(gex_TM_Destroy(half, &scratch, 0) != 0);
  CHECK(scratch.gex_addr == mine && scratch.gex_len == wanted);
  CHECK(gex_TM_Destroy(backwards, NULL, 0) == 0);
}

static void lists(void) {
  gex_EP_Location_t members[most_nodes];
  gex_Addr_t scratch_at = area[me] + 4096;
  gex_Memvec_t scratch;
  gex_TM_t made = GEX_TM_INVALID;
  const gex_Rank_t half = (nodes + 1) / 2, low = me < half;
  const gex_Rank_t count = low ? half : nodes - half;
  const gex_Flags_t flags = GEX_FLAG_TM_LOCAL_SCRATCH | GEX_FLAG_RANK_IS_JOBRANK;
  gex_Rank_t i;
  size_t wanted;
  for (i = 0; i < count; ++i) { /* from the highest down */
    members[i].gex_rank = (low ? half : nodes) - 1 - i;
    members[i].gex_ep_index = 0;
  }
  wanted = gex_TM_Create(&made, 1, tm, members, count, NULL, 0,
                         flags | GEX_FLAG_TM_SCRATCH_SIZE_RECOMMENDED);
  CHECK(wanted > 0);
  (void)gex_TM_Create(&made, 1, tm, members, count, &scratch_at, wanted, flags);
  CHECK(made != GEX_TM_INVALID && gex_TM_QuerySize(made) == count);
  for (i = 0; i < count; ++i) CHECK(gex_TM_TranslateRankToJobrank(made, i) == members[i].gex_rank);
  CHECK(members[gex_TM_QueryRank(made)].gex_rank == me);
  all_of_it(made);
  CHECK(gex_TM_Destroy(made, &scratch, GEX_FLAG_GLOBALLY_QUIESCED * 0) != 0);
  CHECK(scratch.gex_addr == scratch_at && scratch.gex_len == wanted);
}

static int ex_coll_names(void) {
  join_job("collectives", 0);
  barriers(tm); /* before there are segments */
  make_segments();
  all_of_it(tm);
  splits();
  lists();
  all_of_it(tm);
  finish();
  return 1;
}
