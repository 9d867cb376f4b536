/* The extended interface of gasnet.h: put and get in every form, their synchronization, barriers,
 * thread information. Specification chapter 3.
 *
 * Where the other process's memory is mapped here, or is this process's own, a put or get is a
 * plain copy: inline functions do it (gasnet_reach.h), and it is complete when they return. All
 * else is a call. Copies are not counted (PENSTOCK_COUNTERS): nothing travels. "Complete" orders
 * copies as the machine orders its stores; a client that needs a put to be globally visible before
 * it loads something else uses gasnett_local_mb, or a barrier. */
#ifndef _IN_PENSTOCK_GASNET_EXTENDED_H
#define _IN_PENSTOCK_GASNET_EXTENDED_H
#ifndef _IN_PENSTOCK_GASNET_MODE_H
#error include gasnet.h or gasnetex.h
#endif

#include <gasnet_reach.h>

GASNETT_BEGIN_EXTERNC

/* ---- what the library of this mode defines ---- */
enum gasnetc_kind { gasnetc_puts = 1, gasnetc_gets = 2, gasnetc_all = 3 };

extern void GASNETC_(put)(gasnet_node_t node, void* dest, const void* src, size_t nbytes);
extern void GASNETC_(get)(void* dest, gasnet_node_t node, const void* src, size_t nbytes);
extern void GASNETC_(memset)(gasnet_node_t node, void* dest, int val, size_t nbytes);
/* With bulk, src must not be changed until the synchronization, without it until the call returns.
 */
extern gasnet_handle_t GASNETC_(put_nb)(gasnet_node_t node, void* dest, const void* src,
                                        size_t nbytes, int bulk);
extern gasnet_handle_t GASNETC_(get_nb)(void* dest, gasnet_node_t node, const void* src,
                                        size_t nbytes);
extern gasnet_handle_t GASNETC_(memset_nb)(gasnet_node_t node, void* dest, int val, size_t nbytes);
extern void GASNETC_(put_nbi)(gasnet_node_t node, void* dest, const void* src, size_t nbytes,
                              int bulk);
extern void GASNETC_(get_nbi)(void* dest, gasnet_node_t node, const void* src, size_t nbytes);
extern void GASNETC_(memset_nbi)(gasnet_node_t node, void* dest, int val, size_t nbytes);
extern int GASNETC_(try_handle)(gasnet_handle_t handle);
extern void GASNETC_(wait_handle)(gasnet_handle_t handle);
extern int GASNETC_(try_handles)(gasnet_handle_t* handles, size_t count, int some);
extern void GASNETC_(wait_handles)(gasnet_handle_t* handles, size_t count, int some);
extern int GASNETC_(try_implicit)(enum gasnetc_kind kind);
extern void GASNETC_(wait_implicit)(enum gasnetc_kind kind);
/* Not 0 after the first implicit operation of any thread that was more than a copy. A thread that
 * waits has to see only what it has written itself. */
extern int GASNETC_(implicit_begun);
#define GASNETC_NOTHING_IMPLICIT() \
  GASNETT_PREDICT_TRUE(__atomic_load_n(&GASNETC_(implicit_begun), __ATOMIC_RELAXED) == 0)
extern void GASNETC_(begin_region)(void);
extern gasnet_handle_t GASNETC_(end_region)(void);
extern gasnet_register_value_t GASNETC_(wait_value)(gasnet_handle_t op);
extern gasnet_handle_t GASNETC_(get_value)(gasnet_node_t node, const void* src, size_t nbytes);
extern void GASNETC_(barrier_notify)(int id, int flags);
extern int GASNETC_(barrier_wait)(int id, int flags);
extern int GASNETC_(barrier_try)(int id, int flags);
extern int GASNETC_(barrier_result)(int* id);
extern gasnet_threadinfo_t GASNETC_(threadinfo)(void);

/* ---- blocking (3.2) ---- */
GASNETC_INLINE void gasnetc_put_far(gasnet_node_t node, void* dest, const void* src,
                                    size_t nbytes) {
  if (GASNETC_IS_VALUE(nbytes))
    (void)GASNETC_(put_small)(gasnetc_blocking, node, dest, gasnetc_value(src, nbytes), nbytes);
  else
    GASNETC_(put)(node, dest, src, nbytes);
}
GASNETC_INLINE void gasnetc_get_far(void* dest, gasnet_node_t node, const void* src,
                                    size_t nbytes) {
  if (GASNETC_IS_VALUE(nbytes)) {
    const uint64_t value = GASNETC_(get_small)(node, src, nbytes);
    memcpy(dest, &value, nbytes);
  } else
    GASNETC_(get)(dest, node, src, nbytes);
}
/* Puts nbytes of src at dest in the node's segment, and waits, polling, until they are there. To
 * mapped memory it is a copy. */
