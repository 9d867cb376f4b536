/* Collective operations and teams. This header and gasnet.h include each other.
 *
 * An image is a thread that takes part. A process has one, or, in PAR, as many as gasnet_coll_init
 * was told. All images of a team make their calls over it in the same order. Each operation exists
 * in a blocking form and in one with a handle (_nb), and both also with lists of addresses (M): one
 * address for each image of this process (LOCAL), or for every image of the team (SINGLE). */
#ifndef _INCLUDED_GASNET_H
#include <gasnet.h> /* and through it this header */
#endif
#ifndef _GASNET_COLL_H
#define _GASNET_COLL_H

/* ---- flags: one of IN_*, one of OUT_*, one of SINGLE and LOCAL ---- */
#define GASNET_COLL_IN_NOSYNC (1 << 0)
#define GASNET_COLL_IN_MYSYNC (1 << 1)
#define GASNET_COLL_IN_ALLSYNC (1 << 2)
#define GASNET_COLL_OUT_NOSYNC (1 << 3)
#define GASNET_COLL_OUT_MYSYNC (1 << 4)
#define GASNET_COLL_OUT_ALLSYNC (1 << 5)
#define GASNET_COLL_SYNC_FLAG_MASK 0x3f
#define GASNET_COLL_SINGLE (1 << 6)
#define GASNET_COLL_LOCAL (1 << 7)
/* These flags are accepted, and change nothing. */
#define GASNET_COLL_SRC_IN_SEGMENT (1 << 8)
#define GASNET_COLL_DST_IN_SEGMENT (1 << 9)
#define GASNET_COLL_FIXED_THREADS_PER_NODE (1 << 11)
#define GASNET_COLL_DISABLE_AUTOTUNE (1 << 12)
#define GASNET_COLL_NO_IMAGES (1 << 13)
#define GASNET_COLL_REDUCE_OP_SUM (1 << 14)
#define GASNET_COLL_REDUCE_OP_MAX (1 << 15)
#define GASNET_COLL_REDUCE_OP_MIN (1 << 16)
#define GASNET_COLL_REDUCE_OP_CUSTOM (1 << 17)
#define GASNET_COLL_INCLUSIVE_SCAN (1 << 18)
#define GASNET_COLL_EXCLUSIVE_SCAN (1 << 19)
/* This flag is refused: no handle stands for several operations. */
#define GASNET_COLL_AGGREGATE (1 << 10)

/* ---- flags of functions: where they may run, and whether their order matters ---- */
#define GASNET_COLL_AMSAFE (1 << 0)
#define GASNET_COLL_NONCOMM (1 << 1)

/* ---- types ---- */
typedef uint32_t gasnet_image_t;
typedef struct gasnetc_coll_op* gasnet_coll_handle_t;
#define GASNET_COLL_INVALID_HANDLE ((gasnet_coll_handle_t)0)
typedef struct gasnetc_team* gasnet_team_handle_t;
#define GASNET_TEAM_ALL ((gasnet_team_handle_t)0)
typedef int gasnet_coll_fn_handle_t; /* index into the table given to gasnet_coll_init */
/* results[k] = left[k] op right[k], for result_count == left_count elements; results may be left.
 */
typedef void (*gasnet_coll_reduce_fn_t)(void* results, size_t result_count,
                                        const void* left_operands, size_t left_count,
                                        const void* right_operands, size_t elem_size, int flags,
                                        int arg);
typedef struct {
  gasnet_coll_reduce_fn_t fnptr;
  unsigned int flags;
} gasnet_coll_fn_entry_t;
typedef enum {
  GASNET_COLL_BROADCAST_OP = 0,
  GASNET_COLL_BROADCASTM_OP,
  GASNET_COLL_SCATTER_OP,
  GASNET_COLL_SCATTERM_OP,
  GASNET_COLL_GATHER_OP,
  GASNET_COLL_GATHERM_OP,
  GASNET_COLL_GATHER_ALL_OP,
  GASNET_COLL_GATHER_ALLM_OP,
  GASNET_COLL_EXCHANGE_OP,
  GASNET_COLL_EXCHANGEM_OP,
  GASNET_COLL_REDUCE_OP,
  GASNET_COLL_REDUCEM_OP,
  GASNET_COLL_NUM_COLL_OPTYPES
} gasnet_coll_optype_t;

