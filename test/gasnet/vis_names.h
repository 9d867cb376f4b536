/* gasnet_vis.h: every call, to this node and to others, compared byte by byte with a model. The
 * pieces have all lengths, any order, and different ends on the two sides. */
#include <gasnet_vis.h>
#include <string.h>

#include "job.h"

enum { slice = 48 * 1024, most_pieces = 9000, dims = 20 };

static unsigned long long seed = 1;
static unsigned draw(unsigned below) {
  seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
  return (unsigned)(seed >> 33) % below;
}

/* The memory of the node that is being tried which this node may use, and what should be there. */
static gasnet_node_t other;
static char* remote;
static char model[slice], local[slice], expected[slice];

static gasnet_memvec_t far_list[most_pieces], near_list[most_pieces];
static void *far_at[most_pieces], *near_at[most_pieces];

static void fill(char* at, size_t n) {
  size_t i;
  for (i = 0; i < n; ++i) at[i] = (char)draw(256);
}

/* Both sides start afresh. */
static void begin(void) {
  fill(model, slice);
  fill(local, slice);
  memcpy(expected, local, slice);
  gasnet_put_bulk(other, remote, model, slice);
}
static void compare(const char* what) {
  static char there[slice];
  gasnet_get_bulk(there, other, remote, slice);
  CHECK(memcmp(there, model, slice) == 0);
  CHECK(memcmp(local, expected, slice) == 0);
  if (check_failures != 0) {
    fprintf(stderr, "%s, node %u to %u\n", what, gasnet_mynode(), other);
    gasnet_exit(1);
  }
}

/* Cuts `total` bytes into pieces of up to `longest`, with gaps between them, and shuffles them. */
static size_t cut(gasnet_memvec_t* list, char* base, size_t total, size_t longest, size_t most) {
  size_t n = 0, at = 0, spare = slice - total, i;
  while (total != 0) {
    size_t len = n + 1 == most ? total : draw((unsigned)longest + 1), gap = draw(40);
    if (len > total) len = total;
    if (gap > spare) gap = spare;
    at += gap, spare -= gap;
    list[n].addr = len != 0 ? base + at : NULL;
    list[n++].len = len;
    at += len, total -= len;
  }
  for (i = n; i > 1; --i) {
    const size_t k = draw((unsigned)i);
    const gasnet_memvec_t t = list[k];
    list[k] = list[i - 1];
    list[i - 1] = t;
  }
  return n;
}

/* Copies between the two models as the lists say. */
static void copy_model(const gasnet_memvec_t* to, size_t to_count, char* to_base, char* to_model,
                       const gasnet_memvec_t* from, size_t from_count, char* from_base,
                       char* from_model) {
  size_t i = 0, k = 0, a = 0, b = 0;
  while (i < to_count && k < from_count) {
    if (a == to[i].len) {
      ++i, a = 0;
    } else if (b == from[k].len) {
      ++k, b = 0;
    } else {
      to_model[(char*)to[i].addr - to_base + a++] =
          from_model[(char*)from[k].addr - from_base + b++];
    }
  }
}

static void finish_with(int how, gasnet_handle_t h, int put) {
  if (how == 1) gasnet_wait_syncnb(h);
  if (how == 2 && put) gasnet_wait_syncnbi_puts();
  if (how == 2 && !put) gasnet_wait_syncnbi_gets();
}

static void vectors(int how, size_t total, size_t far_longest, size_t near_longest) {
  gasnet_handle_t h = GASNET_INVALID_HANDLE;
  size_t f, n;
  begin();
  f = cut(far_list, remote, total, far_longest, most_pieces);
  n = cut(near_list, local, total, near_longest, most_pieces);
  copy_model(far_list, f, remote, model, near_list, n, local, expected);
  if (how == 0) gasnet_putv_bulk(other, f, far_list, n, near_list);
  if (how == 1) h = gasnet_putv_nb_bulk(other, f, far_list, n, near_list);
  if (how == 2) gasnet_putv_nbi_bulk(other, f, far_list, n, near_list);
  finish_with(how, h, 1);
  compare("putv");
  begin();
  copy_model(near_list, n, local, expected, far_list, f, remote, model);
  h = GASNET_INVALID_HANDLE;
  if (how == 0) gasnet_getv_bulk(n, near_list, other, f, far_list);
  if (how == 1) h = gasnet_getv_nb_bulk(n, near_list, other, f, far_list);
  if (how == 2) gasnet_getv_nbi_bulk(n, near_list, other, f, far_list);
  finish_with(how, h, 0);
  compare("getv");
}

