/* Large reductions and broadcasts of gasnetex.h (specification 0.19, "Collectives") against a loop
 * over all ranks: sizes at which elements come in one message, in chunks, and in several blocks,
 * with a remainder; elements in segments and elsewhere, each way round; in place; to one and to
 * all; operations that commute and one that does not, whose order of ranks is kept; several at a
 * time. */
#include <gasnet_coll.h>
#include <gasnetex.h>

#include "ex_job.h"

enum { most = 1 << 17 }; /* elements of two words */
typedef struct {
  uint64_t a, b; /* the function x -> a x + b, modulo 2^64: composition does not commute */
} line;
static line private_in[most], private_out[most];
static line *shared_in, *shared_out;

static line element(gex_Rank_t rank, size_t i) {
  line l;
  l.a = 2 * (uint64_t)(rank + i % 5) + 3;
  l.b = (uint64_t)(rank * 1000) + i % 1013;
  return l;
}
/* What stands left is applied last. */
static line after(line left, line right) {
  line l;
  l.a = left.a * right.a;
  l.b = left.a * right.b + left.b;
  return l;
}
static void compose(const void* left, void* right_and_out, size_t count, const void* cdata) {
  const line* const l = (const line*)left;
  line* const r = (line*)right_and_out;
  size_t i;
  (void)cdata;
  for (i = 0; i < count; ++i) r[i] = after(l[i], r[i]);
}

enum operation { composed, added, greatest, operations };
static line wanted(enum operation op, size_t i) {
  line all = element(0, i);
  gex_Rank_t r;
  for (r = 1; r < nodes; ++r) {
    const line l = element(r, i);
    if (op == composed) {
      all = after(all, l);
    } else if (op == added) {
      all.a += l.a, all.b += l.b;
    } else {
      all.a = all.a > l.a ? all.a : l.a;
      all.b = all.b > l.b ? all.b : l.b;
    }
  }
  return all;
}

static gex_Event_t reduce(enum operation op, int to_one, gex_Rank_t root, line* out, const line* in,
                          size_t count) {
  const gex_DT_t dt = op == composed ? GEX_DT_USER : GEX_DT_U64;
  const gex_OP_t how = op == composed ? GEX_OP_USER_NC : op == added ? GEX_OP_ADD : GEX_OP_MAX;
  const size_t size = op == composed ? sizeof(line) : 8, n = op == composed ? count : 2 * count;
  const gex_Coll_ReduceFn_t fn = op == composed ? &compose : NULL;
  if (to_one) return gex_Coll_ReduceToOneNB(tm, root, out, in, dt, size, n, how, fn, NULL, 0);
  return gex_Coll_ReduceToAllNB(tm, out, in, dt, size, n, how, fn, NULL, 0);
}

static void fill(line* in, size_t count) {
  size_t i;
  for (i = 0; i < count; ++i) in[i] = element(me, i);
}
static void compare(enum operation op, const line* out, size_t count) {
  size_t i, bad = 0;
  for (i = 0; i < count; ++i) {
    const line l = wanted(op, i);
    bad += l.a != out[i].a || l.b != out[i].b;
  }
  CHECK(bad == 0);
}
/* A source is the caller's again, as it was. */
static void unchanged(const line* in, size_t count) {
  size_t i, bad = 0;
  for (i = 0; i < count; ++i) {
    const line l = element(me, i);
    bad += l.a != in[i].a || l.b != in[i].b;
  }
  CHECK(bad == 0);
}

static void reductions(size_t count) {
  int op, to_one, where;
  for (op = 0; op < operations; ++op)
    for (to_one = 0; to_one < 2; ++to_one)
      for (where = 0; where < 5; ++where) {
        const gex_Rank_t root = nodes - 1;
        line* const in = where < 2 ? shared_in : private_in;
        line* const out = where == 4 ? in : where % 2 == 0 ? shared_out : private_out;
        const int mine = !to_one || me == root;
        fill(in, count);
        if (out != in) memset(out, 0xee, count * sizeof *out);
        gex_Event_Wait(reduce((enum operation)op, to_one, root, mine ? out : NULL, in, count));
        if (mine) compare((enum operation)op, out, count);
        if (out != in) unchanged(in, count);
      }
}

/* Two reductions and two broadcasts at a time, in the same order on all ranks. */
static void together(size_t count) {
  gex_Event_t ev[4];
  const size_t half = count / 2 + 1;
  gex_Rank_t root;
  size_t i, bad = 0;
  for (root = 0; root < nodes; ++root) {
    fill(shared_in, count);
    fill(private_in, count);
    memset(shared_out, 0, count * sizeof(line));
    memset(private_out, 0, count * sizeof(line));
    ev[0] = reduce(composed, 0, 0, shared_out, shared_in, half);
    ev[1] = gex_Coll_BroadcastNB(tm, root, private_out, private_in, half * sizeof(line), 0);
    ev[2] = reduce(added, 0, 0, private_out + half, private_in, count - half);
    ev[3] = gex_Coll_BroadcastNB(tm, root, shared_out + half, shared_in + half,
                                 (count - half) * sizeof(line), 0);
    gex_Event_WaitAll(ev, 4, 0);
    compare(composed, shared_out, half);
    compare(added, private_out + half, count - half);
    for (i = 0; i < count; ++i) {
      const line l = element(root, i), *const got = i < half ? &private_out[i] : &shared_out[i];
      bad += l.a != got->a || l.b != got->b;
    }
    CHECK(bad == 0);
  }
}

int main(void) {
  static const size_t counts[] = {5000, 20001, most};
  size_t s;
  join_job("large", 0);
  MUST(gex_Segment_Attach(&segment, tm, 2 * most * sizeof(line)));
  know_areas();
  shared_in = (line*)(void*)area[me];
  shared_out = shared_in + most;
  for (s = 0; s < sizeof counts / sizeof *counts; ++s) {
    reductions(counts[s]);
    together(counts[s]);
  }
  finish();
  return 1;
}
