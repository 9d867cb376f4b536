/* Names that no specification has but that clients of GASNet 1.28.2 take, UPC++ 0.1 among them.
 * Part of gasnet.h. */
#ifndef _IN_PENSTOCK_GASNET_INTERNAL_NAMES_H
#define _IN_PENSTOCK_GASNET_INTERNAL_NAMES_H
#ifndef _GASNET_H
#error include gasnet.h
#endif

/* ---- the two 32-bit words of a 64-bit value, and the value of two words ---- */
#define GASNETI_HIWORD(value) ((uint32_t)((uint64_t)(value) >> 32))
#define GASNETI_LOWORD(value) ((uint32_t)(uint64_t)(value))
#define GASNETI_MAKEWORD(hi, lo) (((uint64_t)(hi) << 32) | ((uint64_t)(lo)&0xffffffffu))

/* ---- handlers by name: the client has an enumerator _hidx_f for each handler f; f_64 is what
 * gasnet_handler.h makes of one whose arguments hold pointers ---- */
#if GASNET_USE_STRICT_PROTOTYPES
typedef void* gasneti_handler_fn_t;
#else
typedef gasneti_any_function_t gasneti_handler_fn_t;
#endif
#define gasneti_handleridx(f) _CONCAT(_hidx_, f)
#define gasneti_handler_tableentry_no_bits(f) \
  { gasneti_handleridx(f), (gasneti_handler_fn_t)f }
#define gasneti_handler_tableentry_with_bits(f) \
  { gasneti_handleridx(f), (gasneti_handler_fn_t)_CONCAT(f, _64) }

/* ---- other names of what gasnet.h and gasnet_tools.h have ---- */
#define gasneti_nodes GASNETC_(nodes)
#define gasneti_mynode GASNETC_(mynode)
#define gasneti_fatalerror gasnett_fatalerror
#define gasneti_gethostname gasnett_gethostname
#define GASNETE_THREAD_GET /* stands after the last argument, without a comma */
#define gasnete_coll_team_split gasnet_coll_team_split
#define gasnete_coll_team_size gasnet_coll_team_size
#define gasnete_coll_team_rank2node gasnet_coll_team_rank2node
#define gasnete_coll_team_node2rank gasnet_coll_team_node2rank
/* gasnet_try_syncnb() without its poll. */
#define gasnet_try_syncnb_nopoll(handle) gex_Event_Test(handle)

#endif
