/* Remote atomics of gasnetex.h: every operation on every type, fetching and not, with an event and
 * implicit, against what arithmetic says; then many at once from all ranks, whose sum must come
 * out. */
#include <gasnet_ratomic.h>

#include "ex_job.h"

enum { in_flight = 64, rounds = 50 };

static gex_OP_t integer_ops(void) {
  return GEX_OP_AND | GEX_OP_OR | GEX_OP_XOR | GEX_OP_FAND | GEX_OP_FOR | GEX_OP_FXOR;
}
static gex_OP_t common_ops(void) {
  return GEX_OP_ADD | GEX_OP_SUB | GEX_OP_MULT | GEX_OP_MIN | GEX_OP_MAX | GEX_OP_INC | GEX_OP_DEC |
         GEX_OP_SET | GEX_OP_CAS | GEX_OP_FADD | GEX_OP_FSUB | GEX_OP_FMULT | GEX_OP_FMIN |
         GEX_OP_FMAX | GEX_OP_FINC | GEX_OP_FDEC | GEX_OP_SWAP | GEX_OP_FCAS | GEX_OP_GET;
}

/* The operations by their one number in the loops below; the fetching one is 12 places up. */
#define EXPECTED(x, a, b, op)                      \
  ((op) == GEX_OP_ADD    ? (x) + (a)               \
   : (op) == GEX_OP_SUB  ? (x) - (a)               \
   : (op) == GEX_OP_MULT ? (x) * (a)               \
   : (op) == GEX_OP_MIN  ? ((a) < (x) ? (a) : (x)) \
   : (op) == GEX_OP_MAX  ? ((a) > (x) ? (a) : (x)) \
   : (op) == GEX_OP_INC  ? (x) + 1                 \
   : (op) == GEX_OP_DEC  ? (x)-1                   \
   : (op) == GEX_OP_SET  ? (a)                     \
                         : ((x) == (a) ? (b) : (x)))
#define EXPECTED_BITS(x, a, op) \
  ((op) == GEX_OP_AND ? (x) & (a) : (op) == GEX_OP_OR ? (x) | (a) : (x) ^ (a))