GASNETT_BEGIN_EXTERNC

/* ---- what the library of this mode defines ---- */
extern void GASNETC_(coll_init)(const gasnet_image_t images[], gasnet_image_t my_image,
                                const gasnet_coll_fn_entry_t fn_tbl[], size_t fn_count);
/* dst and src are addresses, or lists where the operation's M form takes lists. */
extern void GASNETC_(coll_move)(gasnet_coll_optype_t op, gasnet_team_handle_t team, const void* dst,
                                gasnet_image_t root, const void* src, size_t nbytes, int flags);
extern gasnet_coll_handle_t GASNETC_(coll_move_nb)(gasnet_coll_optype_t op,
                                                   gasnet_team_handle_t team, const void* dst,
                                                   gasnet_image_t root, const void* src,
                                                   size_t nbytes, int flags);
struct gasnetc_reduction {
  size_t src_blksz, src_offset, elem_size, elem_count;
  gasnet_coll_fn_handle_t func;
  int func_arg;
};
extern void GASNETC_(coll_reduce)(gasnet_coll_optype_t op, gasnet_team_handle_t team,
                                  gasnet_image_t root, void* dst, const void* src,
                                  const struct gasnetc_reduction* how, int flags);
extern gasnet_coll_handle_t GASNETC_(coll_reduce_nb)(gasnet_coll_optype_t op,
                                                     gasnet_team_handle_t team, gasnet_image_t root,
                                                     void* dst, const void* src,
                                                     const struct gasnetc_reduction* how,
                                                     int flags);
extern void GASNETC_(coll_no_scan)(void) GASNETT_NORETURN;
extern int GASNETC_(coll_try)(gasnet_coll_handle_t* handles, size_t count, int some);
extern void GASNETC_(coll_wait)(gasnet_coll_handle_t* handles, size_t count, int some);
extern gasnet_team_handle_t GASNETC_(team_split)(gasnet_team_handle_t parent, gasnet_node_t color,
                                                 gasnet_node_t relrank);
extern gasnet_node_t GASNETC_(team_size)(gasnet_team_handle_t team);
extern gasnet_node_t GASNETC_(team_rank2node)(gasnet_team_handle_t team, int rank);
extern gasnet_node_t GASNETC_(team_node2rank)(gasnet_team_handle_t team, gasnet_node_t node);
extern void GASNETC_(team_notify)(gasnet_team_handle_t team, int id, int flags);
extern int GASNETC_(team_wait)(gasnet_team_handle_t team, int id, int flags);
extern int GASNETC_(team_try)(gasnet_team_handle_t team, int id, int flags);
extern int GASNETC_(team_result)(gasnet_team_handle_t team, int* id);

/* ---- start: only for those with several images or with functions. It is collective over all
 * images, each of which calls it once after gasnet_attach, and blocks. images is NULL, or has the
 * number of images of each process ---- */
#define gasnet_coll_init(images, my_image, fn_tbl, fn_count, init_flags) \
  ((void)(init_flags), GASNETC_(coll_init)((images), (my_image), (fn_tbl), (size_t)(fn_count)))

/* ---- synchronization ---- */
GASNETC_INLINE int gasnet_coll_try_sync(gasnet_coll_handle_t handle) {
  return GASNETC_(coll_try)(&handle, 1, 0);
}
/* Waits, polling, until the operation of handle has ended here; the handle is used up. */
GASNETC_INLINE void gasnet_coll_wait_sync(gasnet_coll_handle_t handle) {
  GASNETC_(coll_wait)(&handle, 1, 0);
}
/* Polls once: GASNET_OK if all count operations have ended, whose handles are used up, else
 * GASNET_ERR_NOT_READY. Entries may be GASNET_COLL_INVALID_HANDLE. */