GASNETC_INLINE void gasnet_put(gasnet_node_t node, void* dest, const void* src, size_t nbytes) {
  if_pf(!gasnetc_put_here(node, dest, src, nbytes)) gasnetc_put_far(node, dest, src, nbytes);
}
/* Copies nbytes from src in the node's segment to dest, and waits, polling, until they are here. */
GASNETC_INLINE void gasnet_get(void* dest, gasnet_node_t node, const void* src, size_t nbytes) {
  if_pf(!gasnetc_get_here(dest, node, src, nbytes)) gasnetc_get_far(dest, node, src, nbytes);
}
/* Sets nbytes at dest in the node's segment to val, and waits, polling, until they are set. */
GASNETC_INLINE void gasnet_memset(gasnet_node_t node, void* dest, int val, size_t nbytes) {
  if_pf(!gasnetc_set_here(node, dest, val, nbytes)) GASNETC_(memset)(node, dest, val, nbytes);
}
#define gasnet_put_bulk(node, dest, src, nbytes) gasnet_put((node), (dest), (src), (nbytes))
#define gasnet_get_bulk(dest, node, src, nbytes) gasnet_get((dest), (node), (src), (nbytes))

/* ---- explicit handles (3.3.2) ---- */
GASNETC_INLINE gasnet_handle_t gasnetc_put_nb(gasnet_node_t node, void* dest, const void* src,
                                              size_t nbytes, int bulk) {
  if_pt(!(bulk && gasnetc_may_go_beside(nbytes)) &&
        gasnetc_put_here(node, dest, src, nbytes)) return GASNET_INVALID_HANDLE;
  if (GASNETC_IS_VALUE(nbytes))
    return GASNETC_(put_small)(gasnetc_explicit, node, dest, gasnetc_value(src, nbytes), nbytes);
  return GASNETC_(put_nb)(node, dest, src, nbytes, bulk);
}
/* Begins a get. GASNET_INVALID_HANDLE: it is complete; else dest holds the bytes once the handle
 * has been synced. */
GASNETC_INLINE gasnet_handle_t gasnet_get_nb(void* dest, gasnet_node_t node, const void* src,
                                             size_t nbytes) {
  if_pt(!gasnetc_may_go_beside(nbytes) &&
        gasnetc_get_here(dest, node, src, nbytes)) return GASNET_INVALID_HANDLE;
  return GASNETC_(get_nb)(dest, node, src, nbytes);
}
/* Begins to set nbytes at dest to val; the result as of gasnet_get_nb(). */
GASNETC_INLINE gasnet_handle_t gasnet_memset_nb(gasnet_node_t node, void* dest, int val,
                                                size_t nbytes) {
  if_pt(gasnetc_set_here(node, dest, val, nbytes)) return GASNET_INVALID_HANDLE;
  return GASNETC_(memset_nb)(node, dest, val, nbytes);
}
#define gasnet_put_nb(node, dest, src, nbytes) gasnetc_put_nb((node), (dest), (src), (nbytes), 0)
#define gasnet_put_nb_bulk(node, dest, src, nbytes) \
  gasnetc_put_nb((node), (dest), (src), (nbytes), 1)
#define gasnet_get_nb_bulk(dest, node, src, nbytes) gasnet_get_nb((dest), (node), (src), (nbytes))

/* Polls once: GASNET_OK if the operation is complete, which uses the handle up, else
 * GASNET_ERR_NOT_READY. */
GASNETC_INLINE int gasnet_try_syncnb(gasnet_handle_t handle) {
  return handle == GASNET_INVALID_HANDLE ? GASNET_OK : GASNETC_(try_handle)(handle);
}
/* Waits, polling, until the operation is complete, which uses the handle up. */
GASNETC_INLINE void gasnet_wait_syncnb(gasnet_handle_t handle) {
  if_pf(handle != GASNET_INVALID_HANDLE) GASNETC_(wait_handle)(handle);
}
/* Polls once: GASNET_OK if all operations are complete, else GASNET_ERR_NOT_READY. Entries may be
 * GASNET_INVALID_HANDLE, and become so as they are complete. */
GASNETC_INLINE int gasnet_try_syncnb_all(gasnet_handle_t* handles, size_t numhandles) {
  return GASNETC_(try_handles)(handles, numhandles, 0);
}
/* The same: GASNET_OK if one or more have become complete, or no entry is valid. */
GASNETC_INLINE int gasnet_try_syncnb_some(gasnet_handle_t* handles, size_t numhandles) {
  return GASNETC_(try_handles)(handles, numhandles, 1);
}
/* Waits, polling, until all are complete. */
GASNETC_INLINE void gasnet_wait_syncnb_all(gasnet_handle_t* handles, size_t numhandles) {
  GASNETC_(wait_handles)(handles, numhandles, 0);
}
/* Waits, polling, until one or more are complete, or no entry is valid. */
GASNETC_INLINE void gasnet_wait_syncnb_some(gasnet_handle_t* handles, size_t numhandles) {
  GASNETC_(wait_handles)(handles, numhandles, 1);
}