/* One operation on a word that is x: what it fetches, and what it leaves. */
#define ONE(name, T, ad, to, word, x, op, a, b, expected, implicit)                               \
  do {                                                                                            \
    T got = (T)99, left = (T)98;                                                                  \
    const T before = (x), after = (T)(expected);                                                  \
    gex_Event_Wait(gex_AD_OpNB_##name(ad, NULL, to, word, GEX_OP_SET, before, 0, 0));             \
    if (implicit) {                                                                               \
      CHECK(gex_AD_OpNBI_##name(ad, &got, to, word, op, a, b, GEX_FLAG_AD_REL) == 0);             \
      gex_NBI_Wait(GEX_EC_PUT | GEX_EC_RMW, 0);                                                   \
    } else {                                                                                      \
      gex_Event_Wait(gex_AD_OpNB_##name(ad, &got, to, word, op, a, b, GEX_FLAG_AD_ACQ));          \
    }                                                                                             \
    CHECK(got == ((op) >= GEX_OP_TO_FETCHING(1) ? before : (T)99));                               \
    CHECK(gex_AD_OpNBI_##name(ad, &left, to, word, GEX_OP_GET, 0, 0, GEX_FLAG_RANK_IS_JOBRANK) == \
          0);                                                                                     \
    gex_NBI_Wait(GEX_EC_GET, 0);                                                                  \
    CHECK(left == after);                                                                         \
  } while (0)

#define TYPE(name, T, ops, is_integer)                                                             \
  static void on_##name(gex_Rank_t to, void* word, int implicit) {                                 \
    static const gex_OP_t common[] = {GEX_OP_ADD, GEX_OP_SUB, GEX_OP_MULT, GEX_OP_MIN, GEX_OP_MAX, \
                                      GEX_OP_INC, GEX_OP_DEC, GEX_OP_SET,  GEX_OP_CAS};            \
    static const T values[] = {(T)0, (T)1, (T)7, (T)-3, (T)100000};                                \
    gex_AD_t ad = GEX_AD_INVALID;                                                                  \
    int o, i, k;                                                                                   \
    gex_AD_Create(&ad, tm, GEX_DT_##name, ops, GEX_FLAG_AD_FAVOR_REMOTE);                          \
    CHECK(ad != GEX_AD_INVALID && (uintptr_t)ad != 1);                                             \
    CHECK(gex_AD_QueryDT(ad) == GEX_DT_##name && gex_AD_QueryOps(ad) == (ops));                    \
    CHECK(gex_AD_QueryTM(ad) == tm && gex_AD_QueryFlags(ad) == GEX_FLAG_AD_FAVOR_REMOTE);          \
    for (o = 0; o < 9; ++o)                                                                        \
      for (i = 0; i < 5; ++i)                                                                      \
        for (k = 0; k < 5; ++k) {                                                                  \
          const gex_OP_t op = common[o];                                                           \
          const T x = values[i], a = values[k], b = (T)42;                                         \
          if (op == GEX_OP_MULT && i == 4 && k == 4) continue; /* overflow */                      \
          ONE(name, T, ad, to, word, x, op, a, b, EXPECTED(x, a, b, op), implicit);                \
          ONE(name, T, ad, to, word, x, GEX_OP_TO_FETCHING(op), a, b, EXPECTED(x, a, b, op),       \
              implicit);                                                                           \
        }                                                                                          \
    is_integer(name, T) meet();                                                                    \
    gex_AD_Destroy(ad);                                                                            \
  }
#define BITS_TOO(name, T)                                                                   \
  {                                                                                         \
    static const gex_OP_t bits[] = {GEX_OP_AND, GEX_OP_OR, GEX_OP_XOR};                     \
    for (o = 0; o < 3; ++o) {                                                               \
      const T x = (T)0x5a5a, a = (T)0x0ff0;                                                 \
      ONE(name, T, ad, to, word, x, bits[o], a, 0, EXPECTED_BITS(x, a, bits[o]), implicit); \
      ONE(name, T, ad, to, word, x, GEX_OP_TO_FETCHING(bits[o]), a, 0,                      \
          EXPECTED_BITS(x, a, bits[o]), implicit);                                          \
    }                                                                                       \
  }
#define NO_BITS(name, T)

TYPE(I32, int32_t, common_ops() | integer_ops(), BITS_TOO)
TYPE(U32, uint32_t, common_ops() | integer_ops(), BITS_TOO)
TYPE(I64, int64_t, common_ops() | integer_ops(), BITS_TOO)
TYPE(U64, uint64_t, common_ops() | integer_ops(), BITS_TOO)
TYPE(FLT, float, common_ops(), NO_BITS)
TYPE(DBL, double, common_ops(), NO_BITS)

/* Every rank adds to a word of rank 0, many at a time; each number fetched is seen once. */
static void together(gex_OP_t ops, gex_OP_t op) {
  static int64_t fetched[in_flight];
  static gex_Event_t events[in_flight];
  int64_t last = -1, all = 0;
  gex_AD_t ad;
  char* const word = area[0] + 512;
  int i, r;
  gex_AD_Create(&ad, tm, GEX_DT_I64, ops, 0);
  CHECK(gex_AD_QueryCData(ad) == NULL);
  gex_AD_SetCData(ad, &all);
  CHECK(gex_AD_QueryCData(ad) == &all);
  if (me == 0) memset(word, 0, 8);
  meet();
  for (r = 0; r < rounds; ++r) {
    for (i = 0; i < in_flight; ++i)
      events[i] = gex_AD_OpNB_I64(ad, &fetched[i], 0, word, op, 1, 0, 0);
    gex_Event_WaitAll(events, in_flight, 0);
    for (i = 0; i < in_flight; ++i) {
      CHECK(fetched[i] >= 0 && fetched[i] < (int64_t)nodes * rounds * in_flight);
      CHECK(r == 0 || fetched[i] > last); /* those of an earlier round came earlier */
    }
    for (i = 0; i < in_flight; ++i)
      if (fetched[i] > last) last = fetched[i];
  }
  meet();
  gex_Event_Wait(gex_AD_OpNB_I64(ad, &all, 0, word, GEX_OP_GET, 0, 0, GEX_FLAG_AD_ACQ));
  CHECK(all == (int64_t)nodes * rounds * in_flight);
  meet();
  gex_AD_Destroy(ad);
}

static int ex_ad_names(void) {
  gex_Rank_t to[2];
  int i;
  join_job("atomics", 0);
  make_segments();
  CHECK((GEX_FLAG_AD_REL & GEX_FLAG_AD_ACQ) == 0 && GEX_FLAG_AD_MY_RANK != GEX_FLAG_AD_MY_NBRHD);
  CHECK((GEX_FLAG_AD_FAVOR_MY_RANK & GEX_FLAG_AD_FAVOR_MY_NBRHD) == 0);
  to[0] = me;
  to[1] = next_rank;
  for (i = 0; i < 4; ++i) {
    void* const word = area[to[i % 2]] + 64 * i;
    on_I32(to[i % 2], word, i / 2);
    on_U32(to[i % 2], word, i / 2);
    on_I64(to[i % 2], word, i / 2);
    on_U64(to[i % 2], word, i / 2);
    on_FLT(to[i % 2], word, i / 2);
    on_DBL(to[i % 2], word, i / 2);
    meet();
  }
  together(GEX_OP_FADD | GEX_OP_GET, GEX_OP_FADD);                /* by the device, where it can */
  together(GEX_OP_FINC | GEX_OP_FMULT | GEX_OP_GET, GEX_OP_FINC); /* by processors */
  finish();
  return 1;
}
