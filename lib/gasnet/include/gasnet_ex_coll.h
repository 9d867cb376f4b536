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

/* Copies nbytes from src at root to dst at each member. Collective over tm; all members begin their
 * collectives in the same order. The event is complete when this process's part is: src and dst are
 * its own again. */
GASNETC_INLINE gex_Event_t gex_Coll_BroadcastNB(gex_TM_t tm, gex_Rank_t root, void* dst,
                                                const void* src, size_t nbytes, gex_Flags_t flags) {
  (void)flags;
  return GASNETC_(ex_broadcast)(tm, root, dst, src, nbytes);
}
/* Combines dt_cnt elements of dt_sz bytes of each member's src by op into dst at root. Called,
 * ordered and completed as a broadcast; fn combines where op is the user's. */
GASNETC_INLINE gex_Event_t gex_Coll_ReduceToOneNB(gex_TM_t tm, gex_Rank_t root, void* dst,
                                                  const void* src, gex_DT_t dt, size_t dt_sz,
                                                  size_t dt_cnt, gex_OP_t op,
                                                  gex_Coll_ReduceFn_t fn, void* cdata,
                                                  gex_Flags_t flags) {
  (void)flags;
  return GASNETC_(ex_reduce)(tm, root, dst, src, dt, dt_sz, dt_cnt, op, fn, cdata, 1);
}
/* The same into dst at every member. */
GASNETC_INLINE gex_Event_t gex_Coll_ReduceToAllNB(gex_TM_t tm, void* dst, const void* src,
                                                  gex_DT_t dt, size_t dt_sz, size_t dt_cnt,
                                                  gex_OP_t op, gex_Coll_ReduceFn_t fn, void* cdata,
                                                  gex_Flags_t flags) {
  (void)flags;
  return GASNETC_(ex_reduce)(tm, 0, dst, src, dt, dt_sz, dt_cnt, op, fn, cdata, 0);
}

GASNETT_END_EXTERNC

#endif
