/* Puts and gets of gasnetex.h in every form, events, leaves and access regions, and the operations
 * on many pieces. Each rank works in the next one's segment, in a part of its own, and
 * checks the contents through the other calls. */
#include <gasnet_vis.h>

#include "ex_job.h"

enum { piece = 100000, rounds = 3 };
static unsigned char mine[piece], back[piece];

static void fill(unsigned seed) {
  size_t i;
  for (i = 0; i < piece; ++i) mine[i] = (unsigned char)(i * 13 + i / 255 + seed);
  memset(back, 0xee, piece);
}
static int came_back(size_t bytes) {
  return memcmp(mine, back, bytes) == 0 && (bytes == piece || back[bytes] == 0xee);
}
static void clear(gex_Rank_t to, char* there) {
  static unsigned char zeros[piece];
  CHECK(gex_RMA_PutBlocking(tm, to, there, zeros, piece, 0) == 0);
}

/* A query makes no event: a leaf is the event that the call gave, as often as one asks for it, and
 * it may be synchronized again until its root is. */
static void same_leaf(gex_Event_t root, gex_Event_t lc) {
  const gex_Event_t leaf = gex_Event_QueryLeaf(root, GEX_EC_LC);
  if (leaf != GEX_EVENT_INVALID && lc != GEX_EVENT_INVALID) CHECK(leaf == lc);
}

static void put_and_get(gex_Rank_t to, char* there, size_t bytes, unsigned seed) {
  gex_Event_t ev[3], lc = GEX_EVENT_NO_OP;
  gex_TM_t pair = gex_TM_Pair(ep, 0);
  int way;
  for (way = 0; way < 8; ++way) {
    fill(seed + (unsigned)way);
    clear(to, there);
    switch (way) {
      case 0:
        CHECK(gex_RMA_PutBlocking(tm, to, there, mine, bytes, GEX_FLAG_PEER_NEVER_NBRHD * 0) == 0);
        break;
      case 1:
        gex_Event_Wait(gex_RMA_PutNB(tm, to, there, mine, bytes, GEX_EVENT_DEFER, 0));
        break;
      case 2: /* the source is free again at once */
        ev[0] = gex_RMA_PutNB(pair, to, there, mine, bytes, GEX_EVENT_NOW, 0);
        memset(mine, 1, bytes);
        gex_Event_WaitAll(ev, 1, 0);
        CHECK(ev[0] == GEX_EVENT_INVALID);
        fill(seed + (unsigned)way);
        break;
      case 3: /* local completion first, or both together */
        ev[0] = gex_RMA_PutNB(tm, to, there, mine, bytes, &lc, 0);
        CHECK(lc != GEX_EVENT_NO_OP);
        same_leaf(ev[0], lc);
        gex_Event_Wait(lc);
        same_leaf(ev[0], lc);
        CHECK(gex_Event_Test(lc) == GASNET_OK && gex_Event_TestAll(&lc, 1, 0) == GASNET_OK);
        memset(mine, 1, bytes);
        gex_Event_Wait(ev[0]);
        fill(seed + (unsigned)way);
        break;
      case 4:
        ev[0] = gex_RMA_PutNB(tm, to, there, mine, bytes, &ev[1], 0);
        ev[2] = GEX_EVENT_INVALID;
        while (gex_Event_TestAll(ev, 3, 0) != GASNET_OK) gasnet_AMPoll();
        CHECK(ev[0] == GEX_EVENT_INVALID && ev[1] == GEX_EVENT_INVALID);
        break;
      case 5:
        CHECK(gex_RMA_PutNBI(tm, to, there, mine, bytes, GEX_EVENT_DEFER, 0) == 0);
        gex_NBI_Wait(GEX_EC_PUT, 0);
        break;
      case 6:
        CHECK(gex_RMA_PutNBI(tm, to, there, mine, bytes, GEX_EVENT_GROUP, 0) == 0);
        gex_NBI_Wait(GEX_EC_LC, 0);
        memset(mine, 1, bytes);
        while (gex_NBI_Test(GEX_EC_ALL, 0) != GASNET_OK) gasnet_AMPoll();
        fill(seed + (unsigned)way);
        break;
      default:
        CHECK(gex_RMA_PutNBI(tm, to, there, mine, bytes, GEX_EVENT_NOW, 0) == 0);
        memset(mine, 1, bytes);
        gex_NBI_Wait(GEX_EC_ALL, 0);
        fill(seed + (unsigned)way);
        break;
    }
    switch (way % 4) {
      case 0:
        CHECK(gex_RMA_GetBlocking(tm, back, to, there, bytes, 0) == 0);
        break;
      case 1:
        gex_Event_Wait(gex_RMA_GetNB(tm, back, to, there, bytes, 0));
        break;
      case 2:
        CHECK(gex_RMA_GetNBI(tm, back, to, there, bytes, 0) == 0);
        gex_NBI_Wait(GEX_EC_GET, 0);
        break;
      default:
        ev[0] = gex_RMA_GetNB(pair, back, to, there, bytes, 0);
        if (ev[0] != GEX_EVENT_INVALID)
          while (gex_Event_Test(ev[0]) != GASNET_OK) gasnet_AMPoll();
        break;
    }
    CHECK(came_back(bytes));
  }
}

