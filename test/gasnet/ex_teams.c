/* Small collectives over many teams: all sizes about the one up to which members exchange lines of
 * shared memory, every root, results in the order of ranks, many in flight, teams that are made and
 * forgotten again and again, and calls over different teams in different orders. */
#include <gasnet.h>
#include <gasnet_coll.h>

#include "ex_job.h"

enum { in_flight = 40, most_bytes = 64, kept = 12 };
static int legacy; /* gasnet_coll_* may be called over the team of all */

static unsigned char byte_of(gex_Rank_t job, int round, size_t at) {
  return (unsigned char)(job * 31 + (unsigned)round * 7 + at * 3 + 1);
}
static void fill(unsigned char* to, gex_Rank_t job, int round, size_t bytes) {
  size_t i;
  for (i = 0; i < bytes; ++i) to[i] = byte_of(job, round, i);
}
static int holds(const unsigned char* at, gex_Rank_t job, int round, size_t bytes) {
  size_t i;
  for (i = 0; i < bytes; ++i)
    if (at[i] != byte_of(job, round, i)) return 0;
  return 1;
}

/* Broadcasts of every size and from every root, many in flight, synchronized from the last one on.
 * Each source is written over as soon as its event allows. */
static void broadcasts(gex_TM_t team) {
  static unsigned char from[in_flight][most_bytes], to[in_flight][most_bytes + 1];
  const gex_Rank_t size = gex_TM_QuerySize(team), rank = gex_TM_QueryRank(team);
  gex_Event_t ev[in_flight];
  int i;
  for (i = 0; i < in_flight; ++i) {
    const gex_Rank_t root = (gex_Rank_t)(i / 3) % size;
    const size_t bytes = (size_t)(i * 5 % (most_bytes + 1));
    memset(to[i], 0, sizeof to[i]);
    fill(from[i], me, i, bytes);
    ev[i] = gex_Coll_BroadcastNB(team, root, to[i], rank == root ? from[i] : NULL, bytes, 0);
  }
  for (i = in_flight; i-- > 0;) {
    gex_Event_Wait(ev[i]);
    memset(from[i], 0xee, most_bytes);
  }
  for (i = 0; i < in_flight; ++i) {
    const gex_Rank_t root = gex_TM_TranslateRankToJobrank(team, (gex_Rank_t)(i / 3) % size);
    const size_t bytes = (size_t)(i * 5 % (most_bytes + 1));
    CHECK(holds(to[i], root, i, bytes) && to[i][bytes] == 0);
  }
}

/* A root that runs ahead of the others as far as it may, and whose source changes each time. */
static void stream(gex_TM_t team, gex_Rank_t root, int length) {
  const gex_Rank_t rank = gex_TM_QueryRank(team);
  int i, good = 1;
  for (i = 0; i < length; ++i) {
    int64_t word = rank == root ? 1000 + i : -1;
    gex_Event_Wait(gex_Coll_BroadcastNB(team, root, &word, &word, sizeof word, 0));
    good = good && word == 1000 + i;
  }
  for (i = 0; i < length; ++i) {
    int64_t sum = -1, one = (int64_t)rank + i;
    gex_Event_Wait(gex_Coll_ReduceToOneNB(team, root, &sum, &one, GEX_DT_I64, 8, 1, GEX_OP_ADD,
                                          NULL, NULL, 0));
    if (rank == root) {
      const int64_t size = (int64_t)gex_TM_QuerySize(team);
      good = good && sum == size * (size - 1) / 2 + size * i;
    } else {
      good = good && sum == -1;
    }
  }
  CHECK(good);
}

