/* Memory of other nodes that this process reaches by load and store: where it lies here, and plain
 * copies to and from it, which is all that a put or get of it is. For gasnet_extended.h and what
 * builds on it; no client calls anything of this by itself.
 *
 * The library has a table of windows, an entry a node, that the functions below read. They are
 * compiled into the client, so a window's layout is part of the library's binary interface: what
 * stands in it may be added to, and keeps its place. A size that the compiler knows, of up to eight
 * bytes, costs one comparison and one instruction that copies; another one, two comparisons. */
#ifndef _IN_PENSTOCK_GASNET_REACH_H
#define _IN_PENSTOCK_GASNET_REACH_H
#ifndef _IN_PENSTOCK_GASNET_MODE_H
#error include gasnet.h or gasnetex.h
#endif

GASNETT_BEGIN_EXTERNC

/* The part of a node's memory that this process can reach by load and store. Until it is known
 * (mapped on the first access) size and words are 0, which allow no offset, and base is
 * GASNETC_NOWHERE, from where every address is at an offset that is larger than a segment. base is
 * written last, once; a reader that sees it finds the rest. */
struct gasnetc_window {
  uintptr_t base; /* in the node's own address space */
  uintptr_t size;
  uintptr_t here;  /* in this one; a number, as with segment everything both start at 0 */
  uintptr_t words; /* eight bytes may start below this offset: size - 7 */
};
#define GASNETC_NOWHERE ((uintptr_t)1 << (8 * sizeof(uintptr_t) - 1))
#define GASNETC_MOST_NODES 65536 /* so gasnetc_find takes 16 bits of a rank */
/* The table has room for the largest job, and is there from the start; where there is no node it
 * has zeros. Since the pointer never changes, compilers load it once, whatever a put may overwrite.
 */
extern struct gasnetc_window* const GASNETC_(windows);

/* The compiler knows the size, and it is one value's. */
#define GASNETC_IS_VALUE(nbytes) (__builtin_constant_p(nbytes) && (nbytes) <= 8)

/* Reading a window, base first. Plain loads are worth it: compilers do not join atomic ones with
 * the instruction that uses them. On x86 the machine keeps the order; elsewhere base is acquired.
 * For the thread sanitizer all are atomic. */
#if defined(__SANITIZE_THREAD__)
#define GASNETC_PLAIN_LOADS 0
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define GASNETC_PLAIN_LOADS 0
#endif
#endif
#ifndef GASNETC_PLAIN_LOADS
#define GASNETC_PLAIN_LOADS 1
#endif
#if GASNETC_PLAIN_LOADS && (defined(__x86_64__) || defined(__i386__))
#define GASNETC_BASE(w) ((w)->base)
#else
/* acquire: what is behind base is written before it */
#define GASNETC_BASE(w) __atomic_load_n(&(w)->base, __ATOMIC_ACQUIRE)
#endif
#if GASNETC_PLAIN_LOADS
#define GASNETC_BEHIND_BASE(member) (member)
#else
#define GASNETC_BEHIND_BASE(member) __atomic_load_n(&(member), __ATOMIC_RELAXED)
#endif

/* 1, and at *here where [addr, addr+nbytes) of node lies here; 0 if it cannot be reached by load
 * and store. Of the last seven bytes of a window values are not found; the library's calls do. */
GASNETC_INLINE int gasnetc_find(gasnet_node_t node, const void* addr, size_t nbytes, char** here) {
#if defined(GASNET_DEBUG)
  GASNETC_(check_transfer)(node, addr, nbytes);
#endif
  /* No rank leads out of the table, GEX_RANK_INVALID neither: its entry has zeros. */
  const struct gasnetc_window* const w = &GASNETC_(windows)[(uint16_t)node];
  /* W2 reach  acquire base  <- W1 (startup.cpp): the rest is there */
  const uintptr_t offset = (uintptr_t)addr - GASNETC_BASE(w);
  __atomic_signal_fence(__ATOMIC_ACQUIRE);
  if (GASNETC_IS_VALUE(nbytes)) {
    if_pf(offset >= GASNETC_BEHIND_BASE(w->words)) return 0;
  } else {
    const uintptr_t size = GASNETC_BEHIND_BASE(w->size);
    if_pf(offset >= size || nbytes > size - offset) return 0;
  }
  *here = (char*)(GASNETC_BEHIND_BASE(w->here) + offset);
  return 1;
}
GASNETC_INLINE char* gasnetc_reach(gasnet_node_t node, const void* addr, size_t nbytes) {
  char* here;
  return gasnetc_find(node, addr, nbytes, &here) ? here : NULL;
}