static void values(gex_Rank_t to, char* there) {
  const gex_RMA_Value_t value = (gex_RMA_Value_t)0x0102030405060708;
  size_t n;
  for (n = 1; n <= SIZEOF_GEX_RMA_VALUE_T; ++n) {
    const gex_RMA_Value_t low = n == 8 ? value : value & (((gex_RMA_Value_t)1 << 8 * n) - 1);
    clear(to, there);
    CHECK(gex_RMA_PutBlockingVal(tm, to, there, value, n, 0) == 0);
    CHECK(gex_RMA_GetBlockingVal(tm, to, there, n, 0) == low);
    CHECK(gex_RMA_GetBlockingVal(tm, to, there + n, 1, 0) == 0);
    gex_Event_Wait(gex_RMA_PutNBVal(tm, to, there, value + 1, n, 0));
    CHECK(gex_RMA_GetBlockingVal(tm, to, there, n, 0) == low + 1);
    CHECK(gex_RMA_PutNBIVal(tm, to, there, value + 2, n, 0) == 0);
    gex_NBI_Wait(GEX_EC_PUT, 0);
    CHECK(gex_RMA_GetBlockingVal(tm, to, there, n, 0) == low + 2);
  }
}

/* Many at a time, in any order, some at a time. */
static void events(gex_Rank_t to, char* there) {
  enum { many = 300, each = 300 };
  static gex_Event_t ev[many];
  size_t i, left = many;
  fill(77);
  clear(to, there);
  for (i = 0; i < many; ++i)
    ev[i] = gex_RMA_PutNB(tm, to, there + i * each, mine + i * each, each, GEX_EVENT_DEFER, 0);
  gex_Event_WaitAll(ev, many, 0);
  for (i = 0; i < many; ++i) CHECK(ev[i] == GEX_EVENT_INVALID);
  for (i = 0; i < many; ++i)
    ev[i] = gex_RMA_GetNB(tm, back + i * each, to, there + i * each, each, 0);
  while (left != 0) {
    gex_Event_WaitSome(ev, many, 0);
    for (left = 0, i = 0; i < many; ++i) left += ev[i] != GEX_EVENT_INVALID;
  }
  CHECK(came_back((size_t)many * each));
  CHECK(gex_Event_TestSome(ev, many, 0) == GASNET_OK &&
        gex_Event_TestAll(ev, many, 0) == GASNET_OK);
  CHECK(gex_Event_TestSome(ev, 0, 0) == GASNET_OK && gex_Event_TestAll(NULL, 0, 0) == GASNET_OK);
  gex_Event_WaitAll(NULL, 0, 0);
  gex_Event_Wait(GEX_EVENT_INVALID);
  CHECK(gex_Event_Test(GEX_EVENT_INVALID) == GASNET_OK);
  CHECK(gex_Event_QueryLeaf(GEX_EVENT_INVALID, GEX_EC_LC) == GEX_EVENT_INVALID);
}