/* Pieces of one length: far_len * far_count == near_len * near_count. */
static void indexed(int how, size_t far_len, size_t far_count, size_t near_len, size_t near_count) {
  gasnet_handle_t h = GASNET_INVALID_HANDLE;
  size_t i;
  begin();
  for (i = 0; i < far_count; ++i) { /* in this order far away, backwards here */
    far_at[i] = far_list[i].addr = remote + i * (slice / far_count);
    far_list[i].len = far_len;
  }
  for (i = 0; i < near_count; ++i) {
    near_at[i] = near_list[i].addr = local + (near_count - 1 - i) * (slice / near_count);
    near_list[i].len = near_len;
  }
  copy_model(far_list, far_count, remote, model, near_list, near_count, local, expected);
  if (how == 0) gasnet_puti_bulk(other, far_count, far_at, far_len, near_count, near_at, near_len);
  if (how == 1)
    h = gasnet_puti_nb_bulk(other, far_count, far_at, far_len, near_count, near_at, near_len);
  if (how == 2)
    gasnet_puti_nbi_bulk(other, far_count, far_at, far_len, near_count, near_at, near_len);
  finish_with(how, h, 1);
  compare("puti");
  begin();
  copy_model(near_list, near_count, local, expected, far_list, far_count, remote, model);
  h = GASNET_INVALID_HANDLE;
  if (how == 0) gasnet_geti_bulk(near_count, near_at, near_len, other, far_count, far_at, far_len);
  if (how == 1)
    h = gasnet_geti_nb_bulk(near_count, near_at, near_len, other, far_count, far_at, far_len);
  if (how == 2)
    gasnet_geti_nbi_bulk(near_count, near_at, near_len, other, far_count, far_at, far_len);
  finish_with(how, h, 0);
  compare("geti");
}

/* One side of an array of `levels` levels; its pieces, one by one, go into list. */
static size_t lay_out(gasnet_memvec_t* list, char* base, const size_t* strides, const size_t* count,
                      size_t levels) {
  size_t at[dims + 1], n = 0, i;
  for (i = 0; i <= levels; ++i)
    if (count[i] == 0) return 0;
  memset(at, 0, sizeof at);
  while (1) {
    char* place = base;
    for (i = 0; i < levels; ++i) place += at[i] * strides[i];
    list[n].addr = place;
    list[n++].len = count[0];
    for (i = 0; i < levels && ++at[i] == count[i + 1]; ++i) at[i] = 0;
    if (i == levels) return n;
  }
}

static void strided(int how, const size_t* count, size_t levels, int far_gaps, int near_gaps) {
  gasnet_handle_t h = GASNET_INVALID_HANDLE;
  size_t far_strides[dims + 1], near_strides[dims + 1], f = count[0], n = count[0], i;
  for (i = 0; i < levels; ++i) {
    far_strides[i] = f + (far_gaps ? draw(9) : 0);
    near_strides[i] = n + (near_gaps ? draw(9) : 0);
    f = far_strides[i] * count[i + 1];
    n = near_strides[i] * count[i + 1];
  }
  CHECK(f <= slice && n <= slice);
  if (f > slice || n > slice) return;
  begin();
  f = lay_out(far_list, remote, far_strides, count, levels);
  n = lay_out(near_list, local, near_strides, count, levels);
  copy_model(far_list, f, remote, model, near_list, n, local, expected);
  if (how == 0) gasnet_puts_bulk(other, remote, far_strides, local, near_strides, count, levels);
  if (how == 1)
    h = gasnet_puts_nb_bulk(other, remote, far_strides, local, near_strides, count, levels);
  if (how == 2)
    gasnet_puts_nbi_bulk(other, remote, far_strides, local, near_strides, count, levels);
  finish_with(how, h, 1);
  compare("puts");
  begin();
  copy_model(near_list, n, local, expected, far_list, f, remote, model);
  h = GASNET_INVALID_HANDLE;
  if (how == 0) gasnet_gets_bulk(local, near_strides, other, remote, far_strides, count, levels);
  if (how == 1)
    h = gasnet_gets_nb_bulk(local, near_strides, other, remote, far_strides, count, levels);
  if (how == 2)
    gasnet_gets_nbi_bulk(local, near_strides, other, remote, far_strides, count, levels);
  finish_with(how, h, 0);
  compare("gets");
}