/* Maps x -> a * x + b modulo 2^32, which compose, but not in any order. */
typedef struct {
  uint32_t a, b;
} affine;
static affine map_of(gex_Rank_t rank, unsigned i) {
  affine f;
  f.a = 2 * rank + 3 + 2 * i;
  f.b = 7 * rank + i + 1;
  return f;
}
static affine after(affine l, affine r) {
  affine f;
  f.a = l.a * r.a;
  f.b = l.a * r.b + l.b;
  return f;
}
static void compose(const void* left, void* right_and_out, size_t count, const void* cdata) {
  const affine* l = (const affine*)left;
  affine* r = (affine*)right_and_out;
  size_t i;
  CHECK(cdata == &legacy);
  for (i = 0; i < count; ++i) r[i] = after(l[i], r[i]);
}
static void in_order(gex_TM_t team) {
  affine mine[8], all[8], one[8];
  const gex_Rank_t size = gex_TM_QuerySize(team), rank = gex_TM_QueryRank(team);
  unsigned count, i;
  gex_Rank_t r, root;
  for (count = 1; count <= 8; ++count)
    for (root = 0; root < size; ++root) {
      gex_Event_t ev[2];
      for (i = 0; i < count; ++i) mine[i] = map_of(rank, i);
      memset(one, 0x77, sizeof one);
      ev[0] = gex_Coll_ReduceToAllNB(team, all, mine, GEX_DT_USER, sizeof(affine), count,
                                     GEX_OP_USER_NC, compose, &legacy, 0);
      ev[1] = gex_Coll_ReduceToOneNB(team, root, one, mine, GEX_DT_USER, sizeof(affine), count,
                                     GEX_OP_USER_NC, compose, &legacy, 0);
      gex_Event_WaitAll(ev, 2, 0);
      for (i = 0; i < count; ++i) {
        affine wanted = map_of(0, i);
        for (r = 1; r < size; ++r) wanted = after(wanted, map_of(r, i));
        CHECK(all[i].a == wanted.a && all[i].b == wanted.b);
        if (rank == root)
          CHECK(one[i].a == wanted.a && one[i].b == wanted.b);
        else
          CHECK(one[i].a == 0x77777777 && one[i].b == 0x77777777);
      }
      gex_Event_Wait(gex_Coll_ReduceToAllNB(team, mine, mine, GEX_DT_USER, sizeof(affine), count,
                                            GEX_OP_USER_NC, compose, &legacy, 0)); /* in place */
      CHECK(memcmp(mine, all, count * sizeof(affine)) == 0);
    }
}

static int64_t sum_over(gex_TM_t team, int64_t mine) {
  int64_t sum = -1;
  gex_Event_Wait(
      gex_Coll_ReduceToAllNB(team, &sum, &mine, GEX_DT_I64, 8, 1, GEX_OP_ADD, NULL, NULL, 0));
  return sum;
}
static int64_t sum_of_jobranks(gex_TM_t team) {
  int64_t sum = 0;
  gex_Rank_t r;
  for (r = 0; r < gex_TM_QuerySize(team); ++r) sum += gex_TM_TranslateRankToJobrank(team, r);
  return sum;
}

/* Teams that are forgotten, while others stay: more than there is shared memory for. */
static void many_teams(void) {
  gex_TM_t stays[kept];
  int i, k;
  for (i = 0; i < 60; ++i) {
    gex_TM_t t = GEX_TM_INVALID, *const into = i % 5 == 3 && me % 3 == 1 ? NULL : &t;
    const int color = i % 3 == 0 ? 0x7fffffff : (int)(me % (unsigned)(1 + i % 4)) * 1000;
    (void)gex_TM_Split(into, tm, color, i % 2 == 0 ? (int)me : -(int)me, NULL, 0,
                       GEX_FLAG_TM_NO_SCRATCH);
    if (into == NULL) continue;
    for (k = 0; k < 5; ++k) CHECK(sum_over(t, (int64_t)me) == sum_of_jobranks(t));
    if (i % 10 == 0) stream(t, gex_TM_QuerySize(t) - 1, 30);
    if (i % 5 == 0 && i / 5 < kept) {
      stays[i / 5] = t;
    } else if (i % 2 == 0) {
      CHECK(gex_TM_Destroy(t, NULL, 0) == 0);
    } else { /* the client has made sure that nobody uses it any more */
      gex_Event_Wait(gex_Coll_BarrierNB(t, 0));
      CHECK(gex_TM_Destroy(t, NULL, GEX_FLAG_GLOBALLY_QUIESCED) == 0);
    }
  }
  for (i = 0; i < kept; ++i) {
    CHECK(sum_over(stays[i], (int64_t)me) == sum_of_jobranks(stays[i]));
    broadcasts(stays[i]);
    CHECK(gex_TM_Destroy(stays[i], NULL, 0) == 0);
  }
}