GASNETC_INLINE int gasnet_coll_try_sync_all(gasnet_coll_handle_t* handles, size_t count) {
  return GASNETC_(coll_try)(handles, count, 0);
}
/* Waits, polling, until all of them have ended. */
GASNETC_INLINE void gasnet_coll_wait_sync_all(gasnet_coll_handle_t* handles, size_t count) {
  GASNETC_(coll_wait)(handles, count, 0);
}
/* Polls once: GASNET_OK if one or more have ended, or all entries are invalid; entries of those
 * that ended become GASNET_COLL_INVALID_HANDLE. */
GASNETC_INLINE int gasnet_coll_try_sync_some(gasnet_coll_handle_t* handles, size_t count) {
  return GASNETC_(coll_try)(handles, count, 1);
}
/* Waits, polling, until gasnet_coll_try_sync_some() would say GASNET_OK. */
GASNETC_INLINE void gasnet_coll_wait_sync_some(gasnet_coll_handle_t* handles, size_t count) {
  GASNETC_(coll_wait)(handles, count, 1);
}

/* ---- moving blocks of nbytes ---- */
/* Copies root's src to every dst. */
GASNETC_INLINE void gasnet_coll_broadcast(gasnet_team_handle_t team, void* dst,
                                          gasnet_image_t srcimage, void* src, size_t nbytes,
                                          int flags) {
  GASNETC_(coll_move)(GASNET_COLL_BROADCAST_OP, team, dst, srcimage, src, nbytes, flags);
}
/* The same, begun only: a wait or a try on the handle says when it has ended. */
GASNETC_INLINE gasnet_coll_handle_t gasnet_coll_broadcast_nb(gasnet_team_handle_t team, void* dst,
                                                             gasnet_image_t srcimage, void* src,
                                                             size_t nbytes, int flags) {
  return GASNETC_(coll_move_nb)(GASNET_COLL_BROADCAST_OP, team, dst, srcimage, src, nbytes, flags);
}
/* The same to a dst for each image: dstlist has those of all images, with GASNET_COLL_LOCAL those
 * of this process. */
