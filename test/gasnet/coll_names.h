/* gasnet_coll.h: every operation in all its forms, with every pair of synchronization flags, from
 * and to every root, of few bytes and of many, compared with the result that each image calculates
 * itself. Teams, barriers over them, and handles. One image on each node. */
#include <gasnet_coll.h>
#include <string.h>

#include "job.h"

enum { most_bytes = 20000, flag_pairs = 9, in_row = 200 };

static int sync_flags[flag_pairs];
static gasnet_node_t me, nodes;
/* Blocks for all nodes, in the segment and outside. */
static char *src, *dst;
static char heap_src[16 * most_bytes], heap_dst[16 * most_bytes];

/* Byte i of block `to` of what `from` sends, in round `round`. */
static char byte_of(unsigned from, unsigned to, unsigned round, size_t i) {
  return (char)(from * 31 + to * 17 + round * 7 + i * 3 + i / 251);
}
static void fill(char* at, unsigned from, unsigned to, unsigned round, size_t n) {
  size_t i;
  for (i = 0; i < n; ++i) at[i] = byte_of(from, to, round, i);
}
static int filled(const char* at, unsigned from, unsigned to, unsigned round, size_t n) {
  size_t i;
  for (i = 0; i < n; ++i)
    if (at[i] != byte_of(from, to, round, i)) return 0;
  return 1;
}

/* form 0: plain, 1: plain with handle, 2: M, 3: M with handle. */
static void broadcast(gasnet_team_handle_t team, int form, unsigned root, size_t n, int flags) {
  void* list[1];
  list[0] = dst;
  if (form == 0) gasnet_coll_broadcast(team, dst, root, src, n, flags);
  if (form == 1) gasnet_coll_wait_sync(gasnet_coll_broadcast_nb(team, dst, root, src, n, flags));
  if (form == 2) gasnet_coll_broadcastM(team, list, root, src, n, flags);
  if (form == 3) gasnet_coll_wait_sync(gasnet_coll_broadcastM_nb(team, list, root, src, n, flags));
}
static void scatter(int form, unsigned root, size_t n, int flags) {
  void* list[1];
  list[0] = dst;
  if (form == 0) gasnet_coll_scatter(GASNET_TEAM_ALL, dst, root, src, n, flags);
  if (form == 1)
    gasnet_coll_wait_sync(gasnet_coll_scatter_nb(GASNET_TEAM_ALL, dst, root, src, n, flags));
  if (form == 2) gasnet_coll_scatterM(GASNET_TEAM_ALL, list, root, src, n, flags);
  if (form == 3)
    gasnet_coll_wait_sync(gasnet_coll_scatterM_nb(GASNET_TEAM_ALL, list, root, src, n, flags));
}
static void gather(int form, unsigned root, size_t n, int flags) {
  void* list[1];
  void* const to = me == root ? dst : NULL;
  list[0] = src;
  if (form == 0) gasnet_coll_gather(GASNET_TEAM_ALL, root, to, src, n, flags);
  if (form == 1)
    gasnet_coll_wait_sync(gasnet_coll_gather_nb(GASNET_TEAM_ALL, root, to, src, n, flags));
  if (form == 2) gasnet_coll_gatherM(GASNET_TEAM_ALL, root, to, list, n, flags);
  if (form == 3)
    gasnet_coll_wait_sync(gasnet_coll_gatherM_nb(GASNET_TEAM_ALL, root, to, list, n, flags));
}
static void gather_all(gasnet_team_handle_t team, int form, size_t n, int flags) {
  void *to[1], *from[1];
  to[0] = dst, from[0] = src;
  if (form == 0) gasnet_coll_gather_all(team, dst, src, n, flags);
  if (form == 1) gasnet_coll_wait_sync(gasnet_coll_gather_all_nb(team, dst, src, n, flags));
  if (form == 2) gasnet_coll_gather_allM(team, to, from, n, flags);
  if (form == 3) gasnet_coll_wait_sync(gasnet_coll_gather_allM_nb(team, to, from, n, flags));
}
static void exchange(int form, size_t n, int flags) {
  void *to[1], *from[1];
  to[0] = dst, from[0] = src;
  if (form == 0) gasnet_coll_exchange(GASNET_TEAM_ALL, dst, src, n, flags);
  if (form == 1)
    gasnet_coll_wait_sync(gasnet_coll_exchange_nb(GASNET_TEAM_ALL, dst, src, n, flags));
  if (form == 2) gasnet_coll_exchangeM(GASNET_TEAM_ALL, to, from, n, flags);
  if (form == 3)
    gasnet_coll_wait_sync(gasnet_coll_exchangeM_nb(GASNET_TEAM_ALL, to, from, n, flags));
}

