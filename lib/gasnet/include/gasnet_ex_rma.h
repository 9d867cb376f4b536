/* Puts and gets of gasnetex.h, and the events of all operations. Where the other process's memory
 * is mapped here a put or get is a plain copy, as in gasnet_extended.h; all else is a call. */
#ifndef _IN_PENSTOCK_GASNET_EX_RMA_H
#define _IN_PENSTOCK_GASNET_EX_RMA_H
#ifndef _GASNETEX_H
#error include gasnetex.h
#endif

GASNETT_BEGIN_EXTERNC

/* ---- what the library of this mode defines ---- */
extern gex_Event_t GASNETC_(ex_put_nb)(gex_Rank_t node, void* dest, const void* src, size_t nbytes,
                                       gex_Event_t* lc_opt);
extern int GASNETC_(ex_put_nbi)(gex_Rank_t node, void* dest, const void* src, size_t nbytes,
                                gex_Event_t* lc_opt);
/* Does not poll. */
extern int GASNETC_(event_test)(gex_Event_t event);
extern void GASNETC_(event_wait)(gex_Event_t event);
extern int GASNETC_(events_test)(gex_Event_t* events, size_t count, int some);
extern void GASNETC_(events_wait)(gex_Event_t* events, size_t count, int some);
extern gex_Event_t GASNETC_(event_leaf)(gex_Event_t root, gex_EC_t which);
extern int GASNETC_(nbi_test)(gex_EC_t mask);
extern void GASNETC_(nbi_wait)(gex_EC_t mask);
extern void GASNETC_(ex_begin_region)(void);
extern gex_Event_t GASNETC_(ex_end_region)(void);

/* Local completion of what is complete already. */
GASNETC_INLINE void gasnetc_locally_complete(gex_Event_t* lc_opt) {
  if ((uintptr_t)lc_opt > (uintptr_t)GEX_EVENT_GROUP) *lc_opt = GEX_EVENT_INVALID;
}
/* The same for a put with an event, which takes NOW, DEFER, and places of events. */
GASNETC_INLINE void gasnetc_put_locally_complete(gex_Event_t* lc_opt, gex_Rank_t rank) {
  if ((uintptr_t)lc_opt > (uintptr_t)GEX_EVENT_GROUP)
    *lc_opt = GEX_EVENT_INVALID;
  else
    if_pf(lc_opt != GEX_EVENT_NOW && lc_opt != GEX_EVENT_DEFER)
        GASNETC_(mistake)(gasnetc_bad_lc_opt, "gex_RMA_PutNB", rank, (uintptr_t)lc_opt);
}

/* ---- GEX_FLAG_IMMEDIATE: where a copy does not do, the library is asked first whether there is
 * room. If there is none nothing is started, and the call says so: GASNET_ERR_NOT_READY, or
 * GEX_EVENT_NO_OP. ---- */
extern int GASNETC_(may_start)(gex_Rank_t node, const void* at, size_t nbytes, int put);
#define GASNETC_NOT_AT_ONCE(flags, node, at, nbytes, put)      \
  (GASNETT_PREDICT_FALSE(((flags)&GEX_FLAG_IMMEDIATE) != 0) && \
   !GASNETC_(may_start)(node, at, nbytes, put))

/* ---- blocking. They return 0 but for that ---- */
GASNETC_INLINE int gex_RMA_PutBlocking(gex_TM_t tm, gex_Rank_t rank, void* dest, const void* src,
                                       size_t nbytes, gex_Flags_t flags) {
  const gex_Rank_t node = gasnetc_jobrank(tm, rank, "gex_RMA_PutBlocking");
  if_pt(gasnetc_put_here(node, dest, src, nbytes)) return 0;
  if (GASNETC_NOT_AT_ONCE(flags, node, dest, nbytes, 1)) return GASNET_ERR_NOT_READY;
  gasnetc_put_far(node, dest, src, nbytes);
  return 0;
}
/* Copies nbytes from src in the rank's segment to dest. */
GASNETC_INLINE int gex_RMA_GetBlocking(gex_TM_t tm, void* dest, gex_Rank_t rank, void* src,
                                       size_t nbytes, gex_Flags_t flags) {
  const gex_Rank_t node = gasnetc_jobrank(tm, rank, "gex_RMA_GetBlocking");
  if_pt(gasnetc_get_here(dest, node, src, nbytes)) return 0;
  if (GASNETC_NOT_AT_ONCE(flags, node, src, nbytes, 0)) return GASNET_ERR_NOT_READY;
  gasnetc_get_far(dest, node, src, nbytes);
  return 0;
}
/* It has no way to say that nothing was started. */
GASNETC_INLINE gex_RMA_Value_t gex_RMA_GetBlockingVal(gex_TM_t tm, gex_Rank_t rank, void* src,
                                                      size_t nbytes, gex_Flags_t flags) {
  (void)flags;
  gasnetc_check_value("gex_RMA_GetBlockingVal", rank, nbytes);
  return gasnet_get_val(gasnetc_jobrank(tm, rank, "gex_RMA_GetBlockingVal"), src, nbytes);
}
/* Puts the low nbytes of value, 1 to 8. */
GASNETC_INLINE int gex_RMA_PutBlockingVal(gex_TM_t tm, gex_Rank_t rank, void* dest,
                                          gex_RMA_Value_t value, size_t nbytes, gex_Flags_t flags) {
  gasnetc_check_value("gex_RMA_PutBlockingVal", rank, nbytes);
  return gex_RMA_PutBlocking(tm, rank, dest, GASNETC_LOW_BYTES(value, nbytes), nbytes, flags);
}