GASNETC_INLINE void gasnet_coll_broadcastM(gasnet_team_handle_t team, void* const dstlist[],
                                           gasnet_image_t srcimage, void* src, size_t nbytes,
                                           int flags) {
  GASNETC_(coll_move)(GASNET_COLL_BROADCASTM_OP, team, dstlist, srcimage, src, nbytes, flags);
}
/* That, begun only. */
GASNETC_INLINE gasnet_coll_handle_t gasnet_coll_broadcastM_nb(gasnet_team_handle_t team,
                                                              void* const dstlist[],
                                                              gasnet_image_t srcimage, void* src,
                                                              size_t nbytes, int flags) {
  return GASNETC_(coll_move_nb)(GASNET_COLL_BROADCASTM_OP, team, dstlist, srcimage, src, nbytes,
                                flags);
}
/* Copies block i of root's src to the dst of image i. */
GASNETC_INLINE void gasnet_coll_scatter(gasnet_team_handle_t team, void* dst,
                                        gasnet_image_t srcimage, void* src, size_t nbytes,
                                        int flags) {
  GASNETC_(coll_move)(GASNET_COLL_SCATTER_OP, team, dst, srcimage, src, nbytes, flags);
}
/* The same, begun only. */
GASNETC_INLINE gasnet_coll_handle_t gasnet_coll_scatter_nb(gasnet_team_handle_t team, void* dst,
                                                           gasnet_image_t srcimage, void* src,
                                                           size_t nbytes, int flags) {
  return GASNETC_(coll_move_nb)(GASNET_COLL_SCATTER_OP, team, dst, srcimage, src, nbytes, flags);
}
/* The same to a dst for each image, as in gasnet_coll_broadcastM(). */
GASNETC_INLINE void gasnet_coll_scatterM(gasnet_team_handle_t team, void* const dstlist[],
                                         gasnet_image_t srcimage, void* src, size_t nbytes,
                                         int flags) {
  GASNETC_(coll_move)(GASNET_COLL_SCATTERM_OP, team, dstlist, srcimage, src, nbytes, flags);
}
/* That, begun only. */
GASNETC_INLINE gasnet_coll_handle_t gasnet_coll_scatterM_nb(gasnet_team_handle_t team,
                                                            void* const dstlist[],
                                                            gasnet_image_t srcimage, void* src,
                                                            size_t nbytes, int flags) {
  return GASNETC_(coll_move_nb)(GASNET_COLL_SCATTERM_OP, team, dstlist, srcimage, src, nbytes,
                                flags);
}
/* Copies the src of image i to block i of root's dst. */
GASNETC_INLINE void gasnet_coll_gather(gasnet_team_handle_t team, gasnet_image_t dstimage,
                                       void* dst, void* src, size_t nbytes, int flags) {
  GASNETC_(coll_move)(GASNET_COLL_GATHER_OP, team, dst, dstimage, src, nbytes, flags);
}
/* The same, begun only. */
GASNETC_INLINE gasnet_coll_handle_t gasnet_coll_gather_nb(gasnet_team_handle_t team,
                                                          gasnet_image_t dstimage, void* dst,
                                                          void* src, size_t nbytes, int flags) {
  return GASNETC_(coll_move_nb)(GASNET_COLL_GATHER_OP, team, dst, dstimage, src, nbytes, flags);
}
/* The same from a src for each image; srclist is as dstlist in gasnet_coll_broadcastM(). */
GASNETC_INLINE void gasnet_coll_gatherM(gasnet_team_handle_t team, gasnet_image_t dstimage,
                                        void* dst, void* const srclist[], size_t nbytes,
                                        int flags) {
  GASNETC_(coll_move)(GASNET_COLL_GATHERM_OP, team, dst, dstimage, srclist, nbytes, flags);
}
/* That, begun only. */
GASNETC_INLINE gasnet_coll_handle_t gasnet_coll_gatherM_nb(gasnet_team_handle_t team,
                                                           gasnet_image_t dstimage, void* dst,
                                                           void* const srclist[], size_t nbytes,
                                                           int flags) {
  return GASNETC_(coll_move_nb)(GASNET_COLL_GATHERM_OP, team, dst, dstimage, srclist, nbytes,
                                flags);
}
/* Copies the src of image i to block i of every dst. */
GASNETC_INLINE void gasnet_coll_gather_all(gasnet_team_handle_t team, void* dst, void* src,
                                           size_t nbytes, int flags) {
  GASNETC_(coll_move)(GASNET_COLL_GATHER_ALL_OP, team, dst, 0, src, nbytes, flags);
}
/* The same, begun only. */
GASNETC_INLINE gasnet_coll_handle_t gasnet_coll_gather_all_nb(gasnet_team_handle_t team, void* dst,
                                                              void* src, size_t nbytes, int flags) {
  return GASNETC_(coll_move_nb)(GASNET_COLL_GATHER_ALL_OP, team, dst, 0, src, nbytes, flags);
}
/* The same with a dst and a src for each image. */
GASNETC_INLINE void gasnet_coll_gather_allM(gasnet_team_handle_t team, void* const dstlist[],
                                            void* const srclist[], size_t nbytes, int flags) {
  GASNETC_(coll_move)(GASNET_COLL_GATHER_ALLM_OP, team, dstlist, 0, srclist, nbytes, flags);
}
/* That, begun only. */
GASNETC_INLINE gasnet_coll_handle_t gasnet_coll_gather_allM_nb(gasnet_team_handle_t team,
                                                               void* const dstlist[],
                                                               void* const srclist[], size_t nbytes,
                                                               int flags) {
  return GASNETC_(coll_move_nb)(GASNET_COLL_GATHER_ALLM_OP, team, dstlist, 0, srclist, nbytes,
                                flags);
}
/* Copies block j of image i's src to block i of image j's dst. */
GASNETC_INLINE void gasnet_coll_exchange(gasnet_team_handle_t team, void* dst, void* src,
                                         size_t nbytes, int flags) {
  GASNETC_(coll_move)(GASNET_COLL_EXCHANGE_OP, team, dst, 0, src, nbytes, flags);
}
/* The same, begun only. */
GASNETC_INLINE gasnet_coll_handle_t gasnet_coll_exchange_nb(gasnet_team_handle_t team, void* dst,
                                                            void* src, size_t nbytes, int flags) {
  return GASNETC_(coll_move_nb)(GASNET_COLL_EXCHANGE_OP, team, dst, 0, src, nbytes, flags);
}
/* The same with a dst and a src for each image. */
GASNETC_INLINE void gasnet_coll_exchangeM(gasnet_team_handle_t team, void* const dstlist[],
                                          void* const srclist[], size_t nbytes, int flags) {
  GASNETC_(coll_move)(GASNET_COLL_EXCHANGEM_OP, team, dstlist, 0, srclist, nbytes, flags);
}
/* That, begun only. */
GASNETC_INLINE gasnet_coll_handle_t gasnet_coll_exchangeM_nb(gasnet_team_handle_t team,
                                                             void* const dstlist[],
                                                             void* const srclist[], size_t nbytes,
                                                             int flags) {
  return GASNETC_(coll_move_nb)(GASNET_COLL_EXCHANGEM_OP, team, dstlist, 0, srclist, nbytes, flags);
}

