/* Every kind of message, by which a job shows that it works with the settings it was given: Shorts,
 * Mediums from 0 bytes to the largest, replies of all kinds, Longs, puts and gets of memory inside
 * and outside the segment, atomics, barriers, a broadcast and a reduction. All bytes and all counts
 * are checked. No message waits for the one before it, so that limits are reached.
 *   mixture SEED */
#include <gasnet_coll.h>
#include <gasnet_ratomic.h>

#include "test/gasnet/ex_job.h"

enum { shorts = 150, mediums = 120, larges = 12, longs = 24, transfers = 24, adds = 40 };
enum {
  largest_transfer = 60000,
  slot = 64 * 1024,
  words_at = 0,
  longs_at = slot,
  puts_at = 5 * slot
};
enum { on_short = 200, on_asked, on_medium, on_echoed, on_long, on_long_back, on_answer };

static uint64_t dice;
static uint32_t roll(uint32_t below) {
  dice = dice * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(dice >> 33) % below;
}

static unsigned char byte_of(size_t i, uint32_t seed) {
  return (unsigned char)(i * 11 + i / 253 + seed);
}
static void fill(void* p, size_t bytes, uint32_t seed) {
  size_t i;
  for (i = 0; i < bytes; ++i) ((unsigned char*)p)[i] = byte_of(i, seed);
}
static int right(const void* p, size_t bytes, uint32_t seed) {
  size_t i;
  for (i = 0; i < bytes; ++i)
    if (((const unsigned char*)p)[i] != byte_of(i, seed)) return 0;
  return 1;
}

/* What has come to this rank, by kind. Handlers count, on whichever thread polls. */
enum { came_short, came_medium, came_long, came_answer, kinds };
static gasnett_atomic_t came[kinds];
static void note(int kind) { gasnett_atomic_increment(&came[kind], 0); }
static uint32_t noted(int kind) { return gasnett_atomic_read(&came[kind], 0); }

static void short_came(gex_Token_t t, gex_AM_Arg_t n) {
  (void)t;
  CHECK(n >= 0 && n < shorts);
  note(came_short);
}
static void short_asked(gex_Token_t t, gex_AM_Arg_t n) {
  note(came_short);
  MUST(gex_AM_ReplyShort1(t, on_answer, 0, n));
}
static void answered(gex_Token_t t, gex_AM_Arg_t n) {
  (void)t;
  (void)n;
  note(came_answer);
}
static void medium_came(gex_Token_t t, void* p, size_t bytes, gex_AM_Arg_t seed,
                        gex_AM_Arg_t echo) {
  CHECK(right(p, bytes, (uint32_t)seed));
  note(came_medium);
  if (echo) MUST(gex_AM_ReplyMedium1(t, on_echoed, p, bytes, GEX_EVENT_NOW, 0, seed));
}
static void medium_echoed(gex_Token_t t, void* p, size_t bytes, gex_AM_Arg_t seed) {
  (void)t;
  CHECK(right(p, bytes, (uint32_t)seed));
  note(came_answer);
}
/* A Long lies in the sender's slot of the target, which the sender writes again when the answer,
 * itself a Long of the first words, has come. */
static void long_came(gex_Token_t t, void* p, size_t bytes, gex_AM_Arg_t seed, gex_AM_Arg_t from) {
  CHECK(right(p, bytes, (uint32_t)seed));
  note(came_long);
  MUST(gex_AM_ReplyLong1(t, on_long_back, p, bytes < 100 ? bytes : 100,
                         area[from] + longs_at + 4 * slot - 128, GEX_EVENT_NOW, 0, seed));
}
static void long_back(gex_Token_t t, void* p, size_t bytes, gex_AM_Arg_t seed) {
  (void)t;
  CHECK(right(p, bytes, (uint32_t)seed));
  note(came_answer);
}

static gex_AM_Entry_t handlers[] = {
    {on_short, HANDLER(&short_came), GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT, 1, NULL, "short"},
    {on_asked, HANDLER(&short_asked), GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT, 1, NULL, "asked"},
    {on_medium, HANDLER(&medium_came), GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_MEDIUM, 2, NULL, "medium"},
    {on_echoed, HANDLER(&medium_echoed), GEX_FLAG_AM_REPLY | GEX_FLAG_AM_MEDIUM, 1, NULL, "echoed"},
    {on_long, HANDLER(&long_came), GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_LONG, 2, NULL, "long"},
    {on_long_back, HANDLER(&long_back), GEX_FLAG_AM_REPLY | GEX_FLAG_AM_LONG, 1, NULL, "back"},
    {on_answer, HANDLER(&answered), GEX_FLAG_AM_REPLY | GEX_FLAG_AM_SHORT, 1, NULL, "answer"},
};

