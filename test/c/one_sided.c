/* Job program: put, get, set and atomics of penstock.h, and the counters of what was done. */
#include "check.h"

enum { words = 1024 };

static struct penstock_endpoint* ep;

static void puts_and_gets(uint32_t to) {
  uint64_t* const there = (uint64_t*)penstock_segment(ep, to, NULL);
  uint64_t out[words], in[words];
  struct penstock_operation ops[4];
  struct penstock_operation none;
  unsigned i;
  enum penstock_status s[4];

  for (i = 0; i < words; ++i) out[i] = (uint64_t)to << 32 | i;
  CHECK(penstock_put(ep, to, there, out, sizeof out) == PENSTOCK_OK);
  memset(in, 0, sizeof in);
  CHECK(penstock_get(ep, in, to, there, sizeof in) == PENSTOCK_OK);
  CHECK(memcmp(in, out, sizeof in) == 0);
  CHECK(penstock_set(ep, to, there, 0x1a5, 16) == PENSTOCK_OK); /* the low byte */
  CHECK(penstock_get(ep, in, to, there, 16) == PENSTOCK_OK);
  for (i = 0; i < 16; ++i) CHECK(((unsigned char*)in)[i] == 0xa5);

  /* A put's source may change at once. */
  for (i = 0; i < 4; ++i) {
    out[0] = i + 1;
    s[i] = penstock_put_nb(ep, to, there + i, out, 8, &ops[i]);
    CHECK(s[i] == PENSTOCK_OK || s[i] == PENSTOCK_PENDING);
    out[0] = 99;
  }
  for (i = 0; i < 4; ++i) {
    if (s[i] == PENSTOCK_PENDING) CHECK(penstock_finish(&ops[i]) == PENSTOCK_OK);
    CHECK(penstock_finish(&ops[i]) == PENSTOCK_OK); /* complete already */
  }
  for (i = 0; i < 4; ++i) {
    s[i] = penstock_get_nb(ep, &in[i], to, there + i, 8, &ops[i]);
    CHECK(s[i] == PENSTOCK_OK || s[i] == PENSTOCK_PENDING);
  }
  for (i = 0; i < 4; ++i) {
    while ((s[i] = penstock_try_finish(&ops[i])) == PENSTOCK_PENDING) {
    }
    CHECK(s[i] == PENSTOCK_OK);
    CHECK(in[i] == i + 1);
  }
  memset(&none, 0, sizeof none);
  CHECK(penstock_try_finish(&none) == PENSTOCK_OK && penstock_finish(&none) == PENSTOCK_OK);

  for (i = 0; i < 100; ++i) CHECK(penstock_put_nbi(ep, to, there + i, &in[0], 8) == PENSTOCK_OK);
  CHECK(penstock_finish_all(ep) == PENSTOCK_OK);
  for (i = 0; i < 100; ++i) CHECK(penstock_get_nbi(ep, &in[i], to, there + i, 8) == PENSTOCK_OK);
  CHECK(penstock_finish_all(ep) == PENSTOCK_OK);
  for (i = 0; i < 100; ++i) CHECK(in[i] == 1);
}

/* Every operation on a word of 64 bits, beside what C does to a variable. */
static void integers(uint32_t to, enum penstock_atomic_path path) {
  const uint32_t all = PENSTOCK_GET | PENSTOCK_SET | PENSTOCK_SWAP | PENSTOCK_CAS | PENSTOCK_ADD |
                       PENSTOCK_SUB | PENSTOCK_INC | PENSTOCK_DEC | PENSTOCK_MULT | PENSTOCK_MIN |
                       PENSTOCK_MAX | PENSTOCK_AND | PENSTOCK_OR | PENSTOCK_XOR;
  struct penstock_atomics* set;
  uint64_t* const word = (uint64_t*)penstock_segment(ep, to, NULL) + 512;
  const uint64_t v = 6;
  uint64_t is = 40, old, zero = 0;
  SET_UP((set = penstock_atomics_make(ep, PENSTOCK_UINT64, all, path)) != NULL);
  if (path == PENSTOCK_PROCESSOR) CHECK(penstock_atomics_by_device(set) == 0);
  CHECK(penstock_atomic(set, to, word, PENSTOCK_SET, &is, NULL, NULL) == PENSTOCK_OK);
#define STEP(op, becomes)                                                                 \
  do {                                                                                    \
    old = 0;                                                                              \
    CHECK(penstock_atomic(set, to, word, op, &v, &zero, &old) == PENSTOCK_OK);            \
    CHECK(old == is);                                                                     \
    is = (becomes);                                                                       \
    CHECK(penstock_atomic(set, to, word, PENSTOCK_GET, NULL, NULL, &old) == PENSTOCK_OK); \
    CHECK(old == is);                                                                     \
  } while (0)
  STEP(PENSTOCK_ADD, is + v);
  STEP(PENSTOCK_SUB, is - v);
  STEP(PENSTOCK_INC, is + 1);
  STEP(PENSTOCK_DEC, is - 1);
  STEP(PENSTOCK_MULT, is * v);
  STEP(PENSTOCK_MAX, is);
  STEP(PENSTOCK_CAS, is); /* not equal to 6: left alone */
  STEP(PENSTOCK_MIN, v);
  STEP(PENSTOCK_CAS, zero); /* equal to 6 */
  STEP(PENSTOCK_OR, v);
  STEP(PENSTOCK_XOR, zero);
  STEP(PENSTOCK_SWAP, v);
  STEP(PENSTOCK_AND, v);
  penstock_atomics_free(set);
}

