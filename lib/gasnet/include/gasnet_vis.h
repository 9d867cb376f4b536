/* Put and get of many pieces at once: lists of pieces of any lengths (v), lists of pieces of one
 * length (i), and regular arrays of pieces (s). Each exists in a blocking form (_bulk), with a
 * handle
 * (_nb_bulk) and with an implicit handle (_nbi_bulk). This header includes gasnet.h.
 *
 * Both sides describe the same number of bytes in an order: the first byte goes to the first, and
 * so on. The pieces of the two sides may end at different bytes. Pieces of the remote side lie in
 * that node's segment. Destinations overlap neither each other nor the source. Lists may be empty.
 * The lists and the bytes must stay unchanged until the operation is synchronized. */
#ifndef _GASNET_VIS_H
#define _GASNET_VIS_H

#include <gasnet.h>

GASNETT_BEGIN_EXTERNC

/* how is 0 to wait until the operation is complete, 1 for a handle, 2 for an implicit handle. */
extern gasnet_handle_t GASNETC_(putv)(int how, gasnet_node_t dstnode, size_t dstcount,
                                      gasnet_memvec_t const dstlist[], size_t srccount,
                                      gasnet_memvec_t const srclist[]);
extern gasnet_handle_t GASNETC_(getv)(int how, size_t dstcount, gasnet_memvec_t const dstlist[],
                                      gasnet_node_t srcnode, size_t srccount,
                                      gasnet_memvec_t const srclist[]);
extern gasnet_handle_t GASNETC_(puti)(int how, gasnet_node_t dstnode, size_t dstcount,
                                      void* const dstlist[], size_t dstlen, size_t srccount,
                                      void* const srclist[], size_t srclen);
extern gasnet_handle_t GASNETC_(geti)(int how, size_t dstcount, void* const dstlist[],
                                      size_t dstlen, gasnet_node_t srcnode, size_t srccount,
                                      void* const srclist[], size_t srclen);
extern gasnet_handle_t GASNETC_(puts)(int how, gasnet_node_t dstnode, void* dstaddr,
                                      const size_t dststrides[], void* srcaddr,
                                      const size_t srcstrides[], const size_t count[],
                                      size_t stridelevels);
extern gasnet_handle_t GASNETC_(gets)(int how, void* dstaddr, const size_t dststrides[],
                                      gasnet_node_t srcnode, void* srcaddr,
                                      const size_t srcstrides[], const size_t count[],
                                      size_t stridelevels);

GASNETT_END_EXTERNC

/* ---- vectors: pieces of any lengths, 0 too ---- */
#define gasnet_putv_bulk(dstnode, dstcount, dstlist, srccount, srclist) \
  ((void)GASNETC_(putv)(0, (dstnode), (dstcount), (dstlist), (srccount), (srclist)))
#define gasnet_getv_bulk(dstcount, dstlist, srcnode, srccount, srclist) \
  ((void)GASNETC_(getv)(0, (dstcount), (dstlist), (srcnode), (srccount), (srclist)))
#define gasnet_putv_nb_bulk(dstnode, dstcount, dstlist, srccount, srclist) \
  GASNETC_(putv)(1, (dstnode), (dstcount), (dstlist), (srccount), (srclist))
#define gasnet_getv_nb_bulk(dstcount, dstlist, srcnode, srccount, srclist) \
  GASNETC_(getv)(1, (dstcount), (dstlist), (srcnode), (srccount), (srclist))
#define gasnet_putv_nbi_bulk(dstnode, dstcount, dstlist, srccount, srclist) \
  ((void)GASNETC_(putv)(2, (dstnode), (dstcount), (dstlist), (srccount), (srclist)))
#define gasnet_getv_nbi_bulk(dstcount, dstlist, srcnode, srccount, srclist) \
  ((void)GASNETC_(getv)(2, (dstcount), (dstlist), (srcnode), (srccount), (srclist)))

