/* The collective operations that every conformance program and many clients use: set-up and
 * broadcast, blocking, one image for each process. Part of gasnet.h; may be included by itself
 * after it. The other collectives are not offered. */
#ifndef _GASNET_COLL_H
#define _GASNET_COLL_H
#ifndef _INCLUDED_GASNET_H
#error include gasnet.h
#endif

/* ---- flags: one of IN_*, one of OUT_*, one of SINGLE and LOCAL. What is weaker than ALLSYNC is
 * treated as ALLSYNC, and addresses of other processes (SINGLE) are not looked at ---- */
#define GASNET_COLL_IN_NOSYNC (1 << 0)
#define GASNET_COLL_IN_MYSYNC (1 << 1)
#define GASNET_COLL_IN_ALLSYNC (1 << 2)
#define GASNET_COLL_OUT_NOSYNC (1 << 3)
#define GASNET_COLL_OUT_MYSYNC (1 << 4)
#define GASNET_COLL_OUT_ALLSYNC (1 << 5)
#define GASNET_COLL_SINGLE (1 << 6)
#define GASNET_COLL_LOCAL (1 << 7)
#define GASNET_COLL_SRC_IN_SEGMENT (1 << 8)
#define GASNET_COLL_DST_IN_SEGMENT (1 << 9)

typedef uint32_t gasnet_image_t;
typedef struct gasnetc_team* gasnet_team_handle_t;
#define GASNET_TEAM_ALL ((gasnet_team_handle_t)0)
typedef struct {
  void (*fnptr)(void);
  unsigned int flags;
} gasnet_coll_fn_entry_t;

GASNETT_BEGIN_EXTERNC

extern void GASNETC_(coll_init)(const gasnet_image_t images[], size_t functions);
extern void GASNETC_(coll_broadcast)(gasnet_team_handle_t team, void* dst, gasnet_image_t root,
                                     const void* src, size_t nbytes);

GASNETT_END_EXTERNC

/* Collective, once, after gasnet_attach. images: NULL, or one for each process, each 1. */
#define gasnet_coll_init(images, my_image, fn_tbl, fn_count, init_flags) \
  ((void)(my_image), (void)(fn_tbl), (void)(init_flags),                 \
   GASNETC_(coll_init)((images), (size_t)(fn_count)))
/* Collective; by one thread of each process. The nbytes at root's src come to everybody's dst, also
 * root's own; src may be dst. Waits, polling, until all have them. */
#define gasnet_coll_broadcast(team, dst, srcimage, src, nbytes, flags) \
  ((void)(flags), GASNETC_(coll_broadcast)((team), (dst), (srcimage), (src), (nbytes)))

#endif