/* ---- reductions: elem_count elements of each image are combined to elem_count elements at root's
 * dst. src_blksz and src_offset must be 0. ---- */
GASNETC_INLINE void gasnet_coll_reduce(gasnet_team_handle_t team, gasnet_image_t dstimage,
                                       void* dst, void* src, size_t src_blksz, size_t src_offset,
                                       size_t elem_size, size_t elem_count,
                                       gasnet_coll_fn_handle_t func, int func_arg, int flags) {
  const struct gasnetc_reduction how = {src_blksz,  src_offset, elem_size,
                                        elem_count, func,       func_arg};
  GASNETC_(coll_reduce)(GASNET_COLL_REDUCE_OP, team, dstimage, dst, src, &how, flags);
}
/* The same, begun only. */
GASNETC_INLINE gasnet_coll_handle_t
gasnet_coll_reduce_nb(gasnet_team_handle_t team, gasnet_image_t dstimage, void* dst, void* src,
                      size_t src_blksz, size_t src_offset, size_t elem_size, size_t elem_count,
                      gasnet_coll_fn_handle_t func, int func_arg, int flags) {
  const struct gasnetc_reduction how = {src_blksz,  src_offset, elem_size,
                                        elem_count, func,       func_arg};
  return GASNETC_(coll_reduce_nb)(GASNET_COLL_REDUCE_OP, team, dstimage, dst, src, &how, flags);
}
/* The same from a src for each image. */
GASNETC_INLINE void gasnet_coll_reduceM(gasnet_team_handle_t team, gasnet_image_t dstimage,
                                        void* dst, void* const srclist[], size_t src_blksz,
                                        size_t src_offset, size_t elem_size, size_t elem_count,
                                        gasnet_coll_fn_handle_t func, int func_arg, int flags) {
  const struct gasnetc_reduction how = {src_blksz,  src_offset, elem_size,
                                        elem_count, func,       func_arg};
  GASNETC_(coll_reduce)(GASNET_COLL_REDUCEM_OP, team, dstimage, dst, srclist, &how, flags);
}
/* That, begun only. */
GASNETC_INLINE gasnet_coll_handle_t
gasnet_coll_reduceM_nb(gasnet_team_handle_t team, gasnet_image_t dstimage, void* dst,
                       void* const srclist[], size_t src_blksz, size_t src_offset, size_t elem_size,
                       size_t elem_count, gasnet_coll_fn_handle_t func, int func_arg, int flags) {
  const struct gasnetc_reduction how = {src_blksz,  src_offset, elem_size,
                                        elem_count, func,       func_arg};
  return GASNETC_(coll_reduce_nb)(GASNET_COLL_REDUCEM_OP, team, dstimage, dst, srclist, &how,
                                  flags);
}