/* Calls over three teams: in the same order over each, but not among them. */
static void crossed(void) {
  gex_TM_t all[3];
  gex_Event_t ev[60];
  int64_t sums[60], mine = (int64_t)me + 1;
  int i, round;
  all[0] = tm;
  (void)gex_TM_Split(&all[1], tm, 5, -(int)me, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
  (void)gex_TM_Split(&all[2], tm, (int)(me / 2), 0, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
  for (round = 0; round < 20; ++round) {
    for (i = 0; i < 60; ++i) {
      /* Each rank takes the teams in another order, a team at a time or in turns. */
      const int t = me % 2 == 0 ? (i + (int)me) % 3 : (2 * i + i / 15) % 3;
      const int n = i / 3 % 4;
      sums[i] = -1;
      if (n == 3)
        ev[i] = gex_Coll_BarrierNB(all[t], 0);
      else
        ev[i] = gex_Coll_ReduceToAllNB(all[t], &sums[i], &mine, GEX_DT_I64, 8, 1, GEX_OP_ADD, NULL,
                                       NULL, 0);
    }
    if (round % 2 == 0) {
      gex_Event_WaitAll(ev, 60, 0);
    } else {
      for (i = 60; i-- > 0;) gex_Event_Wait(ev[i]);
    }
    for (i = 0; i < 60; ++i) {
      const int t = me % 2 == 0 ? (i + (int)me) % 3 : (2 * i + i / 15) % 3;
      if (i / 3 % 4 != 3)
        CHECK(sums[i] == sum_of_jobranks(all[t]) + (int64_t)gex_TM_QuerySize(all[t]));
    }
  }
  CHECK(gex_TM_Destroy(all[2], NULL, 0) == 0);
  CHECK(gex_TM_Destroy(all[1], NULL, 0) == 0);
}

/* With ALLSYNC nothing is read before all have called, nor is anybody done before all are: each
 * rank writes its neighbour's source before it calls, and reads its neighbour's result behind it.
 */
static void all_sync(void) {
  const int flags = GASNET_COLL_LOCAL | GASNET_COLL_IN_ALLSYNC | GASNET_COLL_OUT_ALLSYNC;
  int64_t *const src = (int64_t*)(void*)area[me], *const dst = src + 64;
  int64_t* const his_src = (int64_t*)(void*)area[next_rank];
  int64_t got[most_nodes], word;
  gex_Rank_t r;
  int i;
  for (i = 0; i < 200; ++i) {
    const gex_Rank_t root = (gex_Rank_t)i % nodes;
    word = 1000 * i + next_rank;
    if ((unsigned)i % 16 == me % 16) gasnett_nsleep(1000000);
    gex_RMA_PutBlocking(tm, next_rank, his_src, &word, sizeof word, 0);
    gasnet_coll_gather_all(GASNET_TEAM_ALL, dst, src, 8, flags);
    gex_RMA_GetBlocking(tm, got, next_rank, his_src + 64, 8 * nodes, 0);
    for (r = 0; r < nodes; ++r) CHECK(dst[r] == 1000 * i + (int64_t)r && got[r] == dst[r]);
    word = 7000 * i + next_rank;
    gex_RMA_PutBlocking(tm, next_rank, his_src, &word, sizeof word, 0);
    gasnet_coll_broadcast(GASNET_TEAM_ALL, dst, root, src, 8, flags);
    gex_RMA_GetBlocking(tm, got, next_rank, his_src + 64, 8, 0);
    CHECK(dst[0] == 7000 * i + (int64_t)root && got[0] == dst[0]);
    word = 9000 * i + next_rank;
    gex_RMA_PutBlocking(tm, next_rank, his_src, &word, sizeof word, 0);
    gasnet_coll_gather(GASNET_TEAM_ALL, root, dst, src, 8, flags);
    gex_RMA_GetBlocking(tm, got, root, (int64_t*)(void*)area[root] + 64, 8 * nodes, 0);
    for (r = 0; r < nodes; ++r) CHECK(got[r] == 9000 * i + (int64_t)r);
    meet(); /* dst is written again */
  }
}

int main(int argc, char** argv) {
  gex_Rank_t root;
  (void)argc;
  (void)argv;
  join_job("TEAMS", GEX_FLAG_USES_GASNET1);
  make_segments();
  broadcasts(tm);
  for (root = 0; root < nodes; ++root) stream(tm, root, 100);
  in_order(tm);
  many_teams();
  crossed();
  gasnet_coll_init(NULL, 0, NULL, 0, 0);
  all_sync();
  finish();
  return 1;
}