/* memcpy that makes no call for the sizes of single values, also where the compiler does not know
 * them. */
GASNETC_INLINE void gasnetc_copy(void* to, const void* from, size_t nbytes) {
  if (__builtin_constant_p(nbytes) && nbytes != 0)
    memcpy(to, from, nbytes);
  else if (nbytes == 8)
    memcpy(to, from, 8);
  else if (nbytes == 4)
    memcpy(to, from, 4);
  else if (nbytes != 0) /* addresses of no bytes may be null, and memcpy takes no such */
    memcpy(to, from, nbytes);
}

/* Whether a transfer that is not waited for is so large that the library may copy it beside the
 * program, by the progress thread (PENSTOCK_PROGRESS_THREAD): it is left to the library. */
#define GASNETC_BESIDE_BYTES ((size_t)512 << 10)
GASNETC_INLINE int gasnetc_may_go_beside(size_t nbytes) {
  /* What is known of nbytes behind a comparison would have compilers warn of the client's code. */
  if (!__builtin_constant_p(nbytes)) __asm__("" : "+r"(nbytes));
  return GASNETT_PREDICT_FALSE(nbytes >= GASNETC_BESIDE_BYTES);
}

/* Each of the three: not 0 if it was done by copying; else the caller calls the library. Afterwards
 * earlier stores of this thread are visible before later ones, or later loads come after. */
GASNETC_INLINE int gasnetc_put_here(gasnet_node_t node, void* dest, const void* src,
                                    size_t nbytes) {
  char* to;
  if_pf(!gasnetc_find(node, dest, nbytes, &to)) return 0;
  gasnetc_copy(to, src, nbytes);
  __atomic_thread_fence(__ATOMIC_RELEASE); /* release: as said above */
  return 1;
}
GASNETC_INLINE int gasnetc_get_here(void* dest, gasnet_node_t node, const void* src,
                                    size_t nbytes) {
  char* from;
  if_pf(!gasnetc_find(node, src, nbytes, &from)) return 0;
  gasnetc_copy(dest, from, nbytes);
  __atomic_thread_fence(__ATOMIC_ACQUIRE); /* acquire: as said above */
  return 1;
}
GASNETC_INLINE int gasnetc_set_here(gasnet_node_t node, void* dest, int val, size_t nbytes) {
  char* to;
  if_pf(!gasnetc_find(node, dest, nbytes, &to)) return 0;
  memset(to, val, nbytes);
  __atomic_thread_fence(__ATOMIC_RELEASE); /* release: as said above */
  return 1;
}

/* ---- what the library of this mode defines for values: they travel in a register, so that the
 * client's variables need not lie in memory for a call that is seldom made ---- */
enum gasnetc_form { gasnetc_blocking = 0, gasnetc_explicit = 1, gasnetc_implicit = 2 };
/* The first nbytes bytes of value. An event only if it is asked for. */
extern gasnet_handle_t GASNETC_(put_small)(enum gasnetc_form form, gasnet_node_t node, void* dest,
                                           uint64_t value, size_t nbytes);
extern uint64_t GASNETC_(get_small)(gasnet_node_t node, const void* src, size_t nbytes);
GASNETC_INLINE uint64_t gasnetc_value(const void* src, size_t nbytes) {
  uint64_t value = 0;
  memcpy(&value, src, nbytes);
  return value;
}

GASNETT_END_EXTERNC

#endif