/* ---- indexed: on each side pieces of one length, which is not 0 ---- */
#define gasnet_puti_bulk(dstnode, dstcount, dstlist, dstlen, srccount, srclist, srclen)       \
  ((void)GASNETC_(puti)(0, (dstnode), (dstcount), (dstlist), (dstlen), (srccount), (srclist), \
                        (srclen)))
#define gasnet_geti_bulk(dstcount, dstlist, dstlen, srcnode, srccount, srclist, srclen)       \
  ((void)GASNETC_(geti)(0, (dstcount), (dstlist), (dstlen), (srcnode), (srccount), (srclist), \
                        (srclen)))
#define gasnet_puti_nb_bulk(dstnode, dstcount, dstlist, dstlen, srccount, srclist, srclen) \
  GASNETC_(puti)(1, (dstnode), (dstcount), (dstlist), (dstlen), (srccount), (srclist), (srclen))
#define gasnet_geti_nb_bulk(dstcount, dstlist, dstlen, srcnode, srccount, srclist, srclen) \
  GASNETC_(geti)(1, (dstcount), (dstlist), (dstlen), (srcnode), (srccount), (srclist), (srclen))
#define gasnet_puti_nbi_bulk(dstnode, dstcount, dstlist, dstlen, srccount, srclist, srclen)   \
  ((void)GASNETC_(puti)(2, (dstnode), (dstcount), (dstlist), (dstlen), (srccount), (srclist), \
                        (srclen)))
#define gasnet_geti_nbi_bulk(dstcount, dstlist, dstlen, srcnode, srccount, srclist, srclen)   \
  ((void)GASNETC_(geti)(2, (dstcount), (dstlist), (dstlen), (srcnode), (srccount), (srclist), \
                        (srclen)))

/* ---- strided: count[0] bytes, count[1] times every strides[0] bytes, all that count[2] times
 * every strides[1] bytes, and so on to count[stridelevels]. Strides grow; nothing overlaps. ---- */
#define gasnet_puts_bulk(dstnode, dstaddr, dststrides, srcaddr, srcstrides, count, stridelevels) \
  ((void)GASNETC_(puts)(0, (dstnode), (dstaddr), (dststrides), (srcaddr), (srcstrides), (count), \
                        (stridelevels)))
#define gasnet_gets_bulk(dstaddr, dststrides, srcnode, srcaddr, srcstrides, count, stridelevels) \
  ((void)GASNETC_(gets)(0, (dstaddr), (dststrides), (srcnode), (srcaddr), (srcstrides), (count), \
                        (stridelevels)))
#define gasnet_puts_nb_bulk(dstnode, dstaddr, dststrides, srcaddr, srcstrides, count, \
                            stridelevels)                                             \
  GASNETC_(puts)                                                                      \
  (1, (dstnode), (dstaddr), (dststrides), (srcaddr), (srcstrides), (count), (stridelevels))
#define gasnet_gets_nb_bulk(dstaddr, dststrides, srcnode, srcaddr, srcstrides, count, \
                            stridelevels)                                             \
  GASNETC_(gets)                                                                      \
  (1, (dstaddr), (dststrides), (srcnode), (srcaddr), (srcstrides), (count), (stridelevels))
#define gasnet_puts_nbi_bulk(dstnode, dstaddr, dststrides, srcaddr, srcstrides, count,           \
                             stridelevels)                                                       \
  ((void)GASNETC_(puts)(2, (dstnode), (dstaddr), (dststrides), (srcaddr), (srcstrides), (count), \
                        (stridelevels)))
#define gasnet_gets_nbi_bulk(dstaddr, dststrides, srcnode, srcaddr, srcstrides, count,           \
                             stridelevels)                                                       \
  ((void)GASNETC_(gets)(2, (dstaddr), (dststrides), (srcnode), (srcaddr), (srcstrides), (count), \
                        (stridelevels)))

#include <gasnet_ex_vis.h>

#endif