/* ---- explicit events ---- */
GASNETC_INLINE gex_Event_t gex_RMA_PutNB(gex_TM_t tm, gex_Rank_t rank, void* dest, const void* src,
                                         size_t nbytes, gex_Event_t* lc_opt, gex_Flags_t flags) {
  const gex_Rank_t node = gasnetc_jobrank(tm, rank, "gex_RMA_PutNB");
  if_pt(!gasnetc_may_go_beside(nbytes) && gasnetc_put_here(node, dest, src, nbytes)) {
    gasnetc_put_locally_complete(lc_opt, rank);
    return GEX_EVENT_INVALID;
  }
  if (GASNETC_NOT_AT_ONCE(flags, node, dest, nbytes, 1)) return GEX_EVENT_NO_OP;
  if (GASNETC_IS_VALUE(nbytes)) {
    gasnetc_put_locally_complete(lc_opt, rank);
    return GASNETC_(put_small)(gasnetc_explicit, node, dest, gasnetc_value(src, nbytes), nbytes);
  }
  return GASNETC_(ex_put_nb)(node, dest, src, nbytes, lc_opt);
}
/* Begins a get; dest holds the bytes when the event is done. */
GASNETC_INLINE gex_Event_t gex_RMA_GetNB(gex_TM_t tm, void* dest, gex_Rank_t rank, void* src,
                                         size_t nbytes, gex_Flags_t flags) {
  const gex_Rank_t node = gasnetc_jobrank(tm, rank, "gex_RMA_GetNB");
  if_pt(!gasnetc_may_go_beside(nbytes) &&
        gasnetc_get_here(dest, node, src, nbytes)) return GEX_EVENT_INVALID;
  if (GASNETC_NOT_AT_ONCE(flags, node, src, nbytes, 0)) return GEX_EVENT_NO_OP;
  return GASNETC_(get_nb)(dest, node, src, nbytes);
}
/* Begins a put of the low nbytes of value, 1 to 8. */
GASNETC_INLINE gex_Event_t gex_RMA_PutNBVal(gex_TM_t tm, gex_Rank_t rank, void* dest,
                                            gex_RMA_Value_t value, size_t nbytes,
                                            gex_Flags_t flags) {
  gasnetc_check_value("gex_RMA_PutNBVal", rank, nbytes);
  return gex_RMA_PutNB(tm, rank, dest, GASNETC_LOW_BYTES(value, nbytes), nbytes, GEX_EVENT_NOW,
                       flags);
}