/* ---- scans are declared, as in GASNet, and end the job ---- */
#define gasnet_coll_scan(team, dst, dst_blksz, dst_offset, src, src_blksz, src_offset, elem_size, \
                         elem_count, func, func_arg, flags)                                       \
  GASNETC_(coll_no_scan)()
#define gasnet_coll_scanM(team, dstlist, dst_blksz, dst_offset, srclist, src_blksz, src_offset, \
                          elem_size, elem_count, func, func_arg, flags)                         \
  GASNETC_(coll_no_scan)()
#define gasnet_coll_scan_nb(team, dst, dst_blksz, dst_offset, src, src_blksz, src_offset, \
                            elem_size, elem_count, func, func_arg, flags)                 \
  (GASNETC_(coll_no_scan)(), GASNET_COLL_INVALID_HANDLE)
#define gasnet_coll_scanM_nb(team, dstlist, dst_blksz, dst_offset, srclist, src_blksz, src_offset, \
                             elem_size, elem_count, func, func_arg, flags)                         \
  (GASNETC_(coll_no_scan)(), GASNET_COLL_INVALID_HANDLE)

/* ---- teams: nodes that give the same color form one, in which relrank is their rank. The call is
 * collective over parent, by one thread of each node. ---- */
#define gasnet_coll_team_split(parent, color, relrank, clientdata) \
  ((void)(clientdata), GASNETC_(team_split)((parent), (color), (relrank)))
#define gasnet_coll_team_size(team) GASNETC_(team_size)(team)
#define gasnet_coll_team_rank2node(team, rank) GASNETC_(team_rank2node)((team), (rank))
#define gasnet_coll_team_node2rank(team, node) GASNETC_(team_node2rank)((team), (node))

/* ---- barriers over a team: one thread of each node calls them, or with GASNET_BARRIERFLAG_IMAGES
 * all images ---- */
#define gasnet_coll_barrier_notify(team, id, flags) GASNETC_(team_notify)((team), (id), (flags))
#define gasnet_coll_barrier_wait(team, id, flags) GASNETC_(team_wait)((team), (id), (flags))
#define gasnet_coll_barrier_try(team, id, flags) GASNETC_(team_try)((team), (id), (flags))
#define gasnet_coll_barrier_result(team, id) GASNETC_(team_result)((team), (id))
/* Notify and wait in one call; the result is that of the wait. */
GASNETC_INLINE int gasnet_coll_barrier(gasnet_team_handle_t team, int id, int flags) {
  GASNETC_(team_notify)(team, id, flags);
  return GASNETC_(team_wait)(team, id, flags);
}

/* ---- tuning: these calls change nothing ---- */
#define gasnet_coll_dumpTuningState(file, team) ((void)(file), (void)(team))
#define gasnet_coll_dumpProfile(file, team) ((void)(file), (void)(team))
#define gasnet_coll_loadTuningState(file, team) ((void)(file), (void)(team))

GASNETT_END_EXTERNC

#include <gasnet_ex_coll.h>

#endif
