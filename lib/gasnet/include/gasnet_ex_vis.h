/* Puts and gets of many pieces with the arguments of gasnetex.h: part of gasnet_vis.h. Strides may
 * be of any sign and order; the size of an element stands apart from the counts. */
#ifndef _IN_PENSTOCK_GASNET_EX_VIS_H
#define _IN_PENSTOCK_GASNET_EX_VIS_H
#ifndef _GASNET_VIS_H
#error include gasnet_vis.h
#endif

#include <gasnetex.h>

GASNETT_BEGIN_EXTERNC

/* form: 0 blocks, 1 returns an event, 2 counts with the implicit operations; with GASNETC_AT_ONCE
 * it may return GEX_EVENT_NO_OP, in each form: nothing was started. */
#define GASNETC_AT_ONCE 4
#define GASNETC_VIS_FORM(form, flags) \
  (GASNETT_PREDICT_FALSE(((flags)&GEX_FLAG_IMMEDIATE) != 0) ? (form) | GASNETC_AT_ONCE : (form))
extern gex_Event_t GASNETC_(ex_put_vector)(int form, gex_TM_t tm, gex_Rank_t rank, size_t dstcount,
                                           gex_Memvec_t const dst[], size_t srccount,
                                           gex_Memvec_t const src[]);
extern gex_Event_t GASNETC_(ex_get_vector)(int form, gex_TM_t tm, size_t dstcount,
                                           gex_Memvec_t const dst[], gex_Rank_t rank,
                                           size_t srccount, gex_Memvec_t const src[]);
extern gex_Event_t GASNETC_(ex_put_indexed)(int form, gex_TM_t tm, gex_Rank_t rank, size_t dstcount,
                                            void* const dst[], size_t dstlen, size_t srccount,
                                            void* const src[], size_t srclen);
extern gex_Event_t GASNETC_(ex_get_indexed)(int form, gex_TM_t tm, size_t dstcount,
                                            void* const dst[], size_t dstlen, gex_Rank_t rank,
                                            size_t srccount, void* const src[], size_t srclen);
extern gex_Event_t GASNETC_(ex_put_strided)(int form, gex_TM_t tm, gex_Rank_t rank, void* dstaddr,
                                            const ptrdiff_t dststrides[], void* srcaddr,
                                            const ptrdiff_t srcstrides[], size_t elemsz,
                                            const size_t count[], size_t levels);
extern gex_Event_t GASNETC_(ex_get_strided)(int form, gex_TM_t tm, void* dstaddr,
                                            const ptrdiff_t dststrides[], gex_Rank_t rank,
                                            void* srcaddr, const ptrdiff_t srcstrides[],
                                            size_t elemsz, const size_t count[], size_t levels);

/* ---- three forms of each, defined alike: blocking, with an event, implicit ---- */
#define GASNETC_VIS_FORMS(name, call, params, args)                            \
  GASNETC_INLINE int gex_VIS_##name##Blocking(params, gex_Flags_t flags) {     \
    return GASNETC_(call)(GASNETC_VIS_FORM(0, flags), args) == GEX_EVENT_NO_OP \
               ? GASNET_ERR_NOT_READY                                          \
               : 0;                                                            \
  }                                                                            \
  GASNETC_INLINE gex_Event_t gex_VIS_##name##NB(params, gex_Flags_t flags) {   \
    return GASNETC_(call)(GASNETC_VIS_FORM(1, flags), args);                   \
  }                                                                            \
  GASNETC_INLINE int gex_VIS_##name##NBI(params, gex_Flags_t flags) {          \
    return GASNETC_(call)(GASNETC_VIS_FORM(2, flags), args) == GEX_EVENT_NO_OP \
               ? GASNET_ERR_NOT_READY                                          \
               : 0;                                                            \
  }
GASNETC_VIS_FORMS(VectorPut, ex_put_vector,
                  gex_TM_t tm GASNETC_COMMA gex_Rank_t rank GASNETC_COMMA size_t dstcount
                      GASNETC_COMMA gex_Memvec_t const dst[] GASNETC_COMMA size_t srccount
                          GASNETC_COMMA gex_Memvec_t const src[],
                  tm GASNETC_COMMA rank GASNETC_COMMA dstcount GASNETC_COMMA dst GASNETC_COMMA
                      srccount GASNETC_COMMA src)
