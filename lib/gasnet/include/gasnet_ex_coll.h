/* Collectives with the names and arguments of gasnetex.h, which itself has the barrier: part of
 * gasnet_coll.h. Their events say that this process's own buffers are done. */
#ifndef _IN_PENSTOCK_GASNET_EX_COLL_H
#define _IN_PENSTOCK_GASNET_EX_COLL_H

#include <gasnetex.h>

/* out[i] = left[i] op right[i], for as many elements as it is told. */
typedef void (*gex_Coll_ReduceFn_t)(const void* left, void* right_and_out, size_t count,
                                    const void* cdata);

GASNETT_BEGIN_EXTERNC

extern gex_Event_t GASNETC_(ex_broadcast)(gex_TM_t tm, gex_Rank_t root, void* dst, const void* src,
                                          size_t nbytes);
/* root: GEX_RANK_INVALID for all. */
extern gex_Event_t GASNETC_(ex_reduce)(gex_TM_t tm, gex_Rank_t root, void* dst, const void* src,
                                       gex_DT_t dt, size_t dt_sz, size_t dt_cnt, gex_OP_t op,
                                       gex_Coll_ReduceFn_t fn, void* cdata, int to_one);

GASNETC_INLINE gex_Event_t gex_Coll_BroadcastNB(gex_TM_t tm, gex_Rank_t root, void* dst,
                                                const void* src, size_t nbytes, gex_Flags_t flags) {
  (void)flags;
  return GASNETC_(ex_broadcast)(tm, root, dst, src, nbytes);
}
GASNETC_INLINE gex_Event_t gex_Coll_ReduceToOneNB(gex_TM_t tm, gex_Rank_t root, void* dst,
                                                  const void* src, gex_DT_t dt, size_t dt_sz,
                                                  size_t dt_cnt, gex_OP_t op,
                                                  gex_Coll_ReduceFn_t fn, void* cdata,
                                                  gex_Flags_t flags) {
  (void)flags;
  return GASNETC_(ex_reduce)(tm, root, dst, src, dt, dt_sz, dt_cnt, op, fn, cdata, 1);
}
GASNETC_INLINE gex_Event_t gex_Coll_ReduceToAllNB(gex_TM_t tm, void* dst, const void* src,
                                                  gex_DT_t dt, size_t dt_sz, size_t dt_cnt,
                                                  gex_OP_t op, gex_Coll_ReduceFn_t fn, void* cdata,
                                                  gex_Flags_t flags) {
  (void)flags;
  return GASNETC_(ex_reduce)(tm, 0, dst, src, dt, dt_sz, dt_cnt, op, fn, cdata, 0);
}

GASNETT_END_EXTERNC

#endif
