/* A distributed hash table over gasnetex.h: each rank owns the keys that hash to it. Inserts gather
 * in a batch for each owner, written straight into the payload of a negotiated Medium; look-ups are
 * asked for by Short and answered by a negotiated reply with the record. In the end every rank
 * knows, from the seed alone, what all have inserted, and compares: each key's count and sum with
 * its own serial calculation. */
#include <gasnet_coll.h>
#include <gasnet_ratomic.h>
#include <gasnetex.h>

#include "ex_job.h"

enum { slots = 4096, inserts = 6000, keys = 1500, batch = 24 };
enum { on_insert_index = 150, on_find_index, on_found_index };

typedef struct {
  uint64_t key, sum, count;
} record;
typedef struct {
  uint64_t key, value;
} pair;

static record table[slots];
static gex_HSL_t lock = GEX_HSL_INITIALIZER;

static uint64_t mixed(uint64_t x) {
  x ^= x >> 33;
  x *= (uint64_t)0xff51afd7ed558ccd;
  x ^= x >> 33;
  x *= (uint64_t)0xc4ceb9fe1a85ec53;
  return x ^ x >> 33;
}
static gex_Rank_t owner_of(uint64_t key) { return (gex_Rank_t)(mixed(key) % nodes); }
/* What insert i of a rank is. */
static pair nth(gex_Rank_t rank, int i) {
  pair p;
  const uint64_t r = mixed(((uint64_t)rank << 32) + (uint64_t)i);
  p.key = 1 + r % keys;
  p.value = r >> 40;
  return p;
}

/* With the lock held: the record of a key, or a free one. */
static record* place_of(record* t, uint64_t key) {
  size_t i = (size_t)(mixed(key) / nodes % slots);
  while (t[i].key != 0 && t[i].key != key) i = (i + 1) % slots;
  return &t[i];
}
static void insert_into(record* t, pair p) {
  record* const r = place_of(t, p.key);
  r->key = p.key;
  r->sum += p.value;
  r->count += 1;
}

static void on_insert(gex_Token_t token, void* buf, size_t nbytes) {
  const pair* p = (const pair*)buf;
  size_t i;
  (void)token;
  CHECK(nbytes % sizeof(pair) == 0 && nbytes != 0);
  gex_HSL_Lock(&lock);
  for (i = 0; i < nbytes / sizeof(pair); ++i) insert_into(table, p[i]);
  gex_HSL_Unlock(&lock);
}

/* The key comes in two halves, and goes back with the record. */
static void on_find(gex_Token_t token, gex_AM_Arg_t low, gex_AM_Arg_t high, gex_AM_Arg_t to) {
  const uint64_t key = (uint64_t)(uint32_t)high << 32 | (uint32_t)low;
  const gex_AM_SrcDesc_t sd =
      gex_AM_PrepareReplyMedium(token, NULL, sizeof(record), sizeof(record), NULL, 0, 1);
  record* const answer = (record*)gex_AM_SrcDescAddr(sd);
  gex_HSL_Lock(&lock);
  *answer = *place_of(table, key);
  gex_HSL_Unlock(&lock);
  gex_AM_CommitReplyMedium1(sd, on_found_index, sizeof(record), to);
}
static record found[keys + 1];
static void on_found(gex_Token_t token, void* buf, size_t nbytes, gex_AM_Arg_t to) {
  (void)token;
  CHECK(nbytes == sizeof(record) && to >= 1 && to <= keys);
  memcpy(&found[to], buf, sizeof(record));
  answers = answers + 1;
}

/* ---- one batch for each owner. A descriptor is the thread's one, so pairs wait in plain memory
 * until the batch is full, and go into the payload then ---- */
static pair waiting[most_nodes][batch];
static size_t count_of[most_nodes];
static gex_AD_t arrivals;

static void send_batch(gex_Rank_t to) {
  const size_t bytes = count_of[to] * sizeof(pair);
  gex_AM_SrcDesc_t sd;
  if (bytes == 0) return;
  sd = gex_AM_PrepareRequestMedium(tm, to, NULL, bytes, bytes, NULL, 0, 0);
  memcpy(gex_AM_SrcDescAddr(sd), waiting[to], bytes);
  gex_AM_CommitRequestMedium0(sd, on_insert_index, bytes);
  count_of[to] = 0;
}

static void insert_all(void) {
  gex_Rank_t r;
  int i;
  for (i = 0; i < inserts; ++i) {
    const pair p = nth(me, i);
    const gex_Rank_t to = owner_of(p.key);
    waiting[to][count_of[to]++] = p;
    if (count_of[to] == batch) send_batch(to);
    /* Everybody is told how many inserts to wait for. */
    CHECK(gex_AD_OpNBI_U64(arrivals, NULL, to, area[to], GEX_OP_ADD, 1, 0, 0) == 0);
  }
  for (r = 0; r < nodes; ++r) send_batch(r);
  gex_NBI_Wait(GEX_EC_RMW, 0);
}

/* With the lock not held: how many inserts are here. */
static uint64_t here(void) {
  uint64_t n = 0;
  int i;
  gex_HSL_Lock(&lock);
  for (i = 0; i < slots; ++i) n += table[i].count;
  gex_HSL_Unlock(&lock);
  return n;
}

static void look_all_up(void) {
  int key;
  for (key = 1; key <= keys; ++key)
    CHECK(gex_AM_RequestShort(tm, owner_of((uint64_t)key), on_find_index, 0, key, 0, key) == 0);
  GASNET_BLOCKUNTIL(answers == keys);
}

static void compare_with_serial(void) {
  static record serial[keys + 1];
  gex_Rank_t r;
  int i;
  for (r = 0; r < nodes; ++r)
    for (i = 0; i < inserts; ++i) {
      const pair p = nth(r, i);
      serial[p.key].key = p.key;
      serial[p.key].sum += p.value;
      serial[p.key].count += 1;
    }
  for (i = 1; i <= keys; ++i) CHECK(memcmp(&serial[i], &found[i], sizeof(record)) == 0);
}

int main(void) {
  gex_AM_Entry_t handlers[] = {
      {on_insert_index, HANDLER(&on_insert), GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REQUEST, 0, NULL,
       "insert"},
      {on_find_index, HANDLER(&on_find), GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 3, NULL, "find"},
      {on_found_index, HANDLER(&on_found), GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REPLY, 1, NULL,
       "found"},
  };
  uint64_t expected = 0, all = 0, mine;
  join_job("table", 0);
  MUST(gex_EP_RegisterHandlers(ep, handlers, 3));
  make_segments();
  gex_AD_Create(&arrivals, tm, GEX_DT_U64, GEX_OP_ADD | GEX_OP_GET, 0);
  gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));
  insert_all();
  gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));
  gex_Event_Wait(gex_AD_OpNB_U64(arrivals, &expected, me, area[me], GEX_OP_GET, 0, 0, 0));
  GASNET_BLOCKUNTIL(here() == expected);
  mine = here();
  gex_Event_Wait(
      gex_Coll_ReduceToAllNB(tm, &all, &mine, GEX_DT_U64, 8, 1, GEX_OP_ADD, NULL, NULL, 0));
  CHECK(all == (uint64_t)nodes * inserts);
  look_all_up();
  compare_with_serial();
  finish();
  return 1;
}
