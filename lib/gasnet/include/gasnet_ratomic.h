/* Remote atomics with the names of gasnetex.h. A domain (gex_AD_t) says which operations on words
 * of which type may be concurrent. That decides, for all of them alike, who carries them out: the
 * devices, or the processors. This process's processor does it where the word is mapped here, and
 * the target's elsewhere. */
#ifndef _GASNET_RATOMIC_H
#define _GASNET_RATOMIC_H

#include <gasnetex.h>

GASNETT_BEGIN_EXTERNC

/* ---- what the library of this mode defines ---- */
struct gasnetc_ad {
  gex_TM_t gasnetc_tm;
  gex_OP_t gasnetc_ops;
  int gasnetc_by_processor;
  gex_DT_t gasnetc_dt;
  gex_Flags_t gasnetc_flags;
  const void* gasnetc_data;
  /* The operations that processors carry out, by type: those of the domain for its own type, none
   * for the others. So one look tells that an operation and its type are the domain's, and that the
   * device does not carry it out. */
  gex_OP_t gasnetc_here[6];
};
extern void GASNETC_(ad_create)(gex_AD_t* ad_p, gex_TM_t tm, gex_DT_t dt, gex_OP_t ops,
                                gex_Flags_t flags);
extern void GASNETC_(ad_destroy)(gex_AD_t ad);
/* Begins any operation on any type. The operands are the bits of the type in words of 8 bytes. form
 * is 1 for an operation with an event, and 2 for an implicit one. */
extern gex_Event_t GASNETC_(ad_op)(int form, gex_AD_t ad, void* result, gex_Rank_t tgt,
                                   void* tgt_addr, gex_DT_t dt, gex_OP_t op, uint64_t op1,
                                   uint64_t op2, gex_Flags_t flags);

/* ---- domains: collective over tm, with equal arguments ---- */
GASNETC_INLINE void gex_AD_Create(gex_AD_t* ad_p, gex_TM_t tm, gex_DT_t dt, gex_OP_t ops,
                                  gex_Flags_t flags) {
  GASNETC_(ad_create)(ad_p, tm, dt, ops, flags);
}
/* Ends a domain none of whose operations is under way. Collective over its team. */
GASNETC_INLINE void gex_AD_Destroy(gex_AD_t ad) { GASNETC_(ad_destroy)(ad); }
GASNETC_INLINE gex_AD_t gasnetc_domain(gex_AD_t ad, const char* call) {
  if_pf(ad == GEX_AD_INVALID) GASNETC_(mistake)(gasnetc_no_domain, call, GEX_RANK_INVALID, 0);
  return ad;
}
/* The flags with which it was made. Any thread, as all queries; GEX_AD_INVALID ends the job with a
 * line. */
GASNETC_INLINE gex_Flags_t gex_AD_QueryFlags(gex_AD_t ad) {
  return gasnetc_domain(ad, "gex_AD_QueryFlags")->gasnetc_flags;
}
/* The team over which it was made. */
GASNETC_INLINE gex_TM_t gex_AD_QueryTM(gex_AD_t ad) {
  return gasnetc_domain(ad, "gex_AD_QueryTM")->gasnetc_tm;
}
/* The type of its words. */
GASNETC_INLINE gex_DT_t gex_AD_QueryDT(gex_AD_t ad) {
  return gasnetc_domain(ad, "gex_AD_QueryDT")->gasnetc_dt;
}
/* The operations that it has, or-ed. */
GASNETC_INLINE gex_OP_t gex_AD_QueryOps(gex_AD_t ad) {
  return gasnetc_domain(ad, "gex_AD_QueryOps")->gasnetc_ops;
}
/* Keeps a word of the client's own with the domain; two threads that set it at a time are the
 * client's to order. */
GASNETC_INLINE void gex_AD_SetCData(gex_AD_t ad, const void* val) {
  gasnetc_domain(ad, "gex_AD_SetCData")->gasnetc_data = val;
}
/* The word that was set last; NULL before. */
GASNETC_INLINE void* gex_AD_QueryCData(gex_AD_t ad) {
  return (void*)gasnetc_domain(ad, "gex_AD_QueryCData")->gasnetc_data;
}

/* Returns 1, and the word in *here, if this processor carries the operation out, else 0. i is the
 * number of the type. */
GASNETC_INLINE int gasnetc_ad_find(gex_AD_t ad, gex_Rank_t tgt, void* tgt_addr, size_t size,
                                   unsigned int i, gex_OP_t op, gex_Flags_t flags, char** here) {
  if_pf(ad == GEX_AD_INVALID) return 0; /* the library complains */
  if_pf((op & ad->gasnetc_here[i]) == 0 || ((uintptr_t)tgt_addr & (size - 1)) != 0) return 0;
  return gasnetc_find(
      (flags & GEX_FLAG_RANK_IS_JOBRANK) ? tgt : gasnetc_jobrank(ad->gasnetc_tm, tgt, "gex_AD_Op"),
      tgt_addr, size, here);
}