/* Of nothing: lists of no pieces, pieces of no bytes, arrays with a count of 0. */
static void nothing(int how) {
  static const size_t none[] = {8, 0, 3}, stride[] = {1, 1};
  gasnet_handle_t h[6];
  gasnet_memvec_t empty[3];
  memset(empty, 0, sizeof empty);
  memset(h, 0, sizeof h);
  begin();
  if (how == 0) {
    gasnet_putv_bulk(other, 3, empty, 0, NULL);
    gasnet_getv_bulk(0, NULL, other, 3, empty);
    gasnet_puti_bulk(other, 0, NULL, 4, 0, NULL, 8);
    gasnet_geti_bulk(0, NULL, 4, other, 0, NULL, 8);
    gasnet_puts_bulk(other, NULL, stride, NULL, stride, none, 2);
    gasnet_gets_bulk(NULL, stride, other, NULL, stride, none, 2);
  } else if (how == 1) {
    h[0] = gasnet_putv_nb_bulk(other, 3, empty, 0, NULL);
    h[1] = gasnet_getv_nb_bulk(0, NULL, other, 3, empty);
    h[2] = gasnet_puti_nb_bulk(other, 0, NULL, 4, 0, NULL, 8);
    h[3] = gasnet_geti_nb_bulk(0, NULL, 4, other, 0, NULL, 8);
    h[4] = gasnet_puts_nb_bulk(other, NULL, stride, NULL, stride, none, 2);
    h[5] = gasnet_gets_nb_bulk(NULL, stride, other, NULL, stride, none, 2);
    CHECK(gasnet_try_syncnb_all(h, 6) == GASNET_OK);
  } else {
    gasnet_putv_nbi_bulk(other, 3, empty, 0, NULL);
    gasnet_puts_nbi_bulk(other, NULL, stride, NULL, stride, none, 2);
    CHECK(gasnet_try_syncnbi_all() == GASNET_OK);
  }
  compare("nothing");
}

/* Several at once, in one access region, beside a plain put. */
static void together(void) {
  enum { many = 16, part = slice / many };
  gasnet_handle_t h;
  gasnet_memvec_t to[many][2], from[many];
  unsigned i;
  begin();
  gasnet_begin_nbi_accessregion();
  for (i = 0; i < many; ++i) {
    char* const there = remote + i * part;
    if (i % 4 == 0) {
      gasnet_put_nbi_bulk(other, there, local + i * part, 200);
    } else {
      to[i][0].addr = there, to[i][0].len = 150;
      to[i][1].addr = there + 150, to[i][1].len = 50;
      from[i].addr = local + i * part, from[i].len = 200;
      gasnet_putv_nbi_bulk(other, 2, to[i], 1, &from[i]);
    }
    memcpy(model + i * part, local + i * part, 200);
  }
  h = gasnet_end_nbi_accessregion();
  gasnet_wait_syncnb(h);
  compare("in a region");
}

int main(int argc, char** argv) {
  static const size_t shapes[][6] = {/* levels, counts */
                                     {0, 4000},          {1, 8, 100},     {1, 64, 256},
                                     {1, 1, 2000},       {1, 600, 20},    {2, 16, 10, 20},
                                     {2, 3, 1, 50},      {3, 5, 4, 3, 7}, {3, 8, 1, 1, 1},
                                     {4, 2, 3, 4, 5, 6}, {1, 2100, 10}};
  static const gasnet_handlerentry_t entry = AREA_HANDLER;
  gasnet_handlerentry_t table[1];
  size_t deep[dims + 1], i;
  int how;
  table[0] = entry;
  MUST(gasnet_init(&argc, &argv));
  MUST(gasnet_attach(table, 1, area_bytes, 0));
  share_areas();
  CHECK(gasnet_nodes() * (size_t)slice <= (size_t)area_bytes);
  seed += gasnet_mynode();
  for (other = 0; other < gasnet_nodes(); ++other) {
    remote = area[other] + gasnet_mynode() * slice;
    for (how = 0; how < 3; ++how) {
      nothing(how);
      vectors(how, 1, 1, 1);
      vectors(how, 5000, 30, 100);
      vectors(how, 20000, 700, 20000);
      vectors(how, 30000, 3000, 2500);
      vectors(how, 20000, 20000, 50);
      indexed(how, 8, 30, 24, 10);
      indexed(how, 4, 8192, 4, 8192);
      indexed(how, 700, 15, 1050, 10);
      indexed(how, 6, 100, 100, 6);
      for (i = 0; i < sizeof shapes / sizeof *shapes; ++i) {
        strided(how, shapes[i] + 1, shapes[i][0], 1, 1);
        strided(how, shapes[i] + 1, shapes[i][0], 0, 1);
        strided(how, shapes[i] + 1, shapes[i][0], 1, 0);
        strided(how, shapes[i] + 1, shapes[i][0], 0, 0);
      }
      for (i = 0; i <= dims; ++i) deep[i] = i % 3 == 1 ? 2 : 1;
      strided(how, deep, dims, 0, 0);
    }
    together();
  }
  finish();
  return 0;
}