static void regions(gex_Rank_t to, char* there) {
  gex_Event_t ev[4];
  int order;
  for (order = 0; order < 3; ++order) {
    fill(90 + (unsigned)order);
    gex_NBI_BeginAccessRegion(0);
    gex_RMA_PutNBI(tm, to, there, mine, piece / 2, GEX_EVENT_GROUP, 0);
    gex_RMA_PutNBI(tm, to, there + piece / 2, mine + piece / 2, piece / 2, GEX_EVENT_DEFER, 0);
    ev[1] = gex_NBI_EndAccessRegion(0);
    ev[0] = gex_Event_QueryLeaf(ev[1], GEX_EC_LC);
    CHECK(ev[0] == gex_Event_QueryLeaf(ev[1], GEX_EC_LC));
    ev[2] = gex_Event_QueryLeaf(ev[1], GEX_EC_PUT);
    ev[3] = gex_Event_QueryLeaf(ev[1], GEX_EC_RMW);
    if (order == 0) { /* root and leaves in one array */
      gex_Event_WaitAll(ev, 4, 0);
    } else if (order == 1) { /* as some programs do: the root, and if it is not done the leaf */
      while (ev[1] != GEX_EVENT_INVALID && gex_Event_Test(ev[1]) != GASNET_OK) {
        gasnet_AMPoll();
        if (gex_Event_Test(ev[0]) == GASNET_OK) ev[0] = gex_Event_QueryLeaf(ev[1], GEX_EC_LC);
      }
    } else { /* leaves only, then the root */
      gex_Event_Wait(ev[3]);
      gex_Event_Wait(ev[2]);
      gex_Event_Wait(ev[0]);
      gex_Event_Wait(ev[1]);
    }
    gex_NBI_BeginAccessRegion(0);
    gex_RMA_GetNBI(tm, back, to, there, piece, 0);
    ev[0] = gex_NBI_EndAccessRegion(0);
    CHECK(gex_NBI_Test(GEX_EC_ALL, 0) == GASNET_OK); /* it is not among the others */
    gex_Event_Wait(gex_Event_QueryLeaf(ev[0], GEX_EC_GET));
    CHECK(came_back(piece));
    gex_Event_Wait(ev[0]);
  }
}

/* ---- many pieces: `many` of `each` bytes, `gap` apart on the other side, one behind the other
 * here */
enum { many = 40, each = 50, gap = 80 };

static int pieces_are_there(gex_Rank_t to, char* there) {
  int i, right = 1;
  for (i = 0; i < many && right; ++i) {
    CHECK(gex_RMA_GetBlocking(tm, back, to, there + i * gap, gap, 0) == 0);
    right = memcmp(back, mine + i * each, each) == 0 && back[each] == 0;
  }
  return right;
}