/* Pairs (factor, sum): composition of linear functions, whose order matters. */
typedef struct {
  unsigned factor, sum;
} linear;
static void compose(void* results, size_t result_count, const void* left_operands,
                    size_t left_count, const void* right_operands, size_t elem_size, int flags,
                    int arg) {
  linear* const r = (linear*)results;
  const linear *const a = (const linear*)left_operands, *const b = (const linear*)right_operands;
  size_t k;
  CHECK(result_count == left_count && elem_size == sizeof(linear) && arg == 42);
  CHECK((flags & GASNET_COLL_NONCOMM) != 0);
  for (k = 0; k < result_count; ++k) {
    linear both;
    both.factor = a[k].factor * b[k].factor;
    both.sum = a[k].sum * b[k].factor + b[k].sum;
    r[k] = both;
  }
}
static void add(void* results, size_t result_count, const void* left_operands, size_t left_count,
                const void* right_operands, size_t elem_size, int flags, int arg) {
  unsigned* const r = (unsigned*)results;
  const unsigned *const a = (const unsigned*)left_operands, *const b =
                                                                (const unsigned*)right_operands;
  size_t k;
  CHECK(left_count == result_count && elem_size == sizeof *r && flags == 0 && arg == -1);
  for (k = 0; k < result_count; ++k) r[k] = a[k] + b[k];
}
enum { compose_function, add_function };

static void reduce(int form, unsigned root, size_t elem, size_t count,
                   gasnet_coll_fn_handle_t function, int arg, int flags) {
  void* const to = me == root ? dst : NULL;
  void* list[1];
  list[0] = src;
  if (form == 0)
    gasnet_coll_reduce(GASNET_TEAM_ALL, root, to, src, 0, 0, elem, count, function, arg, flags);
  if (form == 1)
    gasnet_coll_wait_sync(gasnet_coll_reduce_nb(GASNET_TEAM_ALL, root, to, src, 0, 0, elem, count,
                                                function, arg, flags));
  if (form == 2)
    gasnet_coll_reduceM(GASNET_TEAM_ALL, root, to, list, 0, 0, elem, count, function, arg, flags);
  if (form == 3)
    gasnet_coll_wait_sync(gasnet_coll_reduceM_nb(GASNET_TEAM_ALL, root, to, list, 0, 0, elem, count,
                                                 function, arg, flags));
}

static void reductions(int form, unsigned root, size_t count, int flags) {
  unsigned r, sum = 0;
  size_t k;
  linear all = {1, 0};
  for (k = 0; k < count; ++k) ((unsigned*)src)[k] = me * 5 + (unsigned)k;
  for (r = 0; r < nodes; ++r) sum += r * 5;
  reduce(form, root, sizeof(unsigned), count, add_function, -1, flags);
  for (k = 0; me == root && k < count; ++k)
    if (((unsigned*)dst)[k] != sum + nodes * (unsigned)k) break;
  CHECK(me != root || k == count);
  meet(); /* (with weak flags others may still read src) */
  for (k = 0; k < count; ++k) {
    ((linear*)src)[k].factor = 3 + me;
    ((linear*)src)[k].sum = me + (unsigned)k;
  }
  for (r = 0; r < nodes; ++r) {
    all.factor *= 3 + r;
    all.sum = all.sum * (3 + r) + r;
  }
  reduce(form, root, sizeof(linear), count, compose_function, 42, flags);
  CHECK(me != root || memcmp(dst, &all, sizeof all) == 0);
  meet();
}

