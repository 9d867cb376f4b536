/* A client of gasnet_vis.h: heat on a plane that is cut into rectangles, one for each node. In
 * every step each node puts its edges into its neighbours' margins, the columns by strided puts,
 * and takes the mean of four neighbours everywhere. The answer is that of the same loop over the
 * whole plane, bit by bit. */
#include <gasnet_vis.h>
#include <string.h>

#include "job.h"

enum { height = 40, width = 28, steps = 50, line = width + 2, cells = (height + 2) * line };

static int down = 1, across = 1, row, column; /* nodes; this one's place among them */

/* What is hot from the start: the plane's upper edge, more to the right. */
static double edge(int x) { return 1.0 + 0.125 * x; }

/* Cell (y, x) of buffer `which` of node n; the margins are at 0, height + 1 and width + 1. */
static double* cell(gasnet_node_t n, int which, int y, int x) {
  return (double*)(void*)area[n] + which * cells + y * line + x;
}
static gasnet_node_t node_at(int r, int c) { return (gasnet_node_t)(r * across + c); }

static void put_columns(gasnet_node_t to, int which, int from_x, int to_x, gasnet_handle_t* h) {
  const size_t stride[] = {line * sizeof(double)}, count[] = {sizeof(double), height};
  *h = gasnet_puts_nb_bulk(to, cell(to, which, 1, to_x), stride,
                           cell(gasnet_mynode(), which, 1, from_x), stride, count, 1);
}
static void put_rows(gasnet_node_t to, int which, int from_y, int to_y, gasnet_handle_t* h) {
  *h = gasnet_put_nb_bulk(to, cell(to, which, to_y, 1), cell(gasnet_mynode(), which, from_y, 1),
                          width * sizeof(double));
}

static void step(int which) {
  const gasnet_node_t me = gasnet_mynode();
  gasnet_handle_t h[4];
  int y, x;
  memset(h, 0, sizeof h);
  if (row > 0) put_rows(node_at(row - 1, column), which, 1, height + 1, &h[0]);
  if (row + 1 < down) put_rows(node_at(row + 1, column), which, height, 0, &h[1]);
  if (column > 0) put_columns(node_at(row, column - 1), which, 1, width + 1, &h[2]);
  if (column + 1 < across) put_columns(node_at(row, column + 1), which, width, 0, &h[3]);
  gasnet_wait_syncnb_all(h, 4);
  meet();
  for (y = 1; y <= height; ++y)
    for (x = 1; x <= width; ++x)
      *cell(me, 1 - which, y, x) = 0.25 * (*cell(me, which, y - 1, x) + *cell(me, which, y + 1, x) +
                                           *cell(me, which, y, x - 1) + *cell(me, which, y, x + 1));
}

/* The whole plane by one process, in the same order of operations. */
static double* serial(int all_height, int all_width) {
  const int w = all_width + 2;
  double* now = (double*)calloc((size_t)(all_height + 2) * w, sizeof(double));
  double* next = (double*)calloc((size_t)(all_height + 2) * w, sizeof(double));
  int s, y, x;
  for (x = 1; x <= all_width; ++x) now[x] = next[x] = edge(x - 1);
  for (s = 0; s < steps; ++s) {
    double* const t = now;
    for (y = 1; y <= all_height; ++y)
      for (x = 1; x <= all_width; ++x)
        next[y * w + x] = 0.25 * (now[(y - 1) * w + x] + now[(y + 1) * w + x] + now[y * w + x - 1] +
                                  now[y * w + x + 1]);
    now = next, next = t;
  }
  free(next);
  return now;
}

int main(int argc, char** argv) {
  static const gasnet_handlerentry_t entry = AREA_HANDLER;
  gasnet_handlerentry_t table[1];
  gasnet_node_t me;
  double* whole;
  int s, y, x, wrong = 0, w;
  table[0] = entry;
  MUST(gasnet_init(&argc, &argv));
  MUST(gasnet_attach(table, 1, area_bytes, 0));
  share_areas();
  me = gasnet_mynode();
  while ((down + 1) * (down + 1) <= (int)gasnet_nodes()) ++down;
  while ((int)gasnet_nodes() % down != 0) --down;
  across = (int)gasnet_nodes() / down;
  row = (int)me / across, column = (int)me % across;
  for (y = 0; y < 2; ++y) {
    memset(cell(me, y, 0, 0), 0, cells * sizeof(double));
    for (x = 1; row == 0 && x <= width; ++x) *cell(me, y, 0, x) = edge(column * width + x - 1);
  }
  meet();
  for (s = 0; s < steps; ++s) {
    step(s % 2);
    meet();
  }
  whole = serial(down * height, across * width);
  w = across * width + 2;
  for (y = 1; y <= height; ++y)
    for (x = 1; x <= width; ++x)
      wrong += *cell(me, steps % 2, y, x) != whole[(row * height + y) * w + column * width + x];
  CHECK(wrong == 0);
  CHECK(whole[w + 1] != 0);
  free(whole);
  finish();
  return 0;
}