/* ---- what one instruction does, on integers. 0: none of these. Orders: AD_ACQ and AD_REL ---- */
#define GASNETC_AD_STEP(OP, FETCHING, function)    \
  case OP:                                         \
    (void)function(at, op1, __ATOMIC_ACQ_REL);     \
    return 1;                                      \
  case FETCHING:                                   \
    *result = function(at, op1, __ATOMIC_ACQ_REL); \
    return 1;
#define GASNETC_AD_UNIT(OP, FETCHING, function)  \
  case OP:                                       \
    (void)function(at, 1, __ATOMIC_ACQ_REL);     \
    return 1;                                    \
  case FETCHING:                                 \
    *result = function(at, 1, __ATOMIC_ACQ_REL); \
    return 1;
#define GASNETC_AD_HERE(name, T)                                                                 \
  GASNETC_INLINE int gasnetc_ad_here_##name(T* at, T* result, gex_OP_t op, T op1, T op2) {       \
    switch (op) {                                                                                \
      GASNETC_AD_STEP(GEX_OP_ADD, GEX_OP_FADD, __atomic_fetch_add)                               \
      GASNETC_AD_STEP(GEX_OP_SUB, GEX_OP_FSUB, __atomic_fetch_sub)                               \
      GASNETC_AD_STEP(GEX_OP_AND, GEX_OP_FAND, __atomic_fetch_and)                               \
      GASNETC_AD_STEP(GEX_OP_OR, GEX_OP_FOR, __atomic_fetch_or)                                  \
      GASNETC_AD_STEP(GEX_OP_XOR, GEX_OP_FXOR, __atomic_fetch_xor)                               \
      GASNETC_AD_UNIT(GEX_OP_INC, GEX_OP_FINC, __atomic_fetch_add)                               \
      GASNETC_AD_UNIT(GEX_OP_DEC, GEX_OP_FDEC, __atomic_fetch_sub)                               \
      case GEX_OP_SET:                                                                           \
        __atomic_store_n(at, op1, __ATOMIC_RELEASE);                                             \
        return 1;                                                                                \
      case GEX_OP_SWAP:                                                                          \
        *result = __atomic_exchange_n(at, op1, __ATOMIC_ACQ_REL);                                \
        return 1;                                                                                \
      case GEX_OP_GET:                                                                           \
        *result = __atomic_load_n(at, __ATOMIC_ACQUIRE);                                         \
        return 1;                                                                                \
      case GEX_OP_CAS:                                                                           \
        (void)__atomic_compare_exchange_n(at, &op1, op2, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE); \
        return 1;                                                                                \
      case GEX_OP_FCAS:                                                                          \
        (void)__atomic_compare_exchange_n(at, &op1, op2, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE); \
        *result = op1;                                                                           \
        return 1;                                                                                \
      default:                                                                                   \
        return 0;                                                                                \
    }                                                                                            \
  }
GASNETC_AD_HERE(I32, int32_t)
GASNETC_AD_HERE(U32, uint32_t)
GASNETC_AD_HERE(I64, int64_t)
GASNETC_AD_HERE(U64, uint64_t)
/* Of floating-point numbers the library does all. */
#define gasnetc_ad_here_FLT(at, result, op, op1, op2) (0)
#define gasnetc_ad_here_DBL(at, result, op, op1, op2) (0)

#define GASNETC_AD_FORM(i, name, T, form, what, done, rest)                                       \
  GASNETC_INLINE what(gex_AD_t ad, T* result, gex_Rank_t tgt, void* tgt_addr, gex_OP_t op, T op1, \
                      T op2, gex_Flags_t flags) {                                                 \
    char* at;                                                                                     \
    uint64_t a = 0, b = 0;                                                                        \
    if (GASNETT_PREDICT_TRUE(gasnetc_ad_find(ad, tgt, tgt_addr, sizeof(T), i, op, flags, &at)) && \
        gasnetc_ad_here_##name((T*)at, result, op, op1, op2))                                     \
      return done;                                                                                \
    memcpy(&a, &op1, sizeof op1);                                                                 \
    memcpy(&b, &op2, sizeof op2);                                                                 \
    rest GASNETC_(ad_op)(form, ad, result, tgt, tgt_addr, GEX_DT_##name, op, a, b, flags);        \
  }
#define GASNETC_AD_FORMS(i, name, T)                                                         \
  GASNETC_AD_FORM(i, name, T, 1, gex_Event_t gex_AD_OpNB_##name, GEX_EVENT_INVALID, return ) \
  GASNETC_AD_FORM(i, name, T, 2, int gex_AD_OpNBI_##name, 0, return 0 !=)
GASNETC_AD_FORMS(0, I32, int32_t)
GASNETC_AD_FORMS(1, U32, uint32_t)
GASNETC_AD_FORMS(2, I64, int64_t)
GASNETC_AD_FORMS(3, U64, uint64_t)
GASNETC_AD_FORMS(4, FLT, float)
GASNETC_AD_FORMS(5, DBL, double)

GASNETT_END_EXTERNC

#endif