/* Each operation once; the blocks are different in every round. */
static void all_operations(int form, unsigned root, size_t n, int flags, unsigned round) {
  unsigned r;
  if (me == root) fill(src, root, 0, round, n);
  memset(dst, 0x55, n + 1);
  broadcast(GASNET_TEAM_ALL, form, root, n, flags);
  CHECK(filled(dst, root, 0, round, n) && dst[n] == 0x55);
  meet();
  for (r = 0; r < nodes; ++r) fill(src + r * n, me, r, round, n);
  memset(dst, 0x55, n + 1);
  scatter(form, root, n, flags);
  CHECK(filled(dst, root, me, round, n) && dst[n] == 0x55);
  meet();
  memset(dst, 0x55, nodes * n + 1);
  exchange(form, n, flags);
  for (r = 0; r < nodes; ++r) CHECK(filled(dst + r * n, r, me, round, n));
  CHECK(dst[nodes * n] == 0x55);
  meet();
  fill(src, me, 1, round, n);
  gather(form, root, n, flags);
  for (r = 0; me == root && r < nodes; ++r) CHECK(filled(dst + r * n, r, 1, round, n));
  meet();
  memset(dst, 0x55, nodes * n + 1);
  gather_all(GASNET_TEAM_ALL, form, n, flags);
  for (r = 0; r < nodes; ++r) CHECK(filled(dst + r * n, r, 1, round, n));
  CHECK(dst[nodes * n] == 0x55);
  meet();
}

/* Many in flight, synchronized in other orders than they began in. */
static void in_a_row(void) {
  static gasnet_coll_handle_t handles[in_row];
  unsigned i, r, left = in_row;
  for (i = 0; i < in_row; ++i) {
    char* const at = heap_dst + i * 64;
    if (i % nodes == me) fill(at, me, i, 3, 64);
    handles[i] = gasnet_coll_broadcast_nb(
        GASNET_TEAM_ALL, at, i % nodes, at, 64,
        GASNET_COLL_LOCAL | GASNET_COLL_IN_NOSYNC | GASNET_COLL_OUT_MYSYNC);
  }
  while (gasnet_coll_try_sync(handles[in_row - 1]) == GASNET_ERR_NOT_READY) continue;
  handles[in_row - 1] = GASNET_COLL_INVALID_HANDLE;
  while (left > in_row / 2) {
    gasnet_coll_wait_sync_some(handles, in_row);
    for (i = left = 0; i < in_row; ++i) left += handles[i] != GASNET_COLL_INVALID_HANDLE;
  }
  CHECK(gasnet_coll_try_sync_some(handles, 0) == GASNET_OK);
  while (gasnet_coll_try_sync_all(handles, in_row / 2) != GASNET_OK) continue;
  gasnet_coll_wait_sync_all(handles, in_row);
  for (i = 0; i < in_row; ++i) {
    CHECK(handles[i] == GASNET_COLL_INVALID_HANDLE);
    CHECK(filled(heap_dst + i * 64, i % nodes, i, 3, 64));
  }
  gasnet_coll_wait_sync(GASNET_COLL_INVALID_HANDLE);
  for (r = 0; r < nodes; ++r) gasnet_coll_wait_sync_some(handles, in_row);
  meet();
}