static void pieces(gex_Rank_t to, char* there) {
  gex_Memvec_t far[many], near[1];
  void *far_at[many], *near_at[1];
  const ptrdiff_t far_stride[1] = {gap}, near_stride[1] = {each};
  const size_t count[1] = {many};
  const size_t all = (size_t)many * each;
  int i, way;
  near[0].gex_addr = near_at[0] = mine;
  near[0].gex_len = all;
  for (i = 0; i < many; ++i) {
    far[i].gex_addr = far_at[i] = there + i * gap;
    far[i].gex_len = each;
  }
  for (way = 0; way < 9; ++way) {
    gex_Event_t ev = GEX_EVENT_INVALID;
    gex_Event_t got = GEX_EVENT_INVALID;
    const gex_Flags_t leaf = way % 3 == 0 ? GEX_FLAG_ENABLE_LEAF_LC : 0;
    fill(200 + (unsigned)way);
    clear(to, there);
    switch (way) {
      case 0:
        ev = gex_VIS_VectorPutNB(tm, to, many, far, 1, near, leaf);
        break;
      case 1:
        CHECK(gex_VIS_VectorPutNBI(tm, to, many, far, 1, near, 0) == 0);
        break;
      case 2:
        CHECK(gex_VIS_VectorPutBlocking(tm, to, many, far, 1, near, 0) == 0);
        break;
      case 3:
        ev = gex_VIS_IndexedPutNB(tm, to, many, far_at, each, 1, near_at, all, leaf);
        break;
      case 4:
        CHECK(gex_VIS_IndexedPutNBI(tm, to, many, far_at, each, 1, near_at, all, 0) == 0);
        break;
      case 5:
        CHECK(gex_VIS_IndexedPutBlocking(tm, to, many, far_at, each, 1, near_at, all, 0) == 0);
        break;
      case 6:
        ev = gex_VIS_StridedPutNB(tm, to, there, far_stride, mine, near_stride, each, count, 1,
                                  leaf);
        break;
      case 7:
        CHECK(gex_VIS_StridedPutNBI(tm, to, there, far_stride, mine, near_stride, each, count, 1,
                                    0) == 0);
        break;
      default:
        CHECK(gex_VIS_StridedPutBlocking(tm, to, there, far_stride, mine, near_stride, each, count,
                                         1, 0) == 0);
        break;
    }
    if (leaf != 0) gex_Event_Wait(gex_Event_QueryLeaf(ev, GEX_EC_LC));
    gex_Event_Wait(ev);
    gex_NBI_Wait(GEX_EC_PUT, 0);
    CHECK(pieces_are_there(to, there));
    memset(back, 0xee, piece);
    near[0].gex_addr = near_at[0] = back;
    switch (way) {
      case 0:
        got = gex_VIS_VectorGetNB(tm, 1, near, to, many, far, 0);
        break;
      case 1:
        CHECK(gex_VIS_VectorGetNBI(tm, 1, near, to, many, far, 0) == 0);
        break;
      case 2:
        CHECK(gex_VIS_VectorGetBlocking(tm, 1, near, to, many, far, 0) == 0);
        break;
      case 3:
        got = gex_VIS_IndexedGetNB(tm, 1, near_at, all, to, many, far_at, each, 0);
        break;
      case 4:
        CHECK(gex_VIS_IndexedGetNBI(tm, 1, near_at, all, to, many, far_at, each, 0) == 0);
        break;
      case 5:
        CHECK(gex_VIS_IndexedGetBlocking(tm, 1, near_at, all, to, many, far_at, each, 0) == 0);
        break;
      case 6:
        got = gex_VIS_StridedGetNB(tm, back, near_stride, to, there, far_stride, each, count, 1, 0);
        break;
      case 7:
        CHECK(gex_VIS_StridedGetNBI(tm, back, near_stride, to, there, far_stride, each, count, 1,
                                    0) == 0);
        break;
      default:
        CHECK(gex_VIS_StridedGetBlocking(tm, back, near_stride, to, there, far_stride, each, count,
                                         1, 0) == 0);
        break;
    }
    gex_Event_Wait(got);
    gex_NBI_Wait(GEX_EC_GET, 0);
    near[0].gex_addr = near_at[0] = mine;
    CHECK(came_back(all));
  }
}