static void counted_together(void) {
  struct penstock_atomics* set;
  struct penstock_atomics* floats;
  uint64_t* const word = (uint64_t*)penstock_segment(ep, 0, NULL) + 600;
  const uint64_t one = 1;
  const double half = 0.5;
  double sum = 0;
  uint64_t total = 0;
  unsigned i;
  SET_UP((set = penstock_atomics_make(ep, PENSTOCK_UINT64, PENSTOCK_ADD | PENSTOCK_GET,
                                      PENSTOCK_AUTOMATIC)) != NULL);
  SET_UP((floats = penstock_atomics_make(ep, PENSTOCK_DOUBLE, PENSTOCK_ADD | PENSTOCK_GET,
                                         PENSTOCK_AUTOMATIC)) != NULL);
  for (i = 0; i < 100; ++i) {
    CHECK(penstock_atomic(set, 0, word, PENSTOCK_ADD, &one, NULL, NULL) == PENSTOCK_OK);
    CHECK(penstock_atomic(floats, 0, word + 1, PENSTOCK_ADD, &half, NULL, NULL) == PENSTOCK_OK);
  }
  CHECK(penstock_barrier(ep) == PENSTOCK_OK);
  CHECK(penstock_atomic(set, 0, word, PENSTOCK_GET, NULL, NULL, &total) == PENSTOCK_OK);
  CHECK(penstock_atomic(floats, 0, word + 1, PENSTOCK_GET, NULL, NULL, &sum) == PENSTOCK_OK);
  CHECK(total == 100u * penstock_size(ep));
  CHECK(sum == 50.0 * penstock_size(ep));
  penstock_atomics_free(floats);
  penstock_atomics_free(set);
}

int main(void) {
  struct penstock_world* w;
  struct penstock_counters* seen;
  uint64_t polls = 0;
  uint32_t rank, size, to;
  uint32_t all[64];

  SET_UP((w = penstock_join(NULL, 0)) != NULL);
  rank = penstock_world_rank(w), size = penstock_world_size(w);
  CHECK(size <= 64);
  rank += 7;
  SET_UP(penstock_exchange(w, &rank, sizeof rank, all) == 0);
  for (to = 0; to < size; ++to) CHECK(all[to] == to + 7);
  rank -= 7;
  SET_UP((ep = penstock_open(w, NULL, 0)) != NULL);
  SET_UP(penstock_start(ep, words * sizeof(uint64_t), PENSTOCK_SEGMENTS) == 0);
  to = (rank + 1) % size;
  puts_and_gets(to);
  integers(to, PENSTOCK_AUTOMATIC);
  integers(to, PENSTOCK_PROCESSOR);
  CHECK(penstock_barrier(ep) == PENSTOCK_OK); /* the neighbour has put here what it puts */
  CHECK(penstock_set(ep, rank, (uint64_t*)penstock_segment(ep, rank, NULL) + 600, 0, 16) ==
        PENSTOCK_OK);
  CHECK(penstock_barrier(ep) == PENSTOCK_OK);
  counted_together();
  CHECK(penstock_barrier(ep) == PENSTOCK_OK);
  CHECK(penstock_poll(ep) == PENSTOCK_OK);
  CHECK((seen = penstock_counters_take(0)) != NULL);
  CHECK(penstock_counters_get(seen, "polls", &polls) == 0 && polls > 0);
  penstock_counters_free(seen);
  penstock_close(ep);
  penstock_leave(w);
  return 0;
}