/* Rows and columns, as nearly square as may be; the last row may be short. */
static void teams(void) {
  gasnet_node_t columns = 1, row, column, r, height = 0, width;
  gasnet_team_handle_t across, along;
  gasnet_seginfo_t scratch;
  int id = 0, i;
  while (columns * columns < nodes) ++columns;
  row = me / columns, column = me % columns;
  width = (row + 1) * columns <= nodes ? columns : nodes - row * columns;
  for (r = column; r < nodes; r += columns) ++height;
  scratch.addr = heap_src, scratch.size = sizeof heap_src;
  across = gasnet_coll_team_split(GASNET_TEAM_ALL, row, column, &scratch);
  along = gasnet_coll_team_split(GASNET_TEAM_ALL, column, row, &scratch);
  CHECK(across != GASNET_TEAM_ALL && along != across);
  CHECK(gasnet_coll_team_size(across) == width && gasnet_coll_team_size(along) == height);
  CHECK(gasnet_coll_team_size(GASNET_TEAM_ALL) == nodes);
  for (r = 0; r < width; ++r) {
    CHECK(gasnet_coll_team_rank2node(across, (int)r) == row * columns + r);
    CHECK(gasnet_coll_team_node2rank(across, row * columns + r) == r);
  }
  for (i = 0; i < 50; ++i) {
    CHECK(gasnet_coll_barrier(across, i, 0) == GASNET_OK);
    CHECK(gasnet_coll_barrier_result(across, &id) == 0 && id == i);
    gasnet_coll_barrier_notify(along, i, GASNET_BARRIERFLAG_UNNAMED);
    CHECK(gasnet_coll_barrier_wait(along, i, GASNET_BARRIERFLAG_UNNAMED) == GASNET_OK);
    CHECK(gasnet_coll_barrier_result(along, &id) == 1);
    gasnet_coll_barrier_notify(GASNET_TEAM_ALL, i, GASNET_BARRIERFLAG_IMAGES);
    while ((id = gasnet_coll_barrier_try(GASNET_TEAM_ALL, i, GASNET_BARRIERFLAG_IMAGES)) ==
           GASNET_ERR_NOT_READY)
      continue;
    CHECK(id == GASNET_OK);
  }
  /* One names another than the others. */
  CHECK(gasnet_coll_barrier(across, column == 0 ? 7 : 8, 0) ==
        (width == 1 ? GASNET_OK : GASNET_ERR_BARRIER_MISMATCH));
  CHECK(gasnet_coll_barrier(along, 0, row == 0 ? GASNET_BARRIERFLAG_MISMATCH : 0) ==
        GASNET_ERR_BARRIER_MISMATCH);
  for (i = 0; i < 4; ++i) {
    const int flags = GASNET_COLL_LOCAL | sync_flags[i * 2];
    fill(src, me, 2, (unsigned)i, 300);
    gather_all(across, i, 300, flags);
    for (r = 0; r < width; ++r)
      CHECK(filled(dst + r * 300, row * columns + r, 2, (unsigned)i, 300));
    meet();
    fill(src, me, 3, (unsigned)i, 9000);
    broadcast(along, i, height - 1, 9000, flags);
    CHECK(filled(dst, (height - 1) * columns + column, 3, (unsigned)i, 9000));
    meet();
  }
}

/* In its own place, as UPC++ does it. */
static void in_place(void) {
  const int flags = GASNET_COLL_LOCAL | GASNET_COLL_IN_MYSYNC | GASNET_COLL_OUT_MYSYNC;
  unsigned r;
  fill(heap_dst, me, 9, 9, 500);
  gasnet_coll_broadcast(GASNET_TEAM_ALL, heap_dst, nodes - 1, heap_dst, 500, flags);
  CHECK(filled(heap_dst, nodes - 1, 9, 9, 500));
  fill(heap_dst + me * 500, me, 8, 9, 500);
  gasnet_coll_gather_all(GASNET_TEAM_ALL, heap_dst, heap_dst + me * 500, 500, flags);
  for (r = 0; r < nodes; ++r) CHECK(filled(heap_dst + r * 500, r, 8, 9, 500));
  fill(heap_dst + me * 500, me, 7, 9, 500);
  gasnet_coll_gather(GASNET_TEAM_ALL, 0, heap_dst, heap_dst + me * 500, 500, flags);
  for (r = 0; me == 0 && r < nodes; ++r) CHECK(filled(heap_dst + r * 500, r, 7, 9, 500));
}