/* Backwards, transposed, one source for all, and of nothing. */
static void strides(gex_Rank_t to, char* there) {
  enum { rows = 6, columns = 9 };
  static int32_t from[rows][columns], to_here[columns][rows];
  const ptrdiff_t down[1] = {-(ptrdiff_t)sizeof(int32_t)}, up[1] = {sizeof(int32_t)}, same[1] = {0};
  const ptrdiff_t by_row[2] = {sizeof(int32_t), columns * sizeof(int32_t)};
  const ptrdiff_t by_column[2] = {rows * sizeof(int32_t), sizeof(int32_t)};
  const size_t line[1] = {rows * columns}, matrix[2] = {columns, rows}, nothing[2] = {0, 3};
  int32_t* const flat = &from[0][0];
  int i, k;
  for (i = 0; i < rows * columns; ++i) flat[i] = 1000 + i;
  gex_VIS_StridedPutBlocking(tm, to, there + (rows * columns - 1) * (ptrdiff_t)sizeof(int32_t),
                             down, from, up, sizeof(int32_t), line, 1, 0);
  gex_RMA_GetBlocking(tm, to_here, to, there, sizeof to_here, 0);
  for (i = 0; i < rows * columns; ++i) CHECK((&to_here[0][0])[i] == 1000 + rows * columns - 1 - i);
  gex_VIS_StridedPutBlocking(tm, to, there, by_column, from, by_row, sizeof(int32_t), matrix, 2, 0);
  gex_VIS_StridedGetBlocking(tm, to_here, up, to, there, up, sizeof(int32_t), line, 1, 0);
  for (i = 0; i < rows; ++i)
    for (k = 0; k < columns; ++k) CHECK(to_here[k][i] == from[i][k]);
  gex_VIS_StridedPutBlocking(tm, to, there, up, from, same, sizeof(int32_t), line, 1, 0);
  gex_VIS_StridedGetBlocking(tm, to_here, NULL, to, there, NULL, sizeof to_here, NULL, 0, 0);
  for (i = 0; i < rows * columns; ++i) CHECK((&to_here[0][0])[i] == 1000);
  gex_VIS_StridedPutBlocking(tm, to, NULL, up, NULL, up, 0, line, 1, 0);
  gex_VIS_StridedPutBlocking(tm, to, NULL, by_row, NULL, by_row, 4, nothing, 2, 0);
  gex_VIS_VectorPutBlocking(tm, to, 0, NULL, 0, NULL, 0);
}

/* A message follows a put, and finds the bytes where the put has laid them. It is a reply of no
 * request: "a 0-argument AM Medium Reply handler" runs. */
enum { arrived_index = 210, most_told = GEX_VIS_MAX_PEERCOMPLETION };
static volatile int arrivals = 0;
static void on_arrived(gex_Token_t token, void* told, size_t bytes) {
  unsigned char* const at = (unsigned char*)told;
  char* where;
  size_t i;
  gex_Token_Info_t info;
  CHECK(gex_Token_Info(token, &info, GEX_TI_ALL) ==
        (gex_TI_t)(GEX_TI_SRCRANK | GEX_TI_EP | GEX_TI_ENTRY | GEX_TI_IS_REQ | GEX_TI_IS_LONG));
  CHECK(!info.gex_is_req && !info.gex_is_long && info.gex_entry->gex_index == arrived_index);
  CHECK(info.gex_srcrank == me || info.gex_srcrank == (me + nodes - 1) % nodes);
  CHECK(bytes == 8 || bytes == (size_t)most_told);
  memcpy(&where, told, sizeof where);
  CHECK(strcmp(where, bytes == 8 ? "first" : "second") == 0);
  for (i = sizeof where; i < bytes; ++i) CHECK(at[i] == (unsigned char)i);
  arrivals = arrivals + 1;
}
static void followed_puts(gex_Rank_t to, char* there) {
  const ptrdiff_t stride[1] = {8};
  const size_t count[1] = {1}, none[1] = {0};
  unsigned char told[most_told];
  gex_Memvec_t near, far;
  void* near_at = (void*)"third";
  void* far_at = there;
  size_t i;
  gex_Event_t ev;
  memcpy(told, &there, sizeof there);
  for (i = sizeof there; i < sizeof told; ++i) told[i] = (unsigned char)i;
  arrivals = 0;
  meet();
  near.gex_addr = (void*)"first";
  far.gex_addr = there;
  near.gex_len = far.gex_len = 6;
  gex_VIS_SetPeerCompletionHandler(arrived_index, told, 8, 0);
  ev = gex_VIS_VectorPutNB(tm, to, 1, &far, 1, &near, 0);
  gex_Event_Wait(ev);
  GASNET_BLOCKUNTIL(arrivals == 1); /* that of the rank before this one */
  meet();
  gex_VIS_SetPeerCompletionHandler(arrived_index, told, most_told, 0);
  CHECK(gex_VIS_StridedPutNBI(tm, to, there, stride, (void*)"second", stride, 7, count, 1, 0) == 0);
  gex_NBI_Wait(GEX_EC_PUT, 0);
  GASNET_BLOCKUNTIL(arrivals == 2);
  meet();
  /* A put of nothing is followed too; one for which it was taken back is not, nor the one after. */
  gex_VIS_SetPeerCompletionHandler(arrived_index, told, most_told, 0);
  CHECK(gex_VIS_StridedPutBlocking(tm, to, NULL, stride, NULL, stride, 8, none, 1, 0) == 0);
  GASNET_BLOCKUNTIL(arrivals == 3);
  meet();
  gex_VIS_SetPeerCompletionHandler(arrived_index, told, most_told, 0);
  gex_VIS_SetPeerCompletionHandler(0, NULL, 0, 0);
  CHECK(gex_VIS_IndexedPutBlocking(tm, to, 1, &far_at, 6, 1, &near_at, 6, 0) == 0);
  CHECK(gex_VIS_IndexedPutBlocking(tm, to, 1, &far_at, 6, 1, &near_at, 6, 0) == 0);
  meet();
  gasnet_AMPoll();
  CHECK(arrivals == 3);
}

