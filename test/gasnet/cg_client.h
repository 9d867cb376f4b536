/* A client of gasnet_coll.h: conjugate gradients. The nodes are split into two teams, each of which
 * solves a system of its own at the same time: the unknowns are cut into pieces, one for each
 * member; neighbours' values come by gets, scalar products by reductions and broadcasts over the
 * team. The answers are compared with those of the same method by one process. */
#include <gasnet_coll.h>
#include <math.h>
#include <string.h>

#include "job.h"

enum { piece = 50, most_rounds = 400, sum_function = 0 };

static gasnet_team_handle_t team;
static gasnet_node_t rank, members;

static void add(void* results, size_t result_count, const void* left_operands, size_t left_count,
                const void* right_operands, size_t elem_size, int flags, int arg) {
  size_t k;
  (void)left_count, (void)elem_size, (void)flags, (void)arg;
  for (k = 0; k < result_count; ++k)
    ((double*)results)[k] = ((const double*)left_operands)[k] + ((const double*)right_operands)[k];
}

/* The sums of two numbers over the team. */
static void sums(double* two) {
  const int flags = GASNET_COLL_LOCAL | GASNET_COLL_IN_MYSYNC | GASNET_COLL_OUT_MYSYNC;
  double all[2];
  gasnet_coll_reduce(team, 0, all, two, 0, 0, sizeof *two, 2, sum_function, 0, flags);
  gasnet_coll_broadcast(team, two, 0, rank == 0 ? all : NULL, sizeof all, flags);
}

static double right_side(unsigned color, unsigned i) {
  return color == 0 ? 1.0 + i % 7 : (double)(i % 5) - 2.0;
}
/* Row i of the matrix, which is the same for both systems: 2.05 there, -1 beside. */
static double times(const double* v, double before, double after, int i, int n) {
  return 2.05 * v[i] - (i > 0 ? v[i - 1] : before) - (i + 1 < n ? v[i + 1] : after);
}

/* p lies in the area, where the neighbours fetch its ends. */
static int solve(unsigned color, double* x) {
  double* const p = (double*)(void*)area[gasnet_mynode()];
  double r[piece], q[piece], two[2], old;
  int i, rounds;
  two[0] = two[1] = 0;
  for (i = 0; i < piece; ++i) {
    x[i] = 0;
    p[i] = r[i] = right_side(color, rank * piece + (unsigned)i);
    two[0] += r[i] * r[i];
  }
  sums(two);
  old = two[0];
  for (rounds = 0; rounds < most_rounds && old > 1e-22; ++rounds) {
    double before = 0, after = 0, alpha;
    CHECK(gasnet_coll_barrier(team, rounds, 0) == GASNET_OK); /* all p are there */
    if (rank > 0)
      gasnet_get(
          &before, gasnet_coll_team_rank2node(team, (int)rank - 1),
          area[gasnet_coll_team_rank2node(team, (int)rank - 1)] + (piece - 1) * sizeof before,
          sizeof before);
    if (rank + 1 < members)
      gasnet_get(&after, gasnet_coll_team_rank2node(team, (int)rank + 1),
                 area[gasnet_coll_team_rank2node(team, (int)rank + 1)], sizeof after);
    two[0] = two[1] = 0;
    for (i = 0; i < piece; ++i) {
      q[i] = times(p, before, after, i, piece);
      two[0] += p[i] * q[i];
    }
    sums(two); /* and all have fetched what they need */
    alpha = old / two[0];
    two[0] = two[1] = 0;
    for (i = 0; i < piece; ++i) {
      x[i] += alpha * p[i];
      r[i] -= alpha * q[i];
      two[0] += r[i] * r[i];
      two[1] += 1;
    }
    sums(two);
    CHECK(two[1] == (double)(members * piece));
    for (i = 0; i < piece; ++i) p[i] = r[i] + two[0] / old * p[i];
    old = two[0];
  }
  return rounds;
}

/* The same by one process, for n unknowns. */
static void solve_alone(unsigned color, double* x, int n) {
  double* const r = (double*)malloc(3 * sizeof(double) * (size_t)n);
  double *const p = r + n, *const q = p + n;
  double old = 0;
  int i, rounds;
  for (i = 0; i < n; ++i) {
    x[i] = 0;
    p[i] = r[i] = right_side(color, (unsigned)i);
    old += r[i] * r[i];
  }
  for (rounds = 0; rounds < most_rounds && old > 1e-22; ++rounds) {
    double pq = 0, now = 0;
    for (i = 0; i < n; ++i) {
      q[i] = times(p, 0, 0, i, n);
      pq += p[i] * q[i];
    }
    for (i = 0; i < n; ++i) {
      x[i] += old / pq * p[i];
      r[i] -= old / pq * q[i];
      now += r[i] * r[i];
    }
    for (i = 0; i < n; ++i) p[i] = r[i] + now / old * p[i];
    old = now;
  }
  free(r);
}

int main(int argc, char** argv) {
  static const gasnet_handlerentry_t entry = AREA_HANDLER;
  gasnet_handlerentry_t table[1];
  gasnet_coll_fn_entry_t function;
  gasnet_seginfo_t scratch;
  double x[piece], *alone, worst = 0;
  unsigned color;
  int i, rounds;
  table[0] = entry;
  function.fnptr = &add, function.flags = 0;
  MUST(gasnet_init(&argc, &argv));
  MUST(gasnet_attach(table, 1, area_bytes, 0));
  share_areas();
  gasnet_coll_init(NULL, 0, &function, 1, 0);
  color = gasnet_mynode() % 2;
  scratch.addr = area[gasnet_mynode()] + area_bytes / 2, scratch.size = area_bytes / 2;
  team = gasnet_coll_team_split(GASNET_TEAM_ALL, color, gasnet_mynode() / 2, &scratch);
  members = gasnet_coll_team_size(team);
  rank = gasnet_coll_team_node2rank(team, gasnet_mynode());
  rounds = solve(color, x);
  CHECK(rounds > 5 && rounds < most_rounds);
  alone = (double*)malloc(sizeof(double) * members * (size_t)piece);
  solve_alone(color, alone, (int)members * piece);
  for (i = 0; i < piece; ++i) {
    const double off = fabs(x[i] - alone[rank * piece + (unsigned)i]);
    if (!(off <= worst)) worst = off;
  }
  CHECK(worst < 1e-9);
  free(alone);
  finish();
  return 0;
}