/* As clients of GASNet-EX call them, which has no gasnet_coll_init. */
static void without_a_start(void) {
  const int flags = GASNET_COLL_LOCAL | GASNET_COLL_IN_MYSYNC | GASNET_COLL_OUT_MYSYNC;
  int value = me == 0 ? 42 : 0;
  unsigned r;
  gasnet_coll_broadcast(GASNET_TEAM_ALL, &value, 0, &value, sizeof value, flags);
  CHECK(value == 42);
  fill(heap_src, me, 6, 6, 300);
  gasnet_coll_wait_sync(gasnet_coll_gather_all_nb(GASNET_TEAM_ALL, heap_dst, heap_src, 300, flags));
  for (r = 0; r < nodes; ++r) CHECK(filled(heap_dst + r * 300, r, 6, 6, 300));
}

int main(int argc, char** argv) {
  static const size_t sizes[] = {1, 8, 1000, 4033, most_bytes};
  static const int in[] = {GASNET_COLL_IN_NOSYNC, GASNET_COLL_IN_MYSYNC, GASNET_COLL_IN_ALLSYNC};
  static const int out[] = {GASNET_COLL_OUT_NOSYNC, GASNET_COLL_OUT_MYSYNC,
                            GASNET_COLL_OUT_ALLSYNC};
  static const gasnet_handlerentry_t entry = AREA_HANDLER;
  gasnet_coll_fn_entry_t functions[2];
  gasnet_coll_reduce_fn_t composition = &compose;
  gasnet_handlerentry_t table[1];
  gasnet_image_t images[most_nodes];
  gasnet_node_t root;
  unsigned s, pair, round = 0;
  int form;
  table[0] = entry;
  MUST(gasnet_init(&argc, &argv));
  MUST(gasnet_attach(table, 1, area_bytes, 0));
  share_areas();
  me = gasnet_mynode(), nodes = gasnet_nodes();
  for (root = 0; root < nodes; ++root) images[root] = 1;
  for (pair = 0; pair < flag_pairs; ++pair) sync_flags[pair] = in[pair / 3] | out[pair % 3];
  CHECK((sync_flags[8] & GASNET_COLL_SYNC_FLAG_MASK) == sync_flags[8]);
  functions[compose_function].fnptr = composition;
  functions[compose_function].flags = GASNET_COLL_NONCOMM | GASNET_COLL_AMSAFE;
  functions[add_function].fnptr = &add;
  functions[add_function].flags = 0;
  without_a_start();
  gasnet_coll_init(nodes % 2 == 0 ? images : NULL, me, functions, 2, 0);
  memset(functions, 0, sizeof functions); /* they have been copied */
  memset(images, 0, sizeof images);
  for (s = 0; s < sizeof sizes / sizeof *sizes; ++s)
    for (pair = 0; pair < flag_pairs; ++pair)
      for (root = 0; root < nodes; ++root) {
        int flags = sync_flags[pair];
        form = (int)(++round % 4);
        if (s % 2 == 0) {
          src = area[me], dst = area[me] + area_bytes / 2;
          flags |= GASNET_COLL_LOCAL | GASNET_COLL_SRC_IN_SEGMENT | GASNET_COLL_DST_IN_SEGMENT;
        } else {
          src = heap_src, dst = heap_dst;
          flags |= GASNET_COLL_LOCAL;
        }
        all_operations(form, root, sizes[s], flags, round);
        if (sizes[s] >= sizeof(linear)) reductions(form, root, sizes[s] / sizeof(linear), flags);
        if (nodes == 1) { /* one node's addresses are everybody's */
          flags ^= GASNET_COLL_LOCAL | GASNET_COLL_SINGLE;
          all_operations(form, root, sizes[s], flags, round);
        }
      }
  in_a_row();
  in_place();
  src = area[me], dst = heap_dst;
  teams();
  gasnet_coll_dumpTuningState(NULL, GASNET_TEAM_ALL);
  gasnet_coll_dumpProfile(NULL, GASNET_TEAM_ALL);
  finish();
  return 0;
}