/* To every rank the same numbers of each kind, so that each knows what has to come to it. */
static void messages(void) {
  static unsigned char payload[1 << 16];
  const uint32_t eager = 4000;
  const uint32_t largest = (uint32_t)gex_AM_LUBRequestMedium();
  uint32_t asked = 0;
  gex_Rank_t to;
  int i;
  CHECK(largest >= 512 && largest <= sizeof payload);
  for (i = 0; i < shorts; ++i)
    for (to = 0; to < nodes; ++to) {
      const int ask = roll(3) == 0;
      asked += (uint32_t)ask;
      MUST(gex_AM_RequestShort1(tm, to, ask ? on_asked : on_short, 0, i));
    }
  for (i = 0; i < mediums + larges; ++i)
    for (to = 0; to < nodes; ++to) {
      const uint32_t most = i < mediums ? eager : largest;
      const uint32_t bytes = i % 8 == 0 ? roll(most + 1) : most - roll(most / 4 + 1);
      const int echo = roll(4) == 0;
      const gex_AM_Arg_t seed = (gex_AM_Arg_t)roll(1000);
      asked += (uint32_t)echo;
      fill(payload, bytes, (uint32_t)seed);
      MUST(gex_AM_RequestMedium2(tm, to, on_medium, payload, bytes, GEX_EVENT_NOW, 0, seed, echo));
    }
  GASNET_BLOCKUNTIL(noted(came_answer) == asked);
  for (i = 0; i < longs; ++i) {
    const uint32_t bytes = i % 3 == 0 ? roll(300) : roll(slot);
    const gex_AM_Arg_t seed = (gex_AM_Arg_t)roll(1000);
    fill(payload, bytes, (uint32_t)seed);
    ++asked;
    MUST(gex_AM_RequestLong2(tm, next_rank, on_long, payload, bytes, area[next_rank] + longs_at,
                             GEX_EVENT_NOW, 0, seed, (gex_AM_Arg_t)me));
    GASNET_BLOCKUNTIL(noted(came_answer) == asked);
  }
  GASNET_BLOCKUNTIL(noted(came_short) == shorts * nodes &&
                    noted(came_medium) == (mediums + larges) * nodes && noted(came_long) == longs);
}

/* Each rank writes to its own part of the next one's segment, and reads it back. */
static void puts_and_gets(void) {
  static unsigned char outside[largest_transfer], back[largest_transfer];
  char* const there = area[next_rank] + puts_at;
  unsigned char* const inside = (unsigned char*)area[me] + puts_at + 2 * slot;
  gex_Event_t last = GEX_EVENT_INVALID;
  int i;
  for (i = 0; i < transfers; ++i) {
    const uint32_t bytes = 1 + (i % 2 == 0 ? roll(3000) : roll(largest_transfer));
    const uint32_t seed = roll(1000);
    unsigned char* const source = i % 3 == 0 ? inside : outside;
    unsigned char* const sink = i % 3 == 1 ? inside + slot : back;
    fill(source, bytes, seed);
    if (i % 4 == 0)
      MUST(gex_RMA_PutBlocking(tm, next_rank, there, source, bytes, 0));
    else
      gex_Event_Wait(gex_RMA_PutNB(tm, next_rank, there, source, bytes, GEX_EVENT_DEFER, 0));
    memset(sink, 0, bytes);
    MUST(gex_RMA_GetBlocking(tm, sink, next_rank, there, bytes, 0));
    CHECK(right(sink, bytes, seed));
  }
  /* many at once, into places of their own */
  fill(outside, largest_transfer, 7);
  for (i = 0; i < transfers; ++i)
    gex_RMA_PutNBI(tm, next_rank, there + i * 2048, outside + i * 2048, 2048, GEX_EVENT_DEFER, 0);
  gex_NBI_Wait(GEX_EC_PUT, 0);
  for (i = 0; i < transfers; ++i)
    last = gex_RMA_GetNB(tm, back + i * 2048, next_rank, there + i * 2048, 2048, 0),
    gex_Event_Wait(last);
  CHECK(right(back, transfers * 2048, 7));
}

static void atomics(void) {
  gex_AD_t ad;
  uint64_t before = 0;
  int i;
  *(uint64_t*)(area[me] + words_at) = 0;
  gex_AD_Create(&ad, tm, GEX_DT_U64, GEX_OP_FADD | GEX_OP_ADD | GEX_OP_GET, 0);
  meet();
  for (i = 0; i < adds; ++i)
    if (i % 2 == 0)
      gex_AD_OpNBI_U64(ad, NULL, 0, area[0] + words_at, GEX_OP_ADD, me + 1, 0, 0);
    else
      gex_Event_Wait(
          gex_AD_OpNB_U64(ad, &before, 0, area[0] + words_at, GEX_OP_FADD, me + 1, 0, 0));
  gex_NBI_Wait(GEX_EC_RMW, 0);
  meet();
  gex_Event_Wait(gex_AD_OpNB_U64(ad, &before, 0, area[0] + words_at, GEX_OP_GET, 0, 0, 0));
  CHECK(before == (uint64_t)adds * nodes * (nodes + 1) / 2);
  meet();
  gex_AD_Destroy(ad);
}

static void collectives(void) {
  static int64_t mine[9000], all[9000];
  gex_Rank_t root;
  int i;
  for (root = 0; root < nodes; ++root) {
    fill(mine, 33000, root + (me == root ? 0 : 1));
    gex_Event_Wait(gex_Coll_BroadcastNB(tm, root, all, mine, 33000, 0));
    CHECK(right(all, 33000, root));
  }
  for (i = 0; i < 9000; ++i) mine[i] = (int64_t)me * i;
  gex_Event_Wait(
      gex_Coll_ReduceToAllNB(tm, all, mine, GEX_DT_I64, 8, 9000, GEX_OP_ADD, NULL, NULL, 0));
  for (i = 0; i < 9000; ++i)
    if (all[i] != (int64_t)nodes * (nodes - 1) / 2 * i) break;
  CHECK(i == 9000);
  gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));
}

int main(int argc, char** argv) {
  join_job("mixture", 0);
  dice = (argc > 1 ? strtoull(argv[1], NULL, 0) : 1) * 1000 + me + 1;
  MUST(gex_EP_RegisterHandlers(ep, handlers, sizeof handlers / sizeof *handlers));
  make_segments();
  messages();
  meet();
  puts_and_gets();
  meet();
  atomics();
  collectives();
  meet();
  finish();
  return 0;
}