/* A process that only puts handles the messages of others' puts meanwhile, so that they do not pile
 * up until it polls. */
static void served_while_putting(gex_Rank_t to, char* there) {
  enum { puts = 20, flag_at = 64 };
  volatile char* const flag = area[me] + (there - area[to]) + flag_at;
  const ptrdiff_t stride[1] = {6};
  const size_t count[1] = {1};
  int i;
  *flag = 0;
  arrivals = 0;
  meet();
  for (i = 0; i < puts; ++i) {
    gex_VIS_SetPeerCompletionHandler(arrived_index, &there, sizeof there, 0);
    gex_VIS_StridedPutBlocking(tm, to, there, stride, (void*)"first", stride, 6, count, 1, 0);
    if (i > 0) continue;
    gex_RMA_PutBlocking(tm, to, there + flag_at, (void*)"x", 1, 0);
    while (*flag != 'x') gasnett_sched_yield(); /* without a poll; a message has been sent before */
  }
  CHECK(arrivals > 0);
  GASNET_BLOCKUNTIL(arrivals == puts);
  meet();
}

static int ex_rma_names(void) {
  gex_AM_Entry_t arrived[1];
  const size_t sizes[] = {0, 1, 8, 100, 4000, piece};
  gex_Rank_t to[2];
  int i, t;
  join_job("puts and gets", 0);
  memset(arrived, 0, sizeof arrived);
  arrived[0].gex_index = arrived_index;
  arrived[0].gex_fnptr = HANDLER(&on_arrived);
  arrived[0].gex_flags = GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REPLY;
  arrived[0].gex_name = "arrived";
  MUST(gex_EP_RegisterHandlers(ep, arrived, 1));
  make_segments();
  to[0] = me;
  to[1] = next_rank;
  for (t = 0; t < 2; ++t) {
    char* const there = area[to[t]] + t * 2 * piece;
    for (i = 0; i < 6; ++i) put_and_get(to[t], there, sizes[i], (unsigned)i);
    values(to[t], there);
    events(to[t], there);
    regions(to[t], there);
    pieces(to[t], there);
    strides(to[t], there);
    followed_puts(to[t], there);
    served_while_putting(to[t], there);
    meet();
  }
  finish();
  return 1;
}