/* ---- implicit handles and access regions (3.3.4 to 3.3.6) ---- */
GASNETC_INLINE void gasnetc_put_nbi(gasnet_node_t node, void* dest, const void* src, size_t nbytes,
                                    int bulk) {
  if_pt(!(bulk && gasnetc_may_go_beside(nbytes)) &&
        gasnetc_put_here(node, dest, src, nbytes)) return;
  if (GASNETC_IS_VALUE(nbytes))
    (void)GASNETC_(put_small)(gasnetc_implicit, node, dest, gasnetc_value(src, nbytes), nbytes);
  else
    GASNETC_(put_nbi)(node, dest, src, nbytes, bulk);
}
/* Begins a get that gasnet_wait_syncnbi_gets() and its kin wait for, or that of the access region.
 */
GASNETC_INLINE void gasnet_get_nbi(void* dest, gasnet_node_t node, const void* src, size_t nbytes) {
  if_pf(gasnetc_may_go_beside(nbytes) || !gasnetc_get_here(dest, node, src, nbytes))
      GASNETC_(get_nbi)(dest, node, src, nbytes);
}
/* Begins to set nbytes at dest to val; it counts as a put. */
GASNETC_INLINE void gasnet_memset_nbi(gasnet_node_t node, void* dest, int val, size_t nbytes) {
  if_pf(!gasnetc_set_here(node, dest, val, nbytes)) GASNETC_(memset_nbi)(node, dest, val, nbytes);
}
#define gasnet_put_nbi(node, dest, src, nbytes) gasnetc_put_nbi((node), (dest), (src), (nbytes), 0)
#define gasnet_put_nbi_bulk(node, dest, src, nbytes) \
  gasnetc_put_nbi((node), (dest), (src), (nbytes), 1)
#define gasnet_get_nbi_bulk(dest, node, src, nbytes) gasnet_get_nbi((dest), (node), (src), (nbytes))
GASNETC_INLINE int gasnetc_try_implicit(enum gasnetc_kind kind) {
  return GASNETC_NOTHING_IMPLICIT() ? GASNET_OK : GASNETC_(try_implicit)(kind);
}
GASNETC_INLINE void gasnetc_wait_implicit(enum gasnetc_kind kind) {
  if_pf(!GASNETC_NOTHING_IMPLICIT()) GASNETC_(wait_implicit)(kind);
}
#define gasnet_try_syncnbi_puts() gasnetc_try_implicit(gasnetc_puts)
#define gasnet_try_syncnbi_gets() gasnetc_try_implicit(gasnetc_gets)
#define gasnet_try_syncnbi_all() gasnetc_try_implicit(gasnetc_all)
#define gasnet_wait_syncnbi_puts() gasnetc_wait_implicit(gasnetc_puts)
#define gasnet_wait_syncnbi_gets() gasnetc_wait_implicit(gasnetc_gets)
#define gasnet_wait_syncnbi_all() gasnetc_wait_implicit(gasnetc_all)
#define gasnet_begin_nbi_accessregion() GASNETC_(begin_region)()
#define gasnet_end_nbi_accessregion() GASNETC_(end_region)()

/* ---- values in registers (3.4): nbytes is 1 to SIZEOF_GASNET_REGISTER_VALUE_T ---- */
#if PLATFORM_ARCH_LITTLE_ENDIAN
#define GASNETC_LOW_BYTES(value, nbytes) ((char*)&(value))
#else
#define GASNETC_LOW_BYTES(value, nbytes) ((char*)&(value) + sizeof(value) - (nbytes))
#endif
GASNETC_INLINE void gasnetc_check_value(const char* call, gasnet_node_t rank, size_t nbytes) {
  if_pf(nbytes - 1 >= sizeof(gasnet_register_value_t))
      GASNETC_(mistake)(gasnetc_value_bytes, call, rank, nbytes);
}
/* Puts the low nbytes of value, and waits, polling, until they are there. */
GASNETC_INLINE void gasnet_put_val(gasnet_node_t node, void* dest, gasnet_register_value_t value,
                                   size_t nbytes) {
  gasnetc_check_value("gasnet_put_val", node, nbytes);
  gasnet_put(node, dest, GASNETC_LOW_BYTES(value, nbytes), nbytes);
}
/* Begins a put of the low nbytes of value; the result as of gasnet_get_nb(). */
GASNETC_INLINE gasnet_handle_t gasnet_put_nb_val(gasnet_node_t node, void* dest,
                                                 gasnet_register_value_t value, size_t nbytes) {
  gasnetc_check_value("gasnet_put_nb_val", node, nbytes);
  return gasnet_put_nb(node, dest, GASNETC_LOW_BYTES(value, nbytes), nbytes);
}
/* Begins such a put without a handle. */
GASNETC_INLINE void gasnet_put_nbi_val(gasnet_node_t node, void* dest,
                                       gasnet_register_value_t value, size_t nbytes) {
  gasnetc_check_value("gasnet_put_nbi_val", node, nbytes);
  gasnet_put_nbi(node, dest, GASNETC_LOW_BYTES(value, nbytes), nbytes);
}
/* The nbytes at src in the node's segment, as the low bytes of the result; waits for them, polling.
 */