GASNETC_VIS_FORMS(VectorGet, ex_get_vector,
                  gex_TM_t tm GASNETC_COMMA size_t dstcount GASNETC_COMMA
                      gex_Memvec_t const dst[] GASNETC_COMMA gex_Rank_t rank GASNETC_COMMA size_t
                          srccount GASNETC_COMMA gex_Memvec_t const src[],
                  tm GASNETC_COMMA dstcount GASNETC_COMMA dst GASNETC_COMMA rank GASNETC_COMMA
                      srccount GASNETC_COMMA src)
GASNETC_VIS_FORMS(IndexedPut, ex_put_indexed,
                  gex_TM_t tm GASNETC_COMMA gex_Rank_t rank GASNETC_COMMA size_t dstcount
                      GASNETC_COMMA void* const dst[] GASNETC_COMMA size_t dstlen GASNETC_COMMA
                          size_t srccount GASNETC_COMMA void* const src[] GASNETC_COMMA size_t
                              srclen,
                  tm GASNETC_COMMA rank GASNETC_COMMA dstcount GASNETC_COMMA dst GASNETC_COMMA
                      dstlen GASNETC_COMMA srccount GASNETC_COMMA src GASNETC_COMMA srclen)
GASNETC_VIS_FORMS(IndexedGet, ex_get_indexed,
                  gex_TM_t tm GASNETC_COMMA size_t dstcount
                      GASNETC_COMMA void* const dst[] GASNETC_COMMA size_t dstlen GASNETC_COMMA
                          gex_Rank_t rank GASNETC_COMMA size_t srccount
                              GASNETC_COMMA void* const src[] GASNETC_COMMA size_t srclen,
                  tm GASNETC_COMMA dstcount GASNETC_COMMA dst GASNETC_COMMA dstlen GASNETC_COMMA
                      rank GASNETC_COMMA srccount GASNETC_COMMA src GASNETC_COMMA srclen)
GASNETC_VIS_FORMS(StridedPut, ex_put_strided,
                  gex_TM_t tm GASNETC_COMMA gex_Rank_t rank GASNETC_COMMA void* dstaddr
                      GASNETC_COMMA const ptrdiff_t dststrides[] GASNETC_COMMA void* srcaddr
                          GASNETC_COMMA const ptrdiff_t srcstrides[] GASNETC_COMMA size_t elemsz
                              GASNETC_COMMA const size_t count[] GASNETC_COMMA size_t levels,
                  tm GASNETC_COMMA rank GASNETC_COMMA dstaddr GASNETC_COMMA dststrides GASNETC_COMMA
                      srcaddr GASNETC_COMMA srcstrides GASNETC_COMMA elemsz GASNETC_COMMA count
                          GASNETC_COMMA levels)
GASNETC_VIS_FORMS(StridedGet, ex_get_strided,
                  gex_TM_t tm GASNETC_COMMA void* dstaddr GASNETC_COMMA const ptrdiff_t
                      dststrides[] GASNETC_COMMA gex_Rank_t rank GASNETC_COMMA void* srcaddr
                          GASNETC_COMMA const ptrdiff_t srcstrides[] GASNETC_COMMA size_t elemsz
                              GASNETC_COMMA const size_t count[] GASNETC_COMMA size_t levels,
                  tm GASNETC_COMMA dstaddr GASNETC_COMMA dststrides GASNETC_COMMA rank GASNETC_COMMA
                      srcaddr GASNETC_COMMA srcstrides GASNETC_COMMA elemsz GASNETC_COMMA count
                          GASNETC_COMMA levels)

/* ---- a message that follows a put (GASNet-EX calls this deprecated). The calling thread's next
 * gex_VIS put of any form to any rank, after it has arrived there, sends a Medium without arguments
 * and with these nbytes, which are copied now, to the rank of the put. Its handler of that index,
 * registered there for Mediums that are replies, runs. Such a put is complete when it returns.
 * Index 0: the next put is a plain one again. ---- */
#define GEX_VIS_MAX_PEERCOMPLETION 127 /* the most bytes that the message can have */
extern void GASNETC_(ex_set_peer_completion)(gex_AM_Index_t handler, const void* source,
                                             size_t nbytes);
/* Sets, for the calling thread, the message of its next put; never waits. */
GASNETC_INLINE void gex_VIS_SetPeerCompletionHandler(gex_AM_Index_t handler, const void* source,
                                                     size_t nbytes, gex_Flags_t flags) {
  (void)flags; /* none is defined */
  GASNETC_(ex_set_peer_completion)(handler, source, nbytes);
}

GASNETT_END_EXTERNC

#endif