/* ---- implicit operations ---- */
GASNETC_INLINE int gex_RMA_PutNBI(gex_TM_t tm, gex_Rank_t rank, void* dest, const void* src,
                                  size_t nbytes, gex_Event_t* lc_opt, gex_Flags_t flags) {
  const gex_Rank_t node = gasnetc_jobrank(tm, rank, "gex_RMA_PutNBI");
  /* NOW, DEFER or GROUP */
  if_pf((uintptr_t)lc_opt - 1 >= (uintptr_t)GEX_EVENT_GROUP)
      GASNETC_(mistake)(gasnetc_bad_lc_opt, "gex_RMA_PutNBI", rank, (uintptr_t)lc_opt);
  if_pt(!gasnetc_may_go_beside(nbytes) && gasnetc_put_here(node, dest, src, nbytes)) return 0;
  if (GASNETC_NOT_AT_ONCE(flags, node, dest, nbytes, 1)) return GASNET_ERR_NOT_READY;
  if (GASNETC_IS_VALUE(nbytes)) {
    (void)GASNETC_(put_small)(gasnetc_implicit, node, dest, gasnetc_value(src, nbytes), nbytes);
    return 0;
  }
  return GASNETC_(ex_put_nbi)(node, dest, src, nbytes, lc_opt);
}
/* Begins a get without an event of its own. */
GASNETC_INLINE int gex_RMA_GetNBI(gex_TM_t tm, void* dest, gex_Rank_t rank, void* src,
                                  size_t nbytes, gex_Flags_t flags) {
  const gex_Rank_t node = gasnetc_jobrank(tm, rank, "gex_RMA_GetNBI");
  if_pt(!gasnetc_may_go_beside(nbytes) && gasnetc_get_here(dest, node, src, nbytes)) return 0;
  if (GASNETC_NOT_AT_ONCE(flags, node, src, nbytes, 0)) return GASNET_ERR_NOT_READY;
  GASNETC_(get_nbi)(dest, node, src, nbytes);
  return 0;
}
/* Begins such a put of the low nbytes of value, 1 to 8. */
GASNETC_INLINE int gex_RMA_PutNBIVal(gex_TM_t tm, gex_Rank_t rank, void* dest,
                                     gex_RMA_Value_t value, size_t nbytes, gex_Flags_t flags) {
  gasnetc_check_value("gex_RMA_PutNBIVal", rank, nbytes);
  return gex_RMA_PutNBI(tm, rank, dest, GASNETC_LOW_BYTES(value, nbytes), nbytes, GEX_EVENT_NOW,
                        flags);
}

/* ---- events: any thread may test them and wait for them, once each ---- */
GASNETC_INLINE int gex_Event_Test(gex_Event_t event) {
  return event == GEX_EVENT_INVALID ? GASNET_OK : GASNETC_(event_test)(event);
}
/* Waits, polling, until the event is done, which uses it up. */
GASNETC_INLINE void gex_Event_Wait(gex_Event_t event) {
  if_pf(event != GEX_EVENT_INVALID) GASNETC_(event_wait)(event);
}
/* Polls once: GASNET_OK if one or more of count events are done, or none is valid; entries of those
 * that are done become GEX_EVENT_INVALID. Else GASNET_ERR_NOT_READY. */
GASNETC_INLINE int gex_Event_TestSome(gex_Event_t* events, size_t count, gex_Flags_t flags) {
  (void)flags;
  return GASNETC_(events_test)(events, count, 1);
}
/* The same: GASNET_OK if all are done. */
GASNETC_INLINE int gex_Event_TestAll(gex_Event_t* events, size_t count, gex_Flags_t flags) {
  (void)flags;
  return GASNETC_(events_test)(events, count, 0);
}
/* Waits, polling, until gex_Event_TestSome() would say GASNET_OK. */
GASNETC_INLINE void gex_Event_WaitSome(gex_Event_t* events, size_t count, gex_Flags_t flags) {
  (void)flags;
  GASNETC_(events_wait)(events, count, 1);
}
/* Waits, polling, until all are done. */
GASNETC_INLINE void gex_Event_WaitAll(gex_Event_t* events, size_t count, gex_Flags_t flags) {
  (void)flags;
  GASNETC_(events_wait)(events, count, 0);
}
/* The part of an event that is of one kind: it lives as long as the event. */
GASNETC_INLINE gex_Event_t gex_Event_QueryLeaf(gex_Event_t root, gex_EC_t which) {
  return root == GEX_EVENT_INVALID ? GEX_EVENT_INVALID : GASNETC_(event_leaf)(root, which);
}
/* Polls once: GASNET_OK if the calling thread's operations without events of the kinds in mask are
 * done, else GASNET_ERR_NOT_READY. */
GASNETC_INLINE int gex_NBI_Test(gex_EC_t mask, gex_Flags_t flags) {
  (void)flags;
  return GASNETC_NOTHING_IMPLICIT() ? GASNET_OK : GASNETC_(nbi_test)(mask);
}
/* Waits, polling, until they are. */
GASNETC_INLINE void gex_NBI_Wait(gex_EC_t mask, gex_Flags_t flags) {
  (void)flags;
  if_pf(!GASNETC_NOTHING_IMPLICIT()) GASNETC_(nbi_wait)(mask);
}
/* The operations without events that this thread begins from here on belong to the region. */
GASNETC_INLINE void gex_NBI_BeginAccessRegion(gex_Flags_t flags) {
  (void)flags;
  GASNETC_(ex_begin_region)();
}
/* Ends the region; one event stands for all of its operations. */
GASNETC_INLINE gex_Event_t gex_NBI_EndAccessRegion(gex_Flags_t flags) {
  (void)flags;
  return GASNETC_(ex_end_region)();
}

GASNETT_END_EXTERNC

#endif