GASNETC_INLINE gasnet_register_value_t gasnet_get_val(gasnet_node_t node, const void* src,
                                                      size_t nbytes) {
  gasnet_register_value_t value = 0;
  gasnetc_check_value("gasnet_get_val", node, nbytes);
  gasnet_get(GASNETC_LOW_BYTES(value, nbytes), node, src, nbytes);
  return value;
}
/* The operation is invalid when the value is there already. */
typedef struct {
  gasnet_register_value_t gasnetc_value;
  gasnet_handle_t gasnetc_op;
} gasnet_valget_handle_t;
/* Begins to get them. The handle belongs to gasnet_wait_syncnb_valget() alone. */
GASNETC_INLINE gasnet_valget_handle_t gasnet_get_nb_val(gasnet_node_t node, const void* src,
                                                        size_t nbytes) {
  gasnet_valget_handle_t h = {0, GASNET_INVALID_HANDLE};
  gasnetc_check_value("gasnet_get_nb_val", node, nbytes);
  if_pf(!gasnetc_get_here(GASNETC_LOW_BYTES(h.gasnetc_value, nbytes), node, src, nbytes))
      h.gasnetc_op = GASNETC_(get_value)(node, src, nbytes);
  return h;
}
/* Waits, polling, for the value, which uses the handle up. */
GASNETC_INLINE gasnet_register_value_t gasnet_wait_syncnb_valget(gasnet_valget_handle_t handle) {
  if_pt(handle.gasnetc_op == GASNET_INVALID_HANDLE) return handle.gasnetc_value;
  return GASNETC_(wait_value)(handle.gasnetc_op);
}

/* ---- barriers (3.5). The flags of notify and wait may differ: an anonymous side matches any name.
 * They must not be called in a handler ---- */
#define GASNET_BARRIERFLAG_ANONYMOUS 1
#define GASNET_BARRIERFLAG_MISMATCH 2
#define GASNET_BARRIERFLAG_IMAGES 4
/* Beyond anonymous it promises that nobody names this barrier or asks for its result. */
#define GASNET_BARRIERFLAG_UNNAMED (GASNET_BARRIERFLAG_ANONYMOUS | 8)
/* Says that this process has come to the barrier of that name. One thread of each process; it does
 * not wait for others. */
GASNETC_INLINE void gasnet_barrier_notify(int id, int flags) {
  GASNETC_(barrier_notify)(id, flags);
}
/* Waits, polling, until all have come: GASNET_OK, or GASNET_ERR_BARRIER_MISMATCH if two named it
 * otherwise, or one gave GASNET_BARRIERFLAG_MISMATCH. */
GASNETC_INLINE int gasnet_barrier_wait(int id, int flags) {
  return GASNETC_(barrier_wait)(id, flags);
}
/* Polls once: as gasnet_barrier_wait() if all have come, else GASNET_ERR_NOT_READY. */
GASNETC_INLINE int gasnet_barrier_try(int id, int flags) {
  return GASNETC_(barrier_try)(id, flags);
}
/* Notify and wait in one call. */
GASNETC_INLINE int gasnet_barrier(int id, int flags) {
  GASNETC_(barrier_notify)(id, flags);
  return GASNETC_(barrier_wait)(id, flags);
}
/* Writes the name of the barrier passed last to *id and returns 0; returns another number if all
 * sides were anonymous. */
GASNETC_INLINE int gasnet_barrier_result(int* id) { return GASNETC_(barrier_result)(id); }

/* ---- threads (3.6.1): posting is accepted, but the library finds a thread's data as fast without
 * ---- */
#define GASNET_GET_THREADINFO() GASNETC_(threadinfo)()
#define GASNET_POST_THREADINFO(info) \
  const gasnet_threadinfo_t gasnetc_posted __attribute__((__unused__)) = (info)
#define GASNET_BEGIN_FUNCTION() GASNET_POST_THREADINFO(GASNET_GET_THREADINFO())

GASNETT_END_EXTERNC

#endif
